/// A resolver that hangs when a test says so. The program must have been started with `environment`.
public final class HangingNames {
    private let library: String
    private let hangs: SharedNumber

    public init() throws {
        library = try PreloadedLibrary.hangingNames.path()
        hangs = try SharedNumber()
        hangs.set(0)
    }

    public var environment: [String: String] { ["LD_PRELOAD": library, "HANGING_NAMES_FILE": hangs.path] }

    /// From now on no lookup of a name returns.
    public func hang() { hangs.set(1) }

    /// From now on lookups return, also those that hang.
    public func release() { hangs.set(0) }
}
