import Glibc

/// Whether this program, and with it those of its package that it starts, was built with Thread Sanitizer.
public var isThreadSanitized: Bool { dlsym(nil, "__tsan_init") != nil }

/// How many threads a program may still start: one that was started under `wrapper`.
public final class ThreadLimit {
    private let folder = TemporaryFolder()
    private let file: CInt

    /// - Parameter left: threads beside its first one.
    public init(_ left: Int) throws {
        // The sanitizer starts one of its own before `main`.
        let left = isThreadSanitized ? left + 1 : left
        file = open(folder.file("left"), O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard file >= 0 else { throw ChildProcess.Failure(description: "cannot make a limit: errno \(errno)") }
        allow(left)
    }

    deinit { close(file) }

    /// A command to run a program under.
    public var wrapper: [String] {
        ["env", "LD_PRELOAD=\(BuiltProducts.path("libThreadLimit.so"))", "THREAD_LIMIT_FILE=\(folder.file("left"))"]
    }

    /// From now on so many more.
    public func allow(_ threads: Int) {
        var left = Int64(threads)
        _ = pwrite(file, &left, MemoryLayout.size(ofValue: left), 0)
    }
}
