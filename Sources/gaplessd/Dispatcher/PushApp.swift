import Clocks
import PushPool

/// One app on its way out: its pool, its gate, and what this turn has ready for it.
///
/// A class, because an app is one thing that the dispatcher's parts all mean when they say its number; the dispatcher's
/// thread alone touches it.
final class PushApp {
    /// `nil` is the app of the top level.
    let name: String?
    let pool: SessionPool
    /// `apns_topic`, or the certificate's own; `nil` where each job must name its own.
    private(set) var topic: String?
    var gate = CircuitBreaker()
    /// Notifications of this turn, pushed to the pool together at its end.
    var outgoing: [Notification] = []
    /// Jobs of this app that are held: queued, on the wire, or waiting for a first acceptance.
    var held = 0
    /// Those of them that have their answer and wait for a first acceptance: they take no stream.
    var heldSuspects = 0
    /// Those of `outgoing` that stayed here at the end of the last turn, since the Redis of their list is silent.
    var doubted = 0
    /// Those that are open.
    var sessions: Set<SessionID> = []
    /// Unix seconds; `nil` for a signing key.
    private(set) var certificateExpires: Int64?
    /// Since when no session is open; `nil` while one is.
    var unreachableSince: Instant?
    private var headers = SharedHeadersCache()

    init(name: String?, pool: SessionPool, _ credential: AppCredential) {
        self.name = name
        self.pool = pool
        certificateExpires = credential.credential.certificate?.notAfter
        topic = credential.topic
    }

    /// Another credential, whose topic may be another, too.
    func adopt(_ credential: AppCredential) {
        certificateExpires = credential.credential.certificate?.notAfter
        topic = credential.topic
    }

    /// Whether nobody says which topic a job is for: not the job, not the settings, not the certificate.
    func lacksTopic(for job: borrowing Job) -> Bool { job.topic == nil && topic == nil }

    /// In a sentence.
    var words: String { name.map { "app \"\($0)\"" } ?? "the top level" }

    /// `app "beta": `, or nothing for the top level: the beginning of a log line.
    var label: String { name.map { "app \"\($0)\": " } ?? "" }

    /// Jobs that no session has taken yet.
    var waiting: Int { pool.waiting + outgoing.count - stranded }
    /// Jobs that take up places.
    private var placed: Int { held - heldSuspects - stranded }
    /// Some of the doubted may have been taken back or dropped since.
    private var stranded: Int { min(doubted, outgoing.count) }

    /// How many more of this app's jobs may be claimed. One batch more than the streams keeps sessions busy between claims.
    func places(now: Instant) -> Int {
        let streams = pool.capacity
        guard streams > 0 else { return 0 }
        return max(0, min(gate.allowance(now: now) - held, streams + min(streams, 250) - placed))
    }

    /// How many more of its jobs may be claimed for places of other apps: twice what it claims for its own is the most that it holds.
    /// An app that sends nothing gives back what it gets, and an app without answers lets go of it in time.
    var room: Int {
        let streams = pool.capacity
        guard gate.isOpen, streams > 0 else { return Int.max }
        return max(0, 2 * (streams + min(streams, 250)) - placed)
    }

    /// Whether a job that was claimed may go out.
    func takesOne(now: Instant) -> Bool {
        pool.capacity > 0 && (gate.isOpen || held < gate.allowance(now: now))
    }

    /// A job of this app is no longer held.
    func noLongerHolds(_ job: HeldJob) {
        held -= 1
        if job.suspectAnswer != nil { heldSuspects -= 1 }
    }

    /// The notification of a held job. Its parts are looked up one by one: the job as a whole would be a copy.
    func notification(_ number: UInt64, _ held: HeldJob) -> Notification {
        let token: Range<Int>
        let channel: String?
        var isOwn = held.maskedPayload == nil
        switch held.job.target {
        case .token(let digits): (token, channel) = (digits, nil)
        case .escapedToken(_, let content): (token, channel, isOwn) = (content, nil, false)
        case .channel(let id, let content): (token, channel) = (content, id)
        case .tokens: preconditionFailure("a job for many devices was not cut into its parts")
        }
        let headers = headers.shared(
            topic: held.job.topic ?? topic, pushType: held.job.pushType, priority: held.job.priority, channel: channel)
        if !isOwn, let other = held.job.rewritten(maskedPayload: held.maskedPayload) {
            return Notification(
                id: number, bytes: other.bytes, token: other.token, payload: other.payload, headers: headers,
                expiration: held.expiration, lifetime: held.lifetime, apnsID: held.job.apnsID, collapseID: held.job.collapseID,
                avoiding: held.avoiding)
        }
        return Notification(
            id: number, bytes: held.job.bytes, token: token, payload: held.job.data, headers: headers,
            expiration: held.expiration, lifetime: held.lifetime, apnsID: held.job.apnsID, collapseID: held.job.collapseID,
            avoiding: held.avoiding)
    }
}
