import Platform
import Synchronization

/// Writes the log. The wording of the lines about jobs is here (docs/running.md, "Log lines").
///
/// The lines about failed pushes are limited, and the others are counted by reason (`FailureLimit`): each failed push is a dead
/// letter or a retry in any case.
///
/// Any thread may call it. A call costs a lock and a copy of one line or of a batch of `Sent:`; it never waits for a disk, a pipe
/// or a reader, because `LogWriter` has a thread for them. Lines that find no room are dropped and counted.
final class Log: Sendable {
    /// The raw value of `level`: any thread may log while a reload changes it.
    private let threshold: Atomic<Int>
    private let writer: LogWriter

    /// - Parameters:
    ///   - output: receives `Sent:` and information.
    ///   - errors: receives warnings and errors.
    init(format: LogFormat = .text, level: LogLevel = .info, output: CInt = 1, errors: CInt = 2) throws(ThreadError) {
        threshold = Atomic(level.rawValue)
        writer = try LogWriter(format: format, output: output, errors: errors)
    }

    private var level: LogLevel { LogLevel(rawValue: threshold.load(ordering: .relaxed)) ?? .debug }

    /// Changes the format and the level of the following lines.
    func adopt(format: LogFormat, level: LogLevel) {
        threshold.store(level.rawValue, ordering: .relaxed)
        writer.change(format: format)
    }

    /// The number of lines that found no room or could not be written.
    var droppedLines: Int { writer.droppedLines }

    /// Writes the remaining lines within two seconds and ends the writer's thread. Later lines are dropped.
    func close() { writer.close() }

    // MARK: Lines about jobs

    /// APNs accepted these jobs. Each is valid JSON, redacted if `log_redact` is set.
    func sent(_ jobs: [[UInt8]]) {
        if level > .info { return }
        writer.append(sent: jobs)
    }

    /// APNs accepted this job. For the format `json`, which names the push.
    func sent(_ job: [UInt8], _ push: LoggedPush) {
        if level > .info { return }
        writer.append(.info) { line in
            line.sentParts(job)
            line.jobEvent(.pushSent, push)
        }
    }

    /// The job is resent later; `count` includes that resend.
    func retrying(identifier: String, _ reason: String, count: Int, _ push: LoggedPush? = nil) {
        if level > .warning { return }
        writer.append(.retry, reason) { line in
            line.message("SendPayload Error")
            line.identifier(identifier)
            line.field("reason", reason, after: ": ")
            line.number("retry", count, after: ". Retrying count (", before: ").")
            line.jobEvent(.pushRetrying, push)
        }
    }

    /// The job becomes a dead letter. `job` is valid JSON without line breaks, redacted if `log_redact` is set.
    func final(identifier: String, _ reason: String, job: [UInt8], _ push: LoggedPush? = nil) {
        writer.append(.final, reason) { line in
            line.message("Final SendPayload Error")
            line.identifier(identifier)
            line.field("reason", reason, after: ": ")
            line.text(" | ")
            line.validJob(job)
            line.text(".")
            line.jobEvent(.pushFailed, push)
        }
    }

    /// An element of the list cannot be pushed. With `redacts`, the line contains only the element's length.
    func badJob(_ job: [UInt8], _ error: JobError, redacts: Bool) {
        let message: StaticString =
            switch error.kind {
            case .unmarshal: "Json unmarshal error"
            case .structure: "Parsing apns structure error"
            }
        writer.append(.badJob, error.problem) { line in
            line.message(message)
            line.text(" (")
            line.badJob(job, Redaction(isOn: redacts))
            line.field("reason", error.description, after: "): ", before: ".")
            line.jobEvent(.jobBad)
        }
    }

    // MARK: Other lines

    func debug(_ message: @autoclosure () -> String) {
        if level == .debug { sentence(.debug, message()) }
    }

    func info(_ message: @autoclosure () -> String, _ event: LogEvent? = nil) {
        if level <= .info { sentence(.info, message(), event) }
    }

    func warning(_ message: @autoclosure () -> String, _ event: LogEvent? = nil) {
        if level <= .warning { sentence(.warning, message(), event) }
    }

    func error(_ message: String, _ event: LogEvent? = nil) { sentence(.error, message, event) }

    /// Logs the result of an operator's request, at any level.
    func answer(_ message: String, _ event: LogEvent? = nil) { sentence(.info, message, event) }

