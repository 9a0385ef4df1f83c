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

    /// For those who can do without: nothing where the limit of open files leaves fewer than so many others.
    ///
    /// - Parameter spare: descriptors that must be free beside it.
    public static func ifAvailable(sparing spare: Int) -> WakeUp? {
        let descriptor = eventfd(0, CInt(EFD_NONBLOCK) | CInt(EFD_CLOEXEC))
        guard descriptor >= 0 else { return nil }
        let others = (0..<spare).map { _ in fcntl(descriptor, F_DUPFD_CLOEXEC, 0) }
        for other in others where other >= 0 { close(other) }
        if !others.contains(-1) { return WakeUp(descriptor) }
        close(descriptor)
        return nil
    }

    private init(_ descriptor: CInt) { self.descriptor = descriptor }

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
