import CLinux
import Glibc
import Platform

/// The signals that gaplessd handles, as a descriptor to wait on (signalfd(2)).
///
/// Make it before the first thread starts: threads inherit the blocked signals, so that only this value reads them.
struct SignalInbox: ~Copyable {
    enum Signal: Equatable {
        case stop
        /// `asker` is a `gaplessd reload` that waits for the result.
        case reload(asker: pid_t?)
        case report
    }

    let descriptor: CInt

    /// Handles signals before an inbox exists. No job is held yet, so that a stop may end the process immediately; a reload or a
    /// request for counters has no meaning yet.
    static func answerEarly() {
        for number in [SIGTERM, SIGINT] { signal(number) { _ in _exit(0) } }
        for number in [SIGHUP, SIGUSR1] { signal(number, SIG_IGN) }
    }

    /// Throws if no descriptor is free.
    init() throws(ThreadError) {
        var set = sigset_t()
        unsafe sigemptyset(&set)
        for signal in [SIGTERM, SIGINT, SIGHUP, SIGUSR1] { unsafe sigaddset(&set, signal) }
        unsafe pthread_sigmask(SIG_BLOCK, &set, nil)
        // An ignored signal never becomes pending (signal(7)).
        for number in [SIGTERM, SIGINT, SIGHUP, SIGUSR1] { signal(number, SIG_DFL) }
        descriptor = unsafe signalfd(-1, &set, CInt(SFD_NONBLOCK) | CInt(SFD_CLOEXEC))
        guard descriptor >= 0 else { throw ThreadError(name: "dispatcher", code: errno) }
    }

    deinit { close(descriptor) }

    /// The oldest pending signal.
    mutating func next() -> Signal? {
        var info = signalfd_siginfo()
        let size = MemoryLayout<signalfd_siginfo>.size
        guard unsafe read(descriptor, &info, size) == size else { return nil }
        switch CInt(bitPattern: info.ssi_signo) {
        case SIGHUP:
            // SI_QUEUE of sigqueue(3).
            let isAsked = info.ssi_code == -1 && info.ssi_int == ReloadInbox.signalValue
            return .reload(asker: isAsked ? pid_t(bitPattern: info.ssi_pid) : nil)
        case SIGUSR1: return .report
        default: return .stop
        }
    }

    /// Sleeps until `due`. Returns `true` early if a signal asks for the end.
    mutating func stops(before due: Instant) -> Bool {
        var poller = Poller()
        while .now < due {
            poller.reset()
            poller.add(descriptor, for: .read)
            poller.wait(until: due)
            if let signal = next(), signal != .report { return true }
        }
        return false
    }
}