    private func sentence(_ level: LogLevel, _ message: String, _ event: LogEvent? = nil) {
        writer.append(level) { line in
            line.sentence(message)
            if let event { line.event(event) }
        }
    }
}

/// The facts about a push that its line contains in the format `json`.
struct LoggedPush: Sendable, Equatable {
    /// Empty for the top level.
    var app: String
    var apnsID: String?
    /// Sends so far.
    var attempt: Int
    /// The HTTP status of the response; `nil` without one.
    var status: Int?
    var trace: String?
    /// `apns-unique-id`, which only the sandbox sends.
    var uniqueID: String?
    var campaign: String?
}

/// The stable names of the lines that an operator may act on. `docs/log.md` says what to do.
enum LogEvent: String, Sendable, CaseIterable {
    case started = "started"
    case stopped = "stopped"
    case draining = "draining"
    case exitingAtOnce = "exiting_at_once"
    case settlementsUnconfirmed = "settlements_unconfirmed"
    case counters = "counters"
    case channelCreated = "channel_created"
    case channelDeleted = "channel_deleted"
    case channelFailed = "channel_failed"
    case redisConnected = "redis_connected"
    case redisLost = "redis_lost"
    case redisRefused = "redis_refused"
    case redisWarning = "redis_warning"
    case redisDataLost = "redis_data_lost"
    case deadLettersTrimmed = "dead_letters_trimmed"
    case deadLettersMany = "dead_letters_many"
    case feedbackTrimmed = "feedback_trimmed"
    case feedbackMany = "feedback_many"
    case jobsRecovered = "jobs_recovered"
    case leaseInDoubt = "lease_in_doubt"
    case jobsDisowned = "jobs_disowned"
    case workerRenamed = "worker_renamed"
    case crashSuspect = "crash_suspect"
    case jobUnusual = "job_unusual"
    case firstAccepted = "first_accepted"
    case appHeld = "app_held"
    case appResumed = "app_resumed"
    case firstSuspect = "first_suspect"
    case listPaused = "list_paused"
    case listResumed = "list_resumed"
    case campaignBegan = "campaign_began"
    case sessionOpened = "session_opened"
    case sessionClosed = "session_closed"
    case sessionFailed = "session_failed"
    case sessionsRestored = "sessions_restored"
    case poolResized = "pool_resized"
    case poolLimited = "pool_limited"
    case apnsSlowed = "apns_slowed"
    case apnsSlowdownEnded = "apns_slowdown_ended"
    case credentialRefused = "credential_refused"
    case tokenInUse = "token_in_use"
    case tokenNotKept = "token_not_kept"
    case tokenNotShared = "token_not_shared"
    case certificateExpires = "certificate_expires"
    case filesChanged = "files_changed"
    case reloaded = "reloaded"
    case reloadFailed = "reload_failed"
    case reloadIgnored = "reload_ignored"
    case settingsWarning = "settings_warning"
    case metricsListening = "metrics_listening"
    case serviceManagerLost = "service_manager_lost"
    case fleetLimitLost = "fleet_limit_lost"
    case fleetLimitRestored = "fleet_limit_restored"
    case logDropped = "log_dropped"
    case pushSent = "push_sent"
    case pushRetrying = "push_retrying"
    case pushFailed = "push_failed"
    case jobBad = "job_bad"
    case failuresCounted = "failures_counted"
    case relayStarted = "relay_started"
    case relayStopped = "relay_stopped"
    case relayFailing = "relay_failing"
    case relayRecovered = "relay_recovered"
    case resultRefused = "result_refused"
    case resultsTrimmed = "results_trimmed"
}

/// The values of `log_level`, from the least to the most severe.
enum LogLevel: Int, Sendable, Comparable, CaseIterable {
    case debug, info, warning, error

    var name: String { "\(self)" }

    static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }

    var letter: String { name.prefix(1).uppercased() }

    /// The number in syslog(3).
    var priority: Int {
        switch self {
        case .debug: 7
        case .info: 6
        case .warning: 4
        case .error: 3
        }
    }
}

/// The values of `log_format`.
enum LogFormat: String, Sendable, CaseIterable {
    case text
    /// One JSON object a line.
    case json
    /// The format `text` after a priority for systemd's journal (sd-daemon(3)).
    case journal
}
