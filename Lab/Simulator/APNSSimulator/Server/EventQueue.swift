import CLinux
import Glibc
import Platform

/// Waits for hundreds of descriptors with epoll(7), level-triggered. The caller assigns a number to each descriptor.
@safe struct EventQueue: ~Copyable {
    struct Interest: OptionSet {
        let rawValue: UInt32
        static let read = Interest(rawValue: EPOLLIN.rawValue)
        static let write = Interest(rawValue: EPOLLOUT.rawValue)
    }

    private let descriptor: CInt
    private var events = unsafe [epoll_event](repeating: epoll_event(), count: 256)

    init() throws(SimulatorError) {
        descriptor = epoll_create1(CInt(EPOLL_CLOEXEC))
        if descriptor < 0 { throw SimulatorError(unsafe "no epoll descriptor: \(String(cString: strerror(errno)))") }
    }

    deinit { close(descriptor) }

    /// Adds a descriptor. Closing it removes it.
    func add(_ other: CInt, number: Int, for interest: Interest) { control(EPOLL_CTL_ADD, other, number, interest) }

    /// Changes the interest. epoll reports hang-ups in any case; see `remove`.
    func change(_ other: CInt, number: Int, to interest: Interest) { control(EPOLL_CTL_MOD, other, number, interest) }

    /// Removes a descriptor. Its hang-ups are no longer reported.
    func remove(_ other: CInt) { control(EPOLL_CTL_DEL, other, 0, []) }

    /// Fills `ready` with the numbers of the ready descriptors. Returns at `deadline` at the latest; `nil` has no limit.
    mutating func wait(until deadline: Instant?, _ ready: inout [Int]) {
        ready.removeAll(keepingCapacity: true)
        let count = unsafe epoll_wait(descriptor, &events, CInt(events.count), EventQueue.milliseconds(until: deadline))
        for index in 0..<max(0, Int(count)) { unsafe ready.append(Int(truncatingIfNeeded: events[index].data.u64)) }
    }

    /// Returns the time left, rounded up to avoid a wake-up before the deadline; -1 for no limit.
    private static func milliseconds(until deadline: Instant?) -> CInt {
        guard let deadline else { return -1 }
        let (seconds, attoseconds) = max(.zero, deadline - .now).components
        if seconds >= 3600 { return 3_600_000 }
        return CInt(seconds * 1000 + (attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000)
    }

    private func control(_ operation: CInt, _ other: CInt, _ number: Int, _ interest: Interest) {
        var event = unsafe epoll_event(events: interest.rawValue, data: epoll_data_t(u64: UInt64(truncatingIfNeeded: number)))
        unsafe epoll_ctl(descriptor, operation, other, &event)
    }
}
