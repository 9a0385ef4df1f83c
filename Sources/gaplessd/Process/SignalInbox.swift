import CLinux
import Glibc

/// The signals that gaplessd answers to, as a descriptor to sleep on (signalfd(2)).
///
/// Make it before the first thread starts: threads inherit that these signals are blocked, so only this reads them.
struct SignalInbox: ~Copyable {
    enum Signal { case stop, reload, report }

    let descriptor: CInt

    /// For the time before there is one: nothing is held yet, so a stop may end the process at once, and what asks for a reload or for
    /// counters comes too early to mean anything.
    static func answerEarly() {
        for number in [SIGTERM, SIGINT] { signal(number) { _ in _exit(0) } }
        for number in [SIGHUP, SIGUSR1] { signal(number, SIG_IGN) }
    }

    init() {
        var set = sigset_t()
        sigemptyset(&set)
        for signal in [SIGTERM, SIGINT, SIGHUP, SIGUSR1] { sigaddset(&set, signal) }
        pthread_sigmask(SIG_BLOCK, &set, nil)
        // What is ignored does not even wait to be read (signal(7)).
        for number in [SIGTERM, SIGINT, SIGHUP, SIGUSR1] { signal(number, SIG_DFL) }
        descriptor = signalfd(-1, &set, CInt(SFD_NONBLOCK) | CInt(SFD_CLOEXEC))
        precondition(descriptor >= 0, "no signalfd: errno \(errno)")
    }

    deinit { close(descriptor) }

    /// The oldest signal that waits.
    mutating func next() -> Signal? {
        var info = signalfd_siginfo()
        let size = MemoryLayout<signalfd_siginfo>.size
        guard read(descriptor, &info, size) == size else { return nil }
        switch CInt(bitPattern: info.ssi_signo) {
        case SIGHUP: return .reload
        case SIGUSR1: return .report
        default: return .stop
        }
    }
}
