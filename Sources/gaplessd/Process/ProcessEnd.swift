import Glibc

/// The end of the process, while threads may still run: one that is stuck, or that waits for Redis or a name server.
enum ProcessEnd {
    /// From now on, exit(3) calls none of the handlers that were registered before: they would free what OpenSSL and the
    /// runtime still need in other threads.
    static func skipHandlers() {
        unsafe on_exit(
            { status, _ in
                fflush(nil)
                _exit(status)
            }, nil)
    }
}
