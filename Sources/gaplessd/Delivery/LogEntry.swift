import Platform
import PushPool
import RedisQueue

/// A line for the log. The wording of the dispatcher's own lines is in this file.
enum LogEntry: Equatable {
    case sentence(LogLevel, String, LogEvent? = nil)
    /// A delivered job for the format `json`, redacted as the settings say. The other formats use `DispatchEffect.logSent`.
    case sent([UInt8], LoggedPush)
    case retrying(identifier: String, reason: String, count: Int, push: LoggedPush? = nil)
    /// `job` is valid JSON on one line, redacted as the settings say.
    case final(identifier: String, reason: String, job: [UInt8], push: LoggedPush? = nil)
    /// Bytes that cannot be pushed.
    case badJob([UInt8], JobError, redacts: Bool)

    private static func info(_ event: LogEvent, _ text: String) -> LogEntry { .sentence(.info, text, event) }
    private static func warning(_ event: LogEvent, _ text: String) -> LogEntry { .sentence(.warning, text, event) }

    static func paced(identifier: String, reason: String) -> LogEntry {
        .sentence(.debug, "Too many updates (ID \(identifier)): \(reason). Waiting for the pace of the channel or token.")
    }

    // MARK: Redis

    /// The lines about an event that changes nothing else here; none for any other event.
    ///
    /// - Parameters:
    ///   - found: where the list was found, if the settings do not name it.
    ///   - server: that of the settings.
    static func queue(_ event: QueueEvent, list: String, at found: Endpoint?, server: String) -> [LogEntry] {
        switch event {
        case .connected(let warnings):
            [.info(.redisConnected, "Connected to Redis\(found.map { " at \($0)" } ?? ""), list \(list).")]
                + warnings.map { .warning(.redisWarning, "Redis: \($0)") }
        case .disconnected(let why):
            [.warning(.redisLost, "Redis: \(why) (\(server)). Jobs stay in the queue; trying again.")]
        case .limited(let why): [.warning(.redisWarning, "Redis: \(why).")]
        case .recordsTrimmed(.deadLetters, let count):
            [.warning(.deadLettersTrimmed, "\(count) dead letters beyond redis_dead_letter_max were dropped from \(list).")]
        case .recordsTrimmed(.feedback, let count):
            [.warning(.feedbackTrimmed, "\(count) feedback entries beyond redis_feedback_max were dropped from \(list).")]
        case .recordsMany(.deadLetters, let count):
            [.warning(.deadLettersMany, "\(list) has \(count) dead letters: look at them, or set redis_dead_letter_max.")]
        case .recordsMany(.feedback, let count):
            [.warning(.feedbackMany, "\(list) has \(count) feedback entries: look at them, or set redis_feedback_max.")]
        // It died idle.
        case .recovered(_, 0): []
        case .recovered(let worker, let jobs):
            [.warning(.jobsRecovered, "Took over \(jobs.logged("job")) of the dead worker \(worker).")]
        default: []
        }
    }

    // Of `campaignBegan` to `renamed`, `list` is `nil` if there is only one.

    /// - Parameter tokens: `nil` if the campaign of this job had begun before.
    static func campaignBegan(_ id: String, tokens: Int?, list: String?) -> LogEntry {
        let event = tokens.map { "begins: \($0.logged("token"))" } ?? "had begun with the same job before"
        return .info(.campaignBegan, "Campaign \"\(id)\"\(list.map { " of \($0)" } ?? "") \(event).")
    }

    static func leaseInDoubt(list: String?) -> LogEntry {
        .warning(
            .leaseInDoubt, "Redis has not responded for 60 % of the lease: sending is paused\(list.map { " for \($0)" } ?? "").")
    }

    static func paused(_ note: PauseNote, list: String?) -> LogEntry {
        .warning(.listPaused, "\(scope(note, list)) is \(note.sentence). Its jobs stay in the queue.")
    }

    static func unpaused(_ note: PauseNote, list: String?) -> LogEntry {
        .info(.listResumed, "\(scope(note, list)) is resumed: claiming again.")
    }

    private static func scope(_ note: PauseNote, _ list: String?) -> String {
        let place = list.map { "list \($0)" }
        guard let name = note.app.map({ "app \"\($0)\"" }) ?? note.campaign.map({ "campaign \"\($0)\"" }) else {
            return place.map { "The \($0)" } ?? "The list"
        }
        return "The \(name)" + (place.map { " of \($0)" } ?? "")
    }

