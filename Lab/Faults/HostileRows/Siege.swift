import Harness
import Platform
internal import RedisQueue

/// A fault in which the daemon can do no work: it must stay idle, and exit in time while the fault lasts.
struct Siege {
    /// The streams of a session.
    static let streams = 200
    /// Short limits, so that a fault lasts for seconds.
    static let settings: [String: String?] = [
        "apns_max_concurrent_streams": String(streams),
        "drain_timeout": "1", "apns_request_timeout": "2", "apns_dial_timeout": "2", "apns_keepalive": "2",
    ]

    let trial: Trial
    private var daemon: DaemonProcess

    init(_ trial: Trial) throws {
        self.trial = trial
        daemon = try trial.start()
    }

    /// Injects the fault, measures the daemon, and ends the fault.
    ///
    /// - Parameters:
    ///   - stops: whether the daemon gets SIGTERM in the fault; another one starts afterwards.
    ///   - isIdleAtOnce: whether the daemon has nothing to do soon after the beginning, while its sessions are still open.
    ///   - begun: waits until the fault has an effect.
    mutating func run(
        stops: Bool, lasting length: Duration = .zero, isIdleAtOnce: Bool = false, begin: () throws -> Void,
        begun: () throws -> Void = {}, end: () throws -> Void
    ) throws {
        // A new daemon has one stream at first.
        try trial.awaitSent(try trial.stage.sent() + 200)
        try trial.awaitBusy()
        try trial.allowInFlightTwice()
        try trial.inject {
            try begin()
            if isIdleAtOnce { trial.measureIdleness(daemon) }
            try begun()
            trial.pause(length)
            trial.measureIdleness(daemon)
            let status = try trial.status()
            trial.allowTwice(status.inFlight + status.delayed)
            if stops { trial.stop(daemon) }
            try end()
            if stops { daemon = try trial.start() }
        }
    }
}
