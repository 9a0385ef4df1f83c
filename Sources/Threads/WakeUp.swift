import CLinux
import Glibc

/// An eventfd: any thread rings it, and one thread sleeps on its descriptor.
public final class WakeUp: Sendable {
    /// Readable while somebody has rung and nobody has listened since.
    public let descriptor: CInt

    public init() {
        descriptor = eventfd(0, CInt(EFD_NONBLOCK) | CInt(EFD_CLOEXEC))
        precondition(descriptor >= 0, "no eventfd: errno \(errno); raise the limit of open files (ulimit -n)")
    }

    deinit { close(descriptor) }

    /// Wakes the sleeper; ringing twice wakes it once.
    public func ring() {
        eventfd_write(descriptor, 1)
    }

    /// Makes the descriptor quiet again. Call it before looking at what the ring was about.
    public func listen() {
        var count: eventfd_t = 0
        eventfd_read(descriptor, &count)
    }
}