    static func disowned(_ count: Int, _ loss: QueueEvent.Loss) -> LogEntry {
        switch loss {
        case .takenOver: .warning(.jobsDisowned, "Another worker has taken over \(count.logged("job")) of this worker.")
        case .otherProcess:
            .warning(
                .jobsDisowned,
                "This worker leaves \(count.logged("job")) in the record of its former name. The process that uses the name "
                    + "settles them, or another worker takes them over.")
        case .tooLarge:
            .sentence(
                .error,
                "\(count.logged("job")) of more than 24 MiB cannot be put back into Redis: only the beginning is in memory.",
                .jobsDisowned)
        }
    }

    /// - Parameter number: in the record that was found.
    static func renamed(to worker: String, number: String, list: String?) -> LogEntry {
        .sentence(
            .error,
            "The record of this worker\(list.map { " for \($0)" } ?? "") in Redis cannot be continued (number \"\(number)\"): "
                + "another process uses its name (a cloned machine, or a process restored from a snapshot), or it is damaged. "
                + "This process continues as \(worker).", .workerRenamed)
    }

    static func crashSuspect(identifier: [UInt8]?) -> LogEntry {
        let name = identifier.map { " (ID \(String(decoding: $0, as: UTF8.self)))" } ?? ""
        return .sentence(
            .error,
            "A job\(name) was in flight at four crashes, the last time alone: it is now a dead letter (crash_suspect).",
            .crashSuspect)
    }

    static func unusualNotBefore(_ job: borrowing Job, hint: String) -> LogEntry {
        .warning(.jobUnusual, "A job (ID \(job.identifierInLog)) is delayed: \(hint).")
    }

    static func unusual(_ job: borrowing Job, hint: String) -> LogEntry {
        .warning(.jobUnusual, "A job (ID \(job.identifierInLog)) is unusual: \(hint)")
    }

    // MARK: Apps. `app` is `DispatchPlan.App.label`.

    /// - Parameter place: the app and the keys of the settings to check: see `DispatchPlan.App.place`.
    static func held(app: String, _ reason: HoldReason, place: String) -> LogEntry {
        // The reason of a removed app says until when its jobs wait.
        let end = reason == .removed ? "" : " Its jobs stay in the queue until APNs accepts one\(place)."
        return .sentence(.error, "\(app)\(reason.wholeSentence)\(end)", .appHeld)
    }

    /// The first acceptance of an app in this process, unless every push is logged.
    static func firstAccepted(app: String, _ job: borrowing Job) -> LogEntry {
        let token = job.text(of: job.tokens[0])
        let shown = token.count > Redaction.tokenCharacters ? "\(token.prefix(Redaction.tokenCharacters))…" : token
        return .info(
            .firstAccepted,
            "\(app)APNs has accepted the first push (ID \(job.identifierInLog), "
                + "\(job.namesChannel ? "channel" : "token") \(shown)). To log each one, set log_successes.")
    }

    /// - Parameter isReload: whether a reload is the cause: APNs has not accepted a push yet.
    static func resumed(app: String, isReload: Bool = false) -> LogEntry {
        .info(.appResumed, app + (isReload ? "The reload ends the hold: sending." : "APNs accepts pushes again: sending."))
    }

    static func firstSuspect(app: String, _ outcome: Outcome) -> LogEntry {
        .warning(
            .firstSuspect,
            "\(app)APNs has rejected a job (\(outcome.logText)) and has not accepted any yet. "
                + "The job waits for the first acceptance, at most 60 s: "
                + "a wrong environment or topic causes the same response.")
    }

    /// A failed dial that `outage` includes.
    static func noSession(
        app: String, _ address: String, _ error: SessionError, retryIn wait: Duration, in outage: DialOutage, now: Instant
    ) -> LogEntry {
        let figures = outage.dials > 1 ? " (\(outage.figures(now: now)))" : ""
        return .warning(
            .sessionFailed,
            "\(app)No session to \(address): \(error.logText). Next attempt in \(wait.roundedSeconds) s\(figures).")
    }

    /// The first session after failed dials.
    static func reachable(app: String, _ address: String, after outage: DialOutage, now: Instant) -> LogEntry {
        .info(.sessionsRestored, "\(app)\(address) is reachable after \(outage.figures(now: now)).")
    }

