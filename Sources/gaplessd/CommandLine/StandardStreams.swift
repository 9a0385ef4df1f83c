import ArgumentParser
import Glibc
import Synchronization

/// Descriptors 0, 1 and 2 of this process, and the signal that comes with broken ones.
enum StandardStreams {
    /// Why standard output could not be written, as of errno(3); 0 so far.
    private static let outputFault = Atomic<CInt>(0)

    /// The first thing of all: a reader that goes away, or a file at its size limit (`ulimit -f`), is an error of write(2), not
    /// the end of the process; and a stream that was closed before us becomes /dev/null, so that no connection gets its number and log lines with it.
    static func prepare() {
        signal(SIGPIPE, SIG_IGN)
        signal(SIGXFSZ, SIG_IGN)
        while true {
            let descriptor = open("/dev/null", O_RDWR)
            if descriptor == STDOUT_FILENO { outputFault.store(EBADF, ordering: .relaxed) }
            if 0...2 ~= descriptor { continue }
            if descriptor > 2 { close(descriptor) }
            return
        }
    }

    /// How a call ends that has something to say: with 1 if not all of it could be written. A reader that has seen enough is no fault.
    static func lostOutput() -> ExitCode? {
        let fault = outputFault.load(ordering: .relaxed)
        if fault == 0 { return nil }
        print(["Error: standard output cannot be written: \(String(cString: strerror(fault)))"], to: STDERR_FILENO)
        return .failure
    }

    /// Writes lines for people. What standard output did not take is remembered for the exit status.
    ///
    /// - Returns: whether it could; a call with more to say stops where its reader is gone.
    @discardableResult
    static func print(_ lines: [String], to descriptor: CInt = STDOUT_FILENO) -> Bool {
        write(Array(lines.map { $0 + "\n" }.joined().utf8), to: descriptor)
    }

    /// As above, any bytes.
    @discardableResult
    static func write(_ bytes: [UInt8], to descriptor: CInt = STDOUT_FILENO) -> Bool {
        // The /dev/null in its place would take all of it for ever, and `status --watch` would go on for nobody.
        if descriptor == STDOUT_FILENO, outputFault.load(ordering: .relaxed) == EBADF { return false }
        var written = 0
        while written < bytes.count {
            let count = bytes[written...].withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count > 0 {
                written += count
            } else if errno != EINTR {
                if descriptor == STDOUT_FILENO, errno != EPIPE { outputFault.store(errno, ordering: .relaxed) }
                return false
            }
        }
        return true
    }

    static func isTerminal(_ descriptor: CInt) -> Bool { isatty(descriptor) == 1 }
}
