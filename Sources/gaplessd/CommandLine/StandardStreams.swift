import ArgumentParser
import Glibc
import Synchronization

/// Descriptors 0, 1 and 2 of this process.
enum StandardStreams {
    /// The errno of the last failed write to standard output; 0 if all succeeded.
    private static let outputFault = Atomic<CInt>(0)

    /// Prepares the process, before anything else runs.
    ///
    /// A closed pipe or a file at its size limit (`ulimit -f`) becomes an error of write(2) instead of a fatal signal. A stream
    /// that is closed at the start becomes /dev/null: a socket with its number would receive log lines.
    static func prepare() {
        signal(SIGPIPE, SIG_IGN)
        signal(SIGXFSZ, SIG_IGN)
        while true {
            let descriptor = unsafe open("/dev/null", O_RDWR)
            if descriptor == STDOUT_FILENO { outputFault.store(EBADF, ordering: .relaxed) }
            if 0...2 ~= descriptor { continue }
            if descriptor > 2 { close(descriptor) }
            return
        }
    }

    /// Returns 1, after a message, if standard output could not be written.
    ///
    /// - Parameter allowsClosedPipe: whether a reader that closes the pipe is no fault: it has read enough.
    static func lostOutput(allowsClosedPipe: Bool = true) -> ExitCode? {
        let fault = outputFault.load(ordering: .relaxed)
        if fault == 0 || fault == EPIPE && allowsClosedPipe { return nil }
        print([unsafe "Error: standard output cannot be written: \(String(cString: strerror(fault)))"], to: STDERR_FILENO)
        return .failure
    }

    /// Writes lines. A failed write to standard output sets the exit status (`lostOutput`).
    ///
    /// - Returns: `false` if the write failed; the caller then stops printing.
    @discardableResult
    static func print(_ lines: [String], to descriptor: CInt = STDOUT_FILENO) -> Bool {
        write(Array(lines.map { $0 + "\n" }.joined().utf8), to: descriptor)
    }

    /// Writes bytes. See `print`.
    @discardableResult
    static func write(_ bytes: [UInt8], to descriptor: CInt = STDOUT_FILENO) -> Bool {
        // /dev/null, its replacement, accepts every write: `status --watch` would never end.
        if descriptor == STDOUT_FILENO, outputFault.load(ordering: .relaxed) == EBADF { return false }
        var written = 0
        while written < bytes.count {
            let count = unsafe bytes[written...].withUnsafeBytes { unsafe Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count > 0 {
                written += count
            } else if errno != EINTR {
                if descriptor == STDOUT_FILENO { outputFault.store(errno, ordering: .relaxed) }
                return false
            }
        }
        return true
    }

    static func isTerminal(_ descriptor: CInt) -> Bool { isatty(descriptor) == 1 }
}
