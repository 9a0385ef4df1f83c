import CLinux
import Clocks
import Glibc

/// epoll(7): sleeps until one of hundreds of descriptors is ready. Level-triggered; each descriptor has a number of the
/// caller's.
struct EventQueue: ~Copyable {
    struct Interest: OptionSet {
        let rawValue: UInt32
        static let read = Interest(rawValue: EPOLLIN.rawValue)
        static let write = Interest(rawValue: EPOLLOUT.rawValue)
    }

    private let descriptor: CInt
    private var events = [epoll_event](repeating: epoll_event(), count: 256)

    init() throws(SimulatorError) {
        descriptor = epoll_create1(CInt(EPOLL_CLOEXEC))
        if descriptor < 0 { throw SimulatorError("no epoll descriptor: \(String(cString: strerror(errno)))") }
    }

    deinit { close(descriptor) }

    /// A descriptor that is closed leaves by itself.
    func add(_ other: CInt, number: Int, for interest: Interest) { control(EPOLL_CTL_ADD, other, number, interest) }

    /// Without interest even a hang-up is not reported: see `remove`.
    func change(_ other: CInt, number: Int, to interest: Interest) { control(EPOLL_CTL_MOD, other, number, interest) }

    /// No more events, not even the hang-ups that epoll always reports.
    func remove(_ other: CInt) { control(EPOLL_CTL_DEL, other, 0, []) }

    /// Fills `ready` with the numbers of what is ready. Returns at `deadline` at the latest; `nil` waits for ever.
    mutating func wait(until deadline: Instant?, _ ready: inout [Int]) {
        ready.removeAll(keepingCapacity: true)
        let count = epoll_wait(descriptor, &events, CInt(events.count), EventQueue.milliseconds(until: deadline))
        for index in 0..<max(0, Int(count)) { ready.append(Int(truncatingIfNeeded: events[index].data.u64)) }
    }

    /// Rounded up, so that a sleeper does not wake just before its deadline; -1 is for ever.
    private static func milliseconds(until deadline: Instant?) -> CInt {
        guard let deadline else { return -1 }
        let (seconds, attoseconds) = max(.zero, deadline - .now).components
        if seconds >= 3600 { return 3_600_000 }
        return CInt(seconds * 1000 + (attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000)
    }

    private func control(_ operation: CInt, _ other: CInt, _ number: Int, _ interest: Interest) {
        var event = epoll_event(events: interest.rawValue, data: epoll_data_t(u64: UInt64(truncatingIfNeeded: number)))
        epoll_ctl(descriptor, operation, other, &event)
    }
}

/// Says FIN now; reading goes on.
func endWriting(_ descriptor: CInt) { shutdown(descriptor, CInt(SHUT_WR)) }

/// Leaves every signal to the process's other threads. OpenSSL writes with write(2), so that a client that has gone would
/// else end the process with SIGPIPE; blocked, it is an error of the call.
func blockSignals() {
    var all = sigset_t()
    sigfillset(&all)
    pthread_sigmask(SIG_BLOCK, &all, nil)
}

/// Lets the next close of a socket send RST instead of FIN.
func resetOnClose(_ descriptor: CInt) {
    var option = linger(l_onoff: 1, l_linger: 0)
    setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
}
