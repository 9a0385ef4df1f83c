import Platform
import PushPool
import RedisQueue

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
