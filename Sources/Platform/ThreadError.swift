import Glibc

/// A thread could not be started: a limit of threads (`ulimit -u`, TasksMax of systemd, pids.max), of memory, or of open files,
/// because it sleeps on a descriptor, is reached.
public struct ThreadError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The name of the thread.
    public var name: String
    /// The errno value, usually EAGAIN (pthread_create(3)).
    public var code: CInt

    public init(name: String, code: CInt) { (self.name, self.code) = (name, code) }

    public var description: String {
        let limit =
            [EMFILE, ENFILE].contains(code)
            ? "the limit of open files, ulimit -n" : "a limit of threads, ulimit -u or TasksMax, or of memory"
        return unsafe "no thread for \"\(name)\": \(String(cString: strerror(code))) (\(limit))"
    }
}
