import CLinux
import Glibc
import Platform
import RedisQueue

/// Reports the state of the daemon to the service manager. Used on the dispatcher's thread only.
///
/// Without NOTIFY_SOCKET there is no report and no socket.
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
    init?(_ readings: RedisReadings, log: Log, now: Instant) {
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
        self.readings = readings
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

    /// Sends the message of this turn, if there is one.
    func report(_ facts: ServiceNotifier.Facts, _ snapshot: @autoclosure () -> ProcessSnapshot, now: Instant) {
        guard notifier.isDue(facts, now: now) else { return }
        let snapshot = snapshot()
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

    func reloadEnded(isAdopted: Bool, _ snapshot: ProcessSnapshot, now: Instant) {
        reloadFailed = !isAdopted
        if let message = notifier.reloadEnded(status: status(snapshot, now: now)) { send(message) }
    }

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
        var parts = [
            "\(Int(exactly: rate.rounded()) ?? .max) pushes/s, backlog \(backlog.map(String.init) ?? "unknown"), "
                + "\(snapshot.inFlight) in flight, \(sessions.counted("session"))"
        ]
        if reloadFailed { parts.append("the last reload failed, see the log") }
        let notice = ProcessBoard.Notice(snapshot: snapshot, at: now)
        parts += Readiness.faults(notice, now: now) + Readiness.pauses(notice)
        return parts.joined(separator: "; ")
    }
}

/// Decides which messages the service manager receives, and when (sd_notify(3)). It knows no socket and no clock.
///
///     phase      fact                                        next       message
///     starting   Redis has answered once, or `startLimit`    running    READY=1
///     running    the settings are read again                 running    RELOADING=1, then READY=1
///     any        the daemon drains                           stopping   STOPPING=1
///
/// A status follows at every `statusInterval`, and WATCHDOG=1 at half of the interval of the watchdog.
struct ServiceNotifier {
    enum Phase: Equatable { case starting, running, stopping }

    /// The state of the daemon in one turn.
    struct Facts: Equatable {
        var redisHasAnswered: Bool
        var isStopping: Bool
    }

    /// After this time the service counts as started, and its status names what is missing. Other units must not wait for a
    /// Redis that is down for long, and the jobs are safe in any case.
    static let startLimit = Duration.seconds(60)
    static let statusInterval = Duration.seconds(2)
    /// While the daemon drains, each status asks for this much more time.
    static let stopExtension = Duration.seconds(10)
    /// The shortest time between two messages for the watchdog.
    static let leastWatchdogInterval = Duration.milliseconds(10)
    /// Characters of a status: the service manager ignores a message of more than 4096 bytes.
    static let mostStatusCharacters = 800

    private(set) var phase = Phase.starting
    private let startEnds: Instant
    private let watchdogInterval: Duration?
    private var nextStatus: Instant
    private var nextWatchdog: Instant?

    /// - Parameter watchdog: the interval of the watchdog; `nil` without one.
    init(watchdog: Duration?, now: Instant) {
        startEnds = now + Self.startLimit
        nextStatus = now
        watchdogInterval = watchdog.map { max($0 / 2, Self.leastWatchdogInterval) }
        nextWatchdog = watchdogInterval.map { _ in now }
    }

    /// The next turn that is needed only for a message.
    var deadline: Instant {
        var next = Earliest(nextStatus)
        next.consider(nextWatchdog)
        if phase == .starting { next.consider(startEnds) }
        return next.instant ?? nextStatus
    }

    /// Whether this turn has a message. Without one the caller collects no figures.
    func isDue(_ facts: Facts, now: Instant) -> Bool { now >= deadline || next(facts, now: now) != phase }

