import Platform

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
