import Glibc
import Platform
import PushPool
import RedisQueue

/// The state of the daemon at one moment.
struct ProcessSnapshot: Sendable, Equatable {
    struct App: Sendable, Equatable {
        /// `nil` for the app of the top level.
        var name: String?
        var sessions = 0
        /// Streams that all open sessions together allow.
        var capacity = 0
        /// Jobs that this process holds for the app.
        var held = 0
        /// Pushes on the wire.
        var streams = 0
        var hold: HoldReason?
        /// Whether an operator has paused the app, or a whole list.
        var isPaused = false
        var figures = PoolFigures()
        var bottleneck = Bottleneck.none
        var responses = ResponseFigures()
        /// Unix seconds.
        var certificateExpires: Int64?
        /// As in `DispatchPlan.App`.
        var fingerprint = ""
        /// The last acceptance; see `AppMachine`.
        var acceptedAt: Instant?
        var tokenAge: Duration?
        /// Whether it has no sessions because it has no jobs, or opens them for its first ones.
        var isIdle = false
        /// Whether the settings no longer have it.
        var isRemoved = false
        /// Whether a list has a side list of the app.
        var hasAside = false

        func isKnown(now: Instant) -> Bool { acceptedAt.map { now - $0 < CircuitBreaker.proofLifetime } ?? false }

        /// The name in labels and sentences, as in the output of `check`.
        var label: String { name ?? "(top level)" }
    }

    struct List: Sendable, Equatable {
        var name: String
        var isConnected = false
        /// Whether this worker's lease may have expired.
        var isInDoubt = false
        /// Time since Redis last confirmed this worker's lease; `nil` before the first time.
        var sinceContact: Duration?
        /// The time to a reply of Redis.
        var latency = Duration.zero
        /// Whether the list may have jobs that wait for a claim.
        var hasBacklog = false
        /// The pauses in force.
        var pauses: [PauseNote] = []
    }

    var isLeaving = false
    /// Jobs claimed and not settled.
    var inFlight = 0
    /// Since this process started.
    var counters = Counters()
    /// The longest turn of the dispatcher since this process started.
    var longestTurn = Duration.zero
    var apps: [App]
    var lists: [List]
}

/// The last snapshot of the dispatcher, for the threads of the metrics endpoint.
final class ProcessBoard: Sendable {
    struct Notice: Sendable {
        var snapshot: ProcessSnapshot
        var at: Instant
    }

    private let notice = Locked<Notice?>(nil)

    func publish(_ snapshot: ProcessSnapshot, at now: Instant) {
        notice.withLock { $0 = Notice(snapshot: snapshot, at: now) }
    }

    /// `nil` before the dispatcher's first turn.
    var latest: Notice? { notice.withLock { $0 } }
}

/// The kernel's figures of this process.
struct SystemFacts: Sendable, Equatable {
    /// Unix seconds.
    var started: Double
    var residentBytes: Int
    var processorSeconds: Double
    /// Log lines that could not be written.
    var droppedLines = 0

    static func now(started: WallClock, _ log: Log) -> SystemFacts {
        var usage = rusage()
        unsafe getrusage(CInt(RUSAGE_SELF.rawValue), &usage)
        let seconds = { (time: timeval) in Double(time.tv_sec) + Double(time.tv_usec) / 1e6 }
        return SystemFacts(
            started: started.seconds, residentBytes: residentBytes(),
            processorSeconds: seconds(usage.ru_utime) + seconds(usage.ru_stime), droppedLines: log.droppedLines)
    }

    /// The second field of /proc/self/statm, in pages (proc(5)); 0 without /proc.
    private static func residentBytes() -> Int {
        guard let bytes = try? FileBytes.read("/proc/self/statm", atMost: 4096) else { return 0 }
        let fields = String(decoding: bytes, as: UTF8.self).split(separator: " ")
        return fields.count > 1 ? (Int(fields[1]) ?? 0) * Int(sysconf(CInt(_SC_PAGESIZE))) : 0
    }
}

/// The daemon's counters since its start, for SIGUSR1 and metrics. The counters that survive restarts are in Redis.
struct Counters: Sendable, Equatable, CustomStringConvertible {
    var claimed = 0
    var sent = 0
    var retried = 0
    var resent = 0
    var dead = 0
    var expired = 0
    var released = 0
    var postponed = 0

    /// In the order of the log and of the metrics.
    var all: [(counter: Counter, count: Int)] {
        [
            (.claimed, claimed), (.sent, sent), (.retried, retried), (.resent, resent), (.dead, dead), (.expired, expired),
            (.released, released), (.postponed, postponed),
        ]
    }

    var description: String { all.map { "\($0.counter.rawValue) \($0.count)" }.joined(separator: ", ") }
}

