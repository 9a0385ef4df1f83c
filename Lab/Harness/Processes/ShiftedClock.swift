/// A time of day that tests move for running programs. The programs must have been started with `environment`.
public final class ShiftedClock {
    private let library: String
    private let shift: SharedNumber

    public init() throws {
        library = try PreloadedLibrary.clockShift.path()
        shift = try SharedNumber()
        move(to: .zero)
    }

    public var environment: [String: String] { ["LD_PRELOAD": library, "CLOCK_SHIFT_FILE": shift.path] }

    /// Sets the distance to the true time, in whole seconds.
    public func move(to distance: Duration) { shift.set(distance.components.seconds) }
}
