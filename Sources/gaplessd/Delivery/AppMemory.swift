import DequeModule
import Platform
import PushPool
import RedisQueue

/// The recent failures of single device tokens: the tokens that must rest, and the session on which each of them failed.
///
/// Each process has its own bounded memory. A forgotten entry costs only one more response of APNs.
struct TokenMemory {
    /// One device token of one app.
    struct Key: Hashable {
        var app: Int
        /// Lower-case hex.
        var token: String

        init(app: Int, token: String) {
            self.app = app
            self.token = token.lowercased()
        }
    }

    private struct Entry {
        var number: UInt64
        /// Newer jobs of the token wait until then.
        var pausedUntil: Instant?
        /// The session that failed it last.
        var session: SessionID
        /// The time from which the entry is not needed.
        var end: Instant
    }

    static let most = 10_000
    /// The time after its delay within which a retry still finds the session to avoid.
    private static let grace = Duration.seconds(60)
    /// The delay of the jobs that wait behind a retry, counted from the retry: more than the 100 ms between two returns of due
    /// jobs to their list. With less, both could go out together on two sessions.
    static let distance = Duration.milliseconds(250)

    private var entries: [Key: Entry] = [:]
    /// Keys in the order of their failures, with the number of the entry at that time: an older number is void.
    private var order: Deque<(key: Key, number: UInt64)> = []
    private var lastNumber: UInt64 = 0

    /// The end of the last pause.
    private var pausedUntil: Instant?

    var count: Int { entries.count }
    /// The length of the order of failures, at most twice `most`.
    var records: Int { order.count }

    /// Whether any token is paused.
    func hasPauses(now: Instant) -> Bool { pausedUntil.map { $0 > now } ?? false }

    /// A push to `key` failed on `session` and goes out again after `delay`.
    mutating func failed(
        _ key: Key, on session: SessionID, delay: Duration, pauses: Bool, now: Instant
    ) {
        var pause = entries[key]?.pausedUntil
        if pauses {
            pause = max(pause ?? now, now + delay)
            pausedUntil = max(pausedUntil ?? now, now + delay)
        }
        lastNumber += 1
        entries[key] = Entry(
            number: lastNumber, pausedUntil: pause, session: session,
            end: now + delay + Self.grace)
        order.append((key, lastNumber))
        trim(now: now)
    }

    /// Returns the time for which a job that could go out must wait; `nil` for no wait. A retry waits for nothing, and avoids
    /// the session on which it failed.
    @inline(__always)
    func pause(_ job: HeldJob, now: Instant) -> Duration? {
        if job.job.attempts > 0 {
            job.avoiding = session(toAvoid: Key(app: job.app, token: job.token))
            return nil
        }
        return hasPauses(now: now) ? pause(Key(app: job.app, token: job.token), now: now) : nil
    }

    /// Returns the time for which a newer job of this token must wait; `nil` for no wait.
    func pause(_ key: Key, now: Instant) -> Duration? {
        guard let until = entries[key]?.pausedUntil, until > now else { return nil }
        return until - now + Self.distance
    }

    /// The session that a retry should avoid.
    func session(toAvoid key: Key) -> SessionID? { entries[key]?.session }

    /// Forgets entries that have ended, the oldest ones beyond `most`, and void keys once they outnumber the entries.
    private mutating func trim(now: Instant) {
        while let (key, number) = order.first {
            if let entry = entries[key], entry.number == number {
                guard entry.end <= now || entries.count > Self.most else { break }
                entries[key] = nil
            }
            order.removeFirst()
        }
        if order.count > 2 * Self.most { order.removeAll { entries[$0.key]?.number != $0.number } }
    }
}

/// Finds jobs whose own rejections hold their app, although the credential is good.
///
/// A job gets a strike if it was the only job that APNs rejected before and during a hold, and then another job was accepted.
/// At the next rejection after two strikes the job is at fault.
struct HoldCulprits {
    /// A hash of the parts of a job that stay the same when it returns to its list.
    typealias Fingerprint = Int

    static let strikes = 2
    /// Jobs with strikes that are remembered. A new one replaces the oldest.
    static let capacity = 100

    private var known: [(job: Fingerprint, strikes: Int)] = []
    private var rejected: Fingerprint?
    private var wereSeveralRejected = false

