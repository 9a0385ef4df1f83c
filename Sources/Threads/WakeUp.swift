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
        if isFree(spare) { return WakeUp(descriptor) }
        close(descriptor)
        return nil
    }

    /// Whether so many descriptors are free now. It looks and takes none: to try with real ones would, for that moment, take the last
    /// ones from a thread that needs one.
    private static func isFree(_ count: Int) -> Bool {
        var limit = rlimit()
        guard unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return true }
        var free = 0
        // The lowest number goes first (open(2)): what is in use lies at the front, and the search ends soon after.
        for number in 0..<CInt(clamping: limit.rlim_cur) where free < count {
            if fcntl(number, F_GETFD) == -1 { free += 1 }
        }
        return free >= count
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
        unsafe eventfd_read(descriptor, &count)
    }
}
