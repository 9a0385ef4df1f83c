import Glibc

/// The number of threads that a program may still start. The program must run under `wrapper`.
public final class ThreadLimit {
    private let library: String
    private let left: SharedNumber

    /// - Parameter left: threads besides the first one.
    public init(_ left: Int) throws {
        library = try PreloadedLibrary.threadLimit.path()
        self.left = try SharedNumber()
        // The sanitizer starts one of its own before `main`.
        allow(Sanitizer.current == .thread ? left + 1 : left)
    }

    /// A command that runs a program with the limit.
    public var wrapper: [String] { ["env", "LD_PRELOAD=\(library)", "THREAD_LIMIT_FILE=\(left.path)"] }

    /// Sets how many more threads the program may start; a negative number removes the limit.
    public func allow(_ threads: Int) { left.set(Int64(threads)) }
}