    /// Returns the message of this turn.
    mutating func message(_ facts: Facts, status: String, now: Instant) -> String {
        var lines: [String] = []
        let next = next(facts, now: now)
        if next != phase {
            phase = next
            lines.append(phase == .stopping ? "STOPPING=1" : "READY=1")
            nextStatus = now
        }
        if let watchdogInterval, let due = nextWatchdog, due <= now {
            lines.append("WATCHDOG=1")
            nextWatchdog = now + watchdogInterval
        }
        if nextStatus <= now {
            if phase == .stopping { lines.append("EXTEND_TIMEOUT_USEC=\(Self.stopExtension.components.seconds * 1_000_000)") }
            lines.append(Self.line(status))
            nextStatus = now + Self.statusInterval
        }
        return lines.joined(separator: "\n")
    }

    private func next(_ facts: Facts, now: Instant) -> Phase {
        if facts.isStopping { return .stopping }
        return phase == .starting && (facts.redisHasAnswered || now >= startEnds) ? .running : phase
    }

    /// Returns the message before the settings are read again; `nil` while the service starts, because READY=1 would follow.
    ///
    /// - Parameter microseconds: of CLOCK_MONOTONIC.
    func reloadBegan(microseconds: Int64) -> String? {
        phase == .running ? "RELOADING=1\nMONOTONIC_USEC=\(microseconds)" : nil
    }

    /// Returns the message after the settings were adopted or rejected.
    func reloadEnded(status: String) -> String? {
        phase == .running ? "READY=1\n\(Self.line(status))" : nil
    }

    private static func line(_ status: String) -> String {
        var text = String.UnicodeScalarView()
        text.append(contentsOf: status.unicodeScalars.prefix(mostStatusCharacters))
        return "STATUS=\(String(text))"
    }
}

/// The socket of the service manager, named by NOTIFY_SOCKET (sd_notify(3)): a path, or an abstract name after `@`.
struct NotifySocket: ~Copyable {
    /// The longest wait of a message, and of the main loop, for room in the queue of the service manager.
    private static let timeout = timeval(tv_sec: 0, tv_usec: 100_000)

    private let descriptor: CInt
    /// The bytes of a sockaddr_un. Those of an abstract name end with the name (unix(7)).
    private let address: [UInt8]

    /// Returns `nil` for a name that is no path, no abstract name, or too long.
    init?(_ name: String) {
        guard let address = Self.address(of: name) else { return nil }
        let type = CInt(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue)
        let descriptor = socket(AF_UNIX, type, 0)
        guard descriptor >= 0 else { return nil }
        var timeout = Self.timeout
        unsafe setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &timeout, socklen_t(MemoryLayout<timeval>.size))
        (self.descriptor, self.address) = (descriptor, address)
    }

    deinit { close(descriptor) }

    static func address(of name: String) -> [UInt8]? {
        var address = sockaddr_un()
        let bytes = Array(name.utf8)
        let room = MemoryLayout.size(ofValue: address.sun_path) - 1
        guard let first = bytes.first, bytes.count > 1, bytes.count <= room, !bytes.contains(0) else { return nil }
        let isAbstract = first == UInt8(ascii: "@")
        guard isAbstract || first == UInt8(ascii: "/") else { return nil }
        address.sun_family = sa_family_t(AF_UNIX)
        let path = isAbstract ? [0] + bytes.dropFirst() : bytes + [0]
        unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: path) }
        let start = MemoryLayout<sockaddr_un>.offset(of: \.sun_path) ?? MemoryLayout<sa_family_t>.size
        return unsafe withUnsafeBytes(of: &address) { unsafe Array($0.prefix(start + path.count)) }
    }

    /// Sends one message. Returns the error number if the service manager did not take it.
    func send(_ message: String) -> CInt? {
        let bytes = Array(message.utf8)
        let count = unsafe address.withUnsafeBytes { raw in
            unsafe sendto(
                descriptor, bytes, bytes.count, CInt(MSG_NOSIGNAL), raw.baseAddress!.assumingMemoryBound(to: sockaddr.self),
                socklen_t(raw.count))
        }
        return count == bytes.count ? nil : errno
    }
}