/// The responses of APNs to one app since the start of this process, by kind, and their latencies.
struct ResponseFigures: Sendable, Equatable {
    private(set) var accepted = 0
    private var others: [ResponseKind: Int] = [:]
    /// All outcomes.
    private(set) var count = 0
    /// Responses that are not acceptances.
    private var rejected = 0
    /// From the claim to the moment when the request left for the wire, from there to the response, and both together. With
    /// `PoolSettings.recordsTimes` only.
    private(set) var toWire = LatencyHistogram()
    private(set) var toResponse = LatencyHistogram()
    private(set) var total = LatencyHistogram()

    mutating func countAcceptance() {
        accepted += 1
        count += 1
    }

    /// Counts an outcome that is not an acceptance. Returns whether it is a response of APNs, whose latency counts.
    mutating func count(_ outcome: Outcome) -> Bool {
        if let kind = ResponseKind(outcome) {
            others[kind, default: 0] += 1
            count += 1
        }
        guard case .rejected = outcome else { return false }
        rejected += 1
        return true
    }

    /// Adds what another app has counted since an earlier state.
    mutating func add(_ other: ResponseFigures, since earlier: ResponseFigures) {
        accepted += other.accepted - earlier.accepted
        for (kind, number) in other.others where number > earlier.others[kind, default: 0] {
            others[kind, default: 0] += number - earlier.others[kind, default: 0]
        }
        count += other.count - earlier.count
        rejected += other.rejected - earlier.rejected
        toWire.add(other.toWire.since(earlier.toWire))
        toResponse.add(other.toResponse.since(earlier.toResponse))
        total.add(other.total.since(earlier.total))
    }

    /// All responses of APNs.
    var responses: Int { accepted + rejected }

    /// Counts the latencies of a response.
    mutating func record(claimed: Instant, _ times: AttemptTimes) {
        toWire.record(times.sent - claimed)
        toResponse.record(times.ended - times.sent)
        total.record(times.ended - claimed)
    }

    /// The number of outcomes of each kind, in order of status and reason.
    var kinds: [(kind: ResponseKind, count: Int)] {
        var all = others
        if accepted > 0 { all[.accepted] = accepted }
        return all.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }
}

/// The status and reason of a response, or the reason why there is none. The number of values is bounded, whatever a server
/// sends.
struct ResponseKind: Sendable, Hashable, Comparable {
    /// Three digits, `other`, or `none` without a response.
    let status: String
    let reason: String

    static let accepted = ResponseKind(status: "200", reason: "Accepted")
    static let timeout = ResponseKind(status: "none", reason: "Timeout")
    static let connectionLost = ResponseKind(status: "none", reason: "ConnectionLost")

    private static let other = "other"

    private init(status: String, reason: String) { (self.status, self.reason) = (status, reason) }

    init(_ rejection: Rejection) {
        status = Self.statuses.contains(rejection.status) ? String(rejection.status) : Self.other
        reason = Self.reasons.contains(rejection.reason) ? rejection.reason : Self.other
    }

    /// `nil` for an outcome that says nothing about APNs: the request was not sent, or its outcome follows.
    init?(_ outcome: Outcome) {
        switch outcome {
        case .delivered: self = .accepted
        case .rejected(let rejection): self.init(rejection)
        case .timedOut: self = .timeout
        case .maybeProcessed: self = .connectionLost
        case .notProcessed, .outdated, .begun: return nil
        }
    }

    static func < (left: ResponseKind, right: ResponseKind) -> Bool {
        (left.status, left.reason) < (right.status, right.reason)
    }

    private static let statuses: Set<Int> = [400, 403, 404, 405, 408, 410, 413, 421, 429, 500, 502, 503, 504]

    /// Apple's reasons for pushes and broadcasts ("Handling notification responses from APNs", "Handling error responses from
    /// Apple Push Notification service").
    private static let reasons: Set<String> = HoldReason.badEnvironmentKey.union([
        "BadCollapseId", "BadDeviceToken", "BadExpirationDate", "BadMessageId", "BadPriority", "BadTopic",
        "DeviceTokenNotForTopic", "DuplicateHeaders", "IdleTimeout", "InvalidPushType", "MissingDeviceToken", "MissingTopic",
        "PayloadEmpty", "TopicDisallowed", "BadCertificate", "BadCertificateEnvironment", "ExpiredProviderToken", "Forbidden",
        "InvalidProviderToken", "MissingProviderToken", "UnrelatedKeyIdInToken", "BadPath", "MethodNotAllowed", "ExpiredToken",
        "Unregistered", "PayloadTooLarge", "TooManyProviderTokenUpdates", "TooManyRequests", "InternalServerError",
        "ServiceUnavailable", "Shutdown", "BadChannelId", "BadRequestParams", "BadRequestPayload", "CannotCreateChannelConfig",
        "ChannelNotRegistered", "FeatureNotEnabled", "MissingChannelId", "MissingPushType", "TopicMismatch",
    ])
}
