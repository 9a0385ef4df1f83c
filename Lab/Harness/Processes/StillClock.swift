/// A time of day that stands still in running programs until it is set. The programs must have been started with `environment`.
public final class StillClock {
    private let library: String
    private let time: SharedNumber

    /// - Parameter microseconds: since 1970.
    public init(microseconds: Int64) throws {
        library = try PreloadedLibrary.clockShift.path()
        time = try SharedNumber()
        set(microseconds: microseconds)
    }

    public var environment: [String: String] { ["LD_PRELOAD": library, "CLOCK_STILL_FILE": time.path] }

    /// - Parameter microseconds: since 1970.
    public func set(microseconds: Int64) { time.set(microseconds) }
}