    /// - Returns: `nil` for an event that is not logged, and for a failed dial: see `noSession`.
    static func pool(_ event: PoolEvent, app: String) -> LogEntry? {
        switch event {
        case .opened(let session, let address, let streams):
            .info(.sessionOpened, "\(app)Session \(session.number) to \(address) is open, \(streams.logged("stream")).")
        case .closed(let session, let address, .closedByUs):
            .info(.sessionClosed, "\(app)Session \(session.number) to \(address) is closed.")
        case .closed(let session, let address, let error):
            .warning(.sessionClosed, "\(app)Session \(session.number) to \(address) is closed: \(error.logText).")
        case .dialFailed, .capacityChanged: nil
        case .resized(let before, let count):
            .info(
                .poolResized,
                "\(app)\(count.logged("session")) instead of \(before): "
                    + (count > before ? "all were full." : "fewer are enough."))
        case .limited(let advice): .warning(.poolLimited, app + advice.logText)
        case .slowed(let limit):
            .warning(
                .apnsSlowed,
                "\(app)APNs sent ENHANCE_YOUR_CALM: at most \(limit == 1 ? "1 push" : "\(limit) pushes") a second from now on.")
        case .slowdownEnded:
            .info(
                .apnsSlowdownEnded, "\(app)APNs has not sent ENHANCE_YOUR_CALM again: its limit of pushes per second is lifted.")
        case .credentialRefused(let reason, let wait):
            .sentence(
                .error,
                "\(app)APNs refuses the new credential (\(reason)): keeping the previous one. "
                    + "Next attempt in \(wait.roundedSeconds) s.", .credentialRefused)
        case .tokens(let news):
            if case .notKept = news {
                .warning(.tokenNotKept, app + news.logText)
            } else {
                .info(.tokenInUse, app + news.logText)
            }
        }
    }

    static func certificate(_ text: String) -> LogEntry { .warning(.certificateExpires, text) }

    // MARK: Signals

    static func draining(_ jobs: Int, timeout: Duration) -> LogEntry {
        .info(.draining, "Draining: \(jobs.logged("job")) in flight, at most \(timeout.roundedSeconds) s.")
    }

    /// - Parameter delivery: with `at_most_once`, Redis has no copy of the jobs in flight.
    static func leaving(_ jobs: Int, _ delivery: QueueSettings.DeliveryMode) -> LogEntry {
        switch delivery {
        case .atLeastOnce:
            .warning(
                .exitingAtOnce, "Exiting at once: Redis keeps \(jobs.logged("job")) in flight for the next gaplessd.")
        case .atMostOnce: .warning(.exitingAtOnce, "Exiting at once: returning \(jobs.logged("job")) in flight to the list.")
        }
    }

    static func unconfirmed(_ delivery: QueueSettings.DeliveryMode) -> LogEntry {
        let rest =
            switch delivery {
            case .atLeastOnce: "the next gaplessd takes over the jobs in flight"
            case .atMostOnce: "with at_most_once, jobs that were being returned to the list may be lost"
            }
        return .warning(.settlementsUnconfirmed, "Redis did not confirm the last settlements; \(rest).")
    }

    static func stopped(_ counters: Counters) -> LogEntry { .info(.stopped, "Stopped: \(counters).") }

    static let filesChanged = LogEntry.info(
        .filesChanged, "A file of the settings has changed: reading the settings and credentials again.")
    static let reloadIgnored = LogEntry.warning(.reloadIgnored, "Reload ignored: gaplessd is stopping.")
    static func reloaded(keepsSessions: Bool) -> LogEntry {
        .info(
            .reloaded,
            keepsSessions
                ? "Reloaded: no app has changed; all sessions stay open."
                : "Reloaded: opening sessions with the new settings; existing sessions continue until then.")
    }
}

/// Decides which mistakes in valid jobs are worth a warning. A producer makes the same mistake in all its jobs, and each token of
/// a job repeats it.
struct JobWarnings {
    /// Between two warnings about a key.
    private static let interval = Duration.seconds(1)

    private var last: [JobKey: Instant] = [:]

    mutating func warn(of job: borrowing Job, now: Instant, _ effects: inout [DispatchEffect]) {
        if let hint = job.expiryHint, mayWarn(of: hint.key, now: now) {
            effects.append(.log(.unusual(job, hint: hint.text)))
        }
        if job.hasMistake, mayWarn(of: .data, now: now), let text = PayloadMistakes.find(in: job).first {
            effects.append(.log(.unusual(job, hint: "\(text).")))
        }
    }

    private mutating func mayWarn(of key: JobKey, now: Instant) -> Bool {
        if let last = last[key], now < last + Self.interval { return false }
        last[key] = now
        return true
    }
}
