import Platform
import RedisQueue

/// The jobs with several tokens of one list: how many of their tokens may be on their way, and the jobs that wait for tokens of
/// their own.
///
/// A part of a job goes out, and the rest of it returns to the list, from which it is claimed again.
///
/// It cannot be copied: each turn asks whether a job waits.
struct Splits: ~Copyable {
    /// The bytes of parts at which no further job of a claim is split. The parts are larger than their job by up to one payload
    /// each, and are in memory several times before Redis has them.
    static let mostBytes = 1 << 20
    /// The pushes of a job with `tokens` that are on their way have at most this many times its bytes: Redis has each of
    /// them also in the buffers of its clients while it is claimed or settled, and all together need less than ten times the job.
    static let mostExpansion = 4
    /// Bytes that the pushes of each job may have.
    private static let leastExpansion = 4096
    private static let mostExpansions = 1000

    /// A job with `tokens` of which not all may be on their way at a time, or the part of it that goes out.
    private struct Expansion {
        var mostBytes: Int
        /// Those that went out.
        var tokens: Set<String> = []
        /// Of a part that goes out: the key of the rest, which is behind it in the list.
        var rest: Int?
    }

    /// A job that stays claimed until enough of its pushes have a response.
    private struct Waiting {
        let claim: ClaimedJob
        var pending: [JobID]
        /// The number of pending ones at which it goes on.
        let most: Int
    }

    enum Decision {
        case parts(JobParts)
        /// Most of its tokens that may be on their way are: it waits here.
        case waits
        /// It is split after the parts before it are gone.
        case later
    }

    /// The bytes of all parts of this claim, and by app the number of those that go out with the next claim.
    private var bytes = 0
    private var singles: [Int: Int] = [:]
    /// By `Job.restKey`.
    private var expansions: [Int: Expansion] = [:]
    /// The rests of jobs of which tokens go out with the next claim.
    private var restsBehind: Set<Int> = []
    private var waiting: [Waiting] = []
    /// The lowest rank of the jobs with `replaces` and `tokens` that went back to the list, whole or as parts, and the time at
    /// which newer jobs no longer wait for them.
    private var partsAhead: (rank: UInt64, end: Instant)?
    /// The time in which such a job usually reaches the slots of its tokens: after up to three claims.
    static let partsWait = Duration.milliseconds(250)

    mutating func claimBegan() {
        bytes = 0
        if !singles.isEmpty { singles.removeAll() }
        if !restsBehind.isEmpty { restsBehind.removeAll() }
    }

    // MARK: Splitting

    /// The tokens of a job that went out before the rest of it was claimed.
    func tokensBefore(rest job: borrowing Job) -> Set<String> {
        expansions.isEmpty ? [] : expansions[job.restKey]?.tokens ?? []
    }

    /// Splits a job into parts, of which no more are single jobs than its app takes now.
    ///
    /// - Parameters:
    ///   - pending: its pushes on their way.
    ///   - places: how many jobs the app takes.
    mutating func split(_ job: HeldJob, of claim: ClaimedJob, pending: [JobID], places: Int) -> Decision {
        let key = job.job.restKey
        let window = window(of: job.job, key)
        if !pending.isEmpty && pending.count > window / 2 && pending.count + job.job.tokens.count > window {
            waiting.append(Waiting(claim: claim, pending: pending, most: window / 2))
            return .waits
        }
        let places = min(places - singles[job.app, default: 0], window - pending.count)
        guard places > 0, bytes < Self.mostBytes, !restsBehind.contains(key),
            let (parts, count) = job.job.split(into: places, bytes: 2 * Self.mostBytes)
        else { return .later }
        bytes += parts.byteCount
        singles[job.app, default: 0] += count
        remember(job.job, key, singles: count)
        return .parts(parts)
    }

    /// How many tokens of a job may be on their way: its pushes need memory of Redis, and the dead letters of bad tokens.
    private func window(of job: borrowing Job, _ key: Int) -> Int {
        max(1, (expansions[key]?.mostBytes ?? Self.mostBytes(of: job)) / max(1, job.bytesPerToken))
    }

    private static func mostBytes(of job: borrowing Job) -> Int {
        max(leastExpansion, mostExpansion * job.bytes.count - job.tokens.count { $0.fault != nil } * job.bytesPerToken)
    }

    /// Remembers what the rest of the job, and the part before it, may send.
    private mutating func remember(_ job: borrowing Job, _ key: Int, singles: Int) {
        let count = job.tokens.count
        let known = expansions[key]
        if let rest = known?.rest { restsBehind.insert(rest) }
        if singles == 0 || singles >= count || known == nil && count * job.bytesPerToken <= Self.mostBytes(of: job) {
            if known != nil { expansions[key] = nil }
            return
        }
        // The rests of some jobs were claimed by other workers.
        if expansions.count >= Self.mostExpansions { expansions.removeAll() }
        var expansion = known ?? Expansion(mostBytes: Self.mostBytes(of: job))
        if expansion.rest == nil {
            for token in job.tokens.prefix(singles) { expansion.tokens.insert(job.text(of: token)) }
        }
        expansions[key] = expansion
        expansions[job.restKey(through: singles)] = Expansion(mostBytes: .max, rest: expansion.rest ?? key)
    }

    // MARK: Waiting jobs

    var isWaiting: Bool { !waiting.isEmpty }
    /// The pushes for which jobs wait.
    var pending: [JobID] { waiting.flatMap(\.pending) }

    /// These pushes have a response. Removes the jobs that go on, and returns them in the order of their claims.
    mutating func responded(to ids: Set<JobID>) -> [ClaimedJob] {
        var ready: [ClaimedJob] = []
        for index in waiting.indices {
            waiting[index].pending.removeAll(where: ids.contains)
            if waiting[index].pending.count <= waiting[index].most { ready.append(waiting[index].claim) }
        }
        waiting.removeAll { $0.pending.count <= $0.most }
        return ready
    }

    /// Removes all waiting jobs and returns them.
    mutating func takeWaiting() -> [ClaimedJob] {
        defer { waiting.removeAll() }
        return waiting.map(\.claim)
    }

    /// Another worker holds these jobs now.
    mutating func disowned(_ claims: Set<ClaimID>) { waiting.removeAll { claims.contains($0.claim.id) } }

    // MARK: Parts of jobs with `replaces`

    /// A job with `replaces` and `tokens` goes back to the list, whole or as parts.
    mutating func partsReturn(rank: UInt64, now: Instant) {
        let other = partsAhead.flatMap { now < $0.end ? $0.rank : nil }
        partsAhead = (min(rank, other ?? rank), now + Self.partsWait)
    }

    /// Returns the time for which a job with this rank waits in its slot. Otherwise an older `start` for several tokens would be
    /// sent behind it, and an older `end` not at all.
    func waitForParts(before rank: UInt64, now: Instant) -> Duration? {
        partsAhead.flatMap { $0.rank < rank && now < $0.end ? Self.partsWait : nil }
    }
}
