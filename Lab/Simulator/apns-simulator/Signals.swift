import Glibc

/// The signals of this tool. Made before any other thread: threads inherit that these signals are blocked.
struct Signals {
    enum Request { case report, stop }

    private var set = sigset_t()

    init() {
        unsafe sigemptyset(&set)
        for number in [SIGTERM, SIGINT, SIGUSR1] { unsafe sigaddset(&set, number) }
        unsafe pthread_sigmask(SIG_BLOCK, &set, nil)
        signal(SIGPIPE, SIG_IGN)  // a closed pipe does not end the process
    }

    /// Waits for the next signal.
    func next() -> Request {
        var number: CInt = 0
        var set = set
        unsafe sigwait(&set, &number)
        return number == SIGUSR1 ? .report : .stop
    }
}
