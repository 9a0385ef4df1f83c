import Glibc

/// The signals this tool listens to. Made before any other thread, so that all of them leave these signals alone.
struct Signals {
    enum Request { case report, stop }

    private var set = sigset_t()

    init() {
        sigemptyset(&set)
        for number in [SIGTERM, SIGINT, SIGUSR1] { sigaddset(&set, number) }
        pthread_sigmask(SIG_BLOCK, &set, nil)
        signal(SIGPIPE, SIG_IGN)  // whoever read our output may go
    }

    /// Waits for one.
    func next() -> Request {
        var number: CInt = 0
        var set = set
        sigwait(&set, &number)
        return number == SIGUSR1 ? .report : .stop
    }
}
