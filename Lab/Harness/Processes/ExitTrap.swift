/// Aborts a program whose end calls the handlers of atexit(3).
public struct ExitTrap {
    private let library: String

    public init() throws { library = try PreloadedLibrary.exitTrap.path() }

    /// A command that runs a program with the trap.
    public var wrapper: [String] { ["env", "LD_PRELOAD=\(library)"] }
}
