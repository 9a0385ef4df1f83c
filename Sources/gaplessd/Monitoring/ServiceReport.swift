import Glibc
import Platform
import RedisQueue

/// Reports the state of the daemon to the service manager. Used on the dispatcher's thread only.
///
/// Without NOTIFY_SOCKET there is no report, no thread and no socket.
final class ServiceReport {
    private var notifier: ServiceNotifier
    private let socket: NotifySocket
    private let readings: RedisReadings
    private let log: Log
    /// Jobs waiting in all lists, from the last reading; `nil` if it failed.
    private let backlog = Locked<Int?>(nil)
    private var lastSent: (count: Int, at: Instant)
    private var rate = 0.0
    private var reloadFailed = false
    private var hasWarned = false

    /// - Returns: `nil` if no service manager waits for messages.
    init?(_ configuration: Configuration, log: Log, now: Instant) throws(ThreadError) {
        guard let name = Self.variable("NOTIFY_SOCKET"), !name.isEmpty else { return nil }
        guard let socket = NotifySocket(name) else {
            log.warning(
                "NOTIFY_SOCKET \(name.printable) cannot be used: the service manager receives no messages.", .serviceManagerLost)
            return nil
        }
        self.socket = socket
        self.log = log
        notifier = ServiceNotifier(watchdog: Self.watchdog, now: now)
        lastSent = (0, now)
        readings = try RedisReadings(configuration.settings, tls: configuration.redisTLS)
    }

    private static func variable(_ name: String) -> String? { unsafe getenv(name).map { unsafe String(cString: $0) } }

    /// The interval of the watchdog, if it watches this process (sd_watchdog_enabled(3)).
    private static var watchdog: Duration? {
        guard let microseconds = variable("WATCHDOG_USEC").flatMap({ Int64($0) }), microseconds > 0 else { return nil }
        if let pid = variable("WATCHDOG_PID"), pid != "\(getpid())" { return nil }
        return .microseconds(microseconds)
    }

    /// The next turn that is needed only for a message.
    var deadline: Instant { notifier.deadline }

    func isDue(_ facts: ServiceNotifier.Facts, now: Instant) -> Bool { notifier.isDue(facts, now: now) }

    /// Sends the message of this turn.
    func report(_ facts: ServiceNotifier.Facts, _ snapshot: ProcessSnapshot, now: Instant) {
        let interval = (now - lastSent.at) / .seconds(1)
        if interval >= 1 {
            rate = max(0, Double(snapshot.counters.sent) - Double(lastSent.count)) / interval
            lastSent = (snapshot.counters.sent, now)
        }
        send(notifier.message(facts, status: status(snapshot, now: now), now: now))
        let backlog = backlog
        readings.read { reading in
            let sum = reading.lists.reduce(0.0) { $0 + Double($1.status.backlog) }
            backlog.withLock { $0 = reading.fault == nil ? Int(exactly: sum) : nil }
        }
    }

    func reloadBegan() {
        var time = timespec()
        unsafe clock_gettime(CLOCK_MONOTONIC, &time)
        if let message = notifier.reloadBegan(microseconds: Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1000) {
            send(message)
        }
    }

    /// - Parameter configuration: the new one; `nil` if it was rejected.
    func reloadEnded(_ configuration: Configuration?, _ snapshot: ProcessSnapshot, now: Instant) {
        reloadFailed = configuration == nil
        if let configuration { readings.adopt(configuration.settings, tls: configuration.redisTLS) }
        if let message = notifier.reloadEnded(status: status(snapshot, now: now)) { send(message) }
    }

    /// Ends the thread of the readings.
    func close() { readings.stop() }

    private func send(_ message: String) {
        guard let error = socket.send(message), !hasWarned else { return }
        hasWarned = true
        log.warning("The service manager does not receive messages: \(FileBytes.Fault.system(error)).", .serviceManagerLost)
    }

    private func status(_ snapshot: ProcessSnapshot, now: Instant) -> String {
        Self.status(snapshot, rate: rate, backlog: backlog.withLock { $0 }, reloadFailed: reloadFailed, now: now)
    }

    /// Returns the line that `systemctl status` shows.
    static func status(
        _ snapshot: ProcessSnapshot, rate: Double, backlog: Int?, reloadFailed: Bool, now: Instant
    ) -> String {
        let sessions = snapshot.apps.reduce(0) { $0 + $1.sessions }
        var figures = ["\(Int(exactly: rate.rounded()) ?? .max) pushes/s"]
        figures.append("backlog \(backlog.map(String.init) ?? "unknown")")
        figures.append("\(snapshot.inFlight) in flight")
        figures.append(sessions.counted("session"))
        var parts = [figures.joined(separator: ", ")]
        if reloadFailed { parts.append("the last reload failed, see the log") }
        let notice = ProcessBoard.Notice(snapshot: snapshot, at: now)
        parts += Readiness.faults(notice, now: now) + Readiness.pauses(notice)
        return parts.joined(separator: "; ")
    }
}