    /// APNs rejected the job with a fault of the credential or of the topic. Returns whether the job itself is at fault.
    mutating func rejected(_ job: Fingerprint) -> Bool {
        if let index = known.firstIndex(where: { $0.job == job }), known[index].strikes >= Self.strikes {
            known.remove(at: index)
            return true
        }
        if let rejected, rejected != job { wereSeveralRejected = true }
        rejected = job
        return false
    }

    /// APNs accepted a job, which ended the hold.
    mutating func holdEnded(by accepted: Fingerprint) {
        if let rejected, !wereSeveralRejected, rejected != accepted { strike(rejected) }
        known.removeAll { $0.job == accepted }
        forgetRejections()
    }

    /// The hold ended without an acceptance.
    mutating func forgetRejections() { (rejected, wereSeveralRejected) = (nil, false) }

    private mutating func strike(_ job: Fingerprint) {
        if let index = known.firstIndex(where: { $0.job == job }) {
            known[index].strikes += 1
        } else {
            if known.count == Self.capacity { known.removeFirst() }
            known.append((job, 1))
        }
    }
}

/// The suspect jobs of one app: APNs rejected their tokens, which a wrong environment or topic would explain. They wait for an
/// acceptance of the app.
struct Suspects {
    /// The longest wait for an acceptance: then a suspect is settled, because fewer than `CircuitBreaker.caution` came in a row,
    /// or the app is known.
    private static let timeout = Duration.seconds(60)

    /// Those that the app holds.
    private(set) var count = 0
    /// In order of their responses. A suspect that another worker took over is no longer held.
    private var pending: [(id: JobID, since: Instant)] = []
    /// The campaign of the last acceptance: an acceptance of another one proves nothing about the tokens of a campaign.
    private var acceptedCampaign: String?

    var deadline: Instant? { pending.first.map { $0.since + Self.timeout } }

    mutating func add(_ id: JobID, now: Instant) {
        count += 1
        pending.append((id, now))
    }

    /// The app no longer holds one of them.
    mutating func wasRemoved() { count -= 1 }

    mutating func accepted(campaign: String?) { acceptedCampaign = campaign }

    mutating func takeAll() -> [JobID] {
        defer { pending.removeAll(keepingCapacity: true) }
        return pending.map(\.id)
    }

    /// Removes the suspects to which the last acceptance applies. The tokens of a campaign wait for an acceptance of the same
    /// one: a campaign for another environment stops before it burns them. One that never stops waits like single jobs.
    mutating func takeProven(of held: HeldJobs) -> [JobID] {
        let accepted = acceptedCampaign
        func isProven(_ id: JobID) -> Bool {
            guard let job = held[id], job.job.isMember, job.campaign?.campaign.stop != 0 else { return true }
            return job.job.campaign == accepted
        }
        let proven = pending.filter { isProven($0.id) }.map(\.id)
        pending.removeAll { isProven($0.id) }
        return proven
    }

    /// Removes those that have waited for `timeout`.
    mutating func takeOld(now: Instant) -> [JobID] {
        guard let deadline, deadline <= now else { return [] }
        let old = pending.prefix { $0.since + Self.timeout <= now }.map(\.id)
        pending.removeFirst(old.count)
        return old
    }
}

/// The acceptances of an app by its present credential and server.
struct Acceptances {
    /// Whether a session with the present credential has had an acceptance in this process.
    var isProven = false
    /// APNs has refused the credential of the settings, and the pool uses the previous one: acceptances do not prove that of the
    /// settings, by whose fingerprint other processes would look them up.
    var usesPreviousCredential = false
    /// The last acceptance with the topic of the app: in this process, to the second, or in another one.
    private var last: Instant?
    /// The time from which the next acceptance counts for `last`.
    private var next: Instant?

    /// Whether APNs has accepted a job within a day: see `CircuitBreaker`.
    func isKnown(now: Instant) -> Bool { last.map { now - $0 < CircuitBreaker.proofLifetime } ?? false }

    /// The last acceptance, if it proves the credential of the settings.
    var ofSettings: Instant? { usesPreviousCredential ? nil : last }

    /// Whether the next acceptance counts: only the first one of a second does.
    func isDue(now: Instant) -> Bool { next.map { $0 <= now } ?? true }

    mutating func accepted(hasTopicOfApp: Bool, now: Instant) {
        next = now + .seconds(1)
        if hasTopicOfApp { last = now }
    }

    /// Redis remembers an acceptance. Returns whether it is news.
    mutating func remembered(age: Duration, now: Instant) -> Bool {
        guard !isKnown(now: now), age < CircuitBreaker.proofLifetime else { return false }
        last = now - age
        return true
    }
}
