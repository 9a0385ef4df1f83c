import CLinux
import Glibc

/// Sleeps until a descriptor is ready or a deadline passes: poll(2), for the few descriptors of one thread.
public struct Poller {
    /// The events to wait for on one descriptor and, after `wait`, the events that occurred.
    public struct Readiness: OptionSet, Sendable {
        public let rawValue: Int16
        public init(rawValue: Int16) { self.rawValue = rawValue }

        public static let read = Readiness(rawValue: Int16(POLLIN))
        public static let write = Readiness(rawValue: Int16(POLLOUT))
        /// The peer hung up or the descriptor failed. Always reported, never requested: reading tells which.
        public static let broken = Readiness(rawValue: Int16(POLLERR | POLLHUP | POLLNVAL))
    }

    private var descriptors: [pollfd] = []

    public init() {}

    /// Removes all descriptors.
    public mutating func reset() {
        descriptors.removeAll(keepingCapacity: true)
    }

    /// Adds a descriptor. Returns its place for `readiness(at:)`.
    @discardableResult
    public mutating func add(_ descriptor: CInt, for interest: Readiness) -> Int {
        descriptors.append(pollfd(fd: descriptor, events: interest.rawValue, revents: 0))
        return descriptors.count - 1
    }

    /// Returns when a descriptor is ready, at `deadline`, or after a signal. `nil` waits forever.
    ///
    /// - Parameter now: the present, if the caller knows it.
    public mutating func wait(until deadline: Instant?, now: @autoclosure () -> Instant = .now) {
        var timeout = timespec()
        let status: CInt
        if let deadline {
            let left = max(.zero, deadline - now()).components
            timeout.tv_sec = Int(left.seconds)
            timeout.tv_nsec = Int(left.attoseconds / 1_000_000_000)
            status = unsafe ppoll(&descriptors, nfds_t(descriptors.count), &timeout, nil)
        } else {
            status = unsafe ppoll(&descriptors, nfds_t(descriptors.count), nil, nil)
        }
        if status <= 0 {
            for index in descriptors.indices { descriptors[index].revents = 0 }
        }
    }

    /// Waits for a time. A signal does not end it.
    public static func sleep(_ time: Duration) {
        let end = Instant.now + time
        var poller = Poller()
        while .now < end { poller.wait(until: end) }
    }

    public func readiness(at place: Int) -> Readiness {
        Readiness(rawValue: descriptors[place].revents)
    }
}
