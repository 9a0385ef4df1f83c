import Glibc

/// The system gives no more threads: a limit of threads (`ulimit -u`, TasksMax of systemd, pids.max) or of memory is reached.
public struct ThreadError: Error, Sendable, Equatable, CustomStringConvertible {
    /// Of the thread.
    public var name: String
    /// As of errno(3): EAGAIN as a rule (pthread_create(3)).
    public var code: CInt

    public var description: String {
        unsafe "no thread for \"\(name)\": \(String(cString: strerror(code))) (a limit of threads, ulimit -u or TasksMax, or of memory)"
    }
}
