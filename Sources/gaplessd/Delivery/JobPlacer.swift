import Platform
import RedisQueue

/// Decides where a claimed job goes: reads it, finds its app, and checks its dates, its token and its words.
///
/// The first row that fits applies:
///
///     claimed job                                   next
///     gaplessd stops, or the list is paused         released
///     too large, not readable, or only bad tokens   dead letter
///     `not_before` to come, and not expired         delayed
///     no app, or no topic                           dead letter
///     the app cannot take it, and not expired       released; in a list of several apps, set aside
///     expired, or filtered                          dead letter
///     several tokens                                split: its parts are claimed in turn
///     its token is paused, and it is no resend      delayed
///     otherwise                                     held, and outgoing
///
/// So a job with several tokens is one job until its app takes jobs.
struct JobPlacer {
    /// The bytes of parts at which no further job of a claim is split. The parts are larger than their job by up to one payload
    /// each, and are in memory several times before Redis has them.
    static let mostSplitBytes = 1 << 20

    var plan: DispatchPlan
    /// The bytes of all parts of this claim, and by app the number of those that go out with the next claim.
    private var splitBytes = 0
    private var splitJobs: [Int: Int] = [:]
    /// The last warnings about an expiry, by key. A producer makes the same mistake in all its jobs, and each token of a job
    /// repeats it.
    private var expiryHints: [JobKey: Instant] = [:]
    static let hintInterval = Duration.seconds(1)

    init(plan: DispatchPlan) { self.plan = plan }

    mutating func claimBegan() {
        splitBytes = 0
        if !splitJobs.isEmpty { splitJobs.removeAll() }
    }

    /// Sends or settles a claimed job. Returns false if it was given back.
    mutating func place(
        _ claim: ClaimedJob, list: Int, isPaused: Bool, _ jobs: inout JobFlow, _ effects: inout [DispatchEffect]
    ) -> Bool {
        guard !jobs.isLeaving, !isPaused else {
            return giveBack(claim, app: appOfOlder(claim), list: list, &jobs, &effects)
        }
        if let size = claim.fullSize {
            jobs.settler.rejectLargeJob(claim, size: size, list: list, &effects)
            return true
        }
        do {
            return try place(try plan.reader.read(claim.bytes), of: claim, list: list, &jobs, &effects)
        } catch {
            jobs.settler.rejectBadJob(claim, list: list, error, &effects)
            return true
        }
    }

    private mutating func place(
        _ job: consuming Job, of claim: ClaimedJob, list: Int, _ jobs: inout JobFlow, _ effects: inout [DispatchEffect]
    ) throws(JobError) -> Bool {
        let isExpired = job.isExpired(now: jobs.wallClock.unixSeconds)
        if !isExpired, let due = job.notBefore, due > jobs.wallClock.seconds {
            if let hint = job.notBeforeHint { effects.append(.log(.unusualNotBefore(job, hint: hint))) }
            // Redis' sorted sets hold doubles: 2^53 ms is the last exact one.
            let milliseconds = Int64(min(due * 1000, 9_007_199_254_740_992))
            jobs.settler.postpone(claim, list: list, .at(milliseconds: milliseconds), &effects)
            return true
        }
        let app = try plan.routes.app(for: job)
        guard isExpired || jobs.takesOne(app: app, list: list, wasClaimed: claim.wasClaimed) else {
            return giveBack(claim, app: app, list: list, isRetry: job.attempts > 0, &jobs, &effects)
        }
        if let hint = job.expiryHint, !isExpired { warn(of: hint, in: job, jobs.now, &effects) }
        let expiration = job.expiration(now: jobs.wallClock.unixSeconds)
        let held = HeldJob(
            job, list: list, claim: claim.id, isAlone: claim.isAlone, app: app, expiration: expiration, claimed: jobs.now)
        if isExpired {
            jobs.settler.expire(held, wasSent: false, &effects)
        } else if isStoppedByFilter(held) {
            jobs.settler.filter(held, &effects)
        } else if case .tokens = held.job.target {
            return split(held, of: claim, &jobs, &effects)
        } else if held.job.attempts > 0 {
            held.avoiding = jobs.memory.session(toAvoid: TokenMemory.Key(app: app, token: held.token))
            jobs.take(held)
        } else if jobs.memory.hasPauses(now: jobs.now),
            let pause = jobs.memory.pause(TokenMemory.Key(app: app, token: held.token), now: jobs.now)
        {
            jobs.settler.postpone(claim, list: list, .after(pause), &effects)
        } else {
            jobs.take(held)
        }
        return true
    }

    /// Replaces a job with several tokens by its parts, of which no more are single jobs than the app takes now. If the claim has
    /// enough parts, the job returns to the list and is split after the parts before it are gone.
    private mutating func split(
        _ job: HeldJob, of claim: ClaimedJob, _ jobs: inout JobFlow, _ effects: inout [DispatchEffect]
    ) -> Bool {
        let places = jobs.places(app: job.app) - splitJobs[job.app, default: 0]
        guard places > 0, splitBytes < Self.mostSplitBytes,
            let (parts, singles) = job.job.split(into: places, bytes: 2 * Self.mostSplitBytes)
        else {
            let isAside = jobs.isAside(app: job.app, list: job.list)
            return giveBack(claim, app: isAside ? job.app : nil, list: job.list, isRetry: true, &jobs, &effects)
        }
        splitBytes += parts.byteCount
        splitJobs[job.app, default: 0] += singles
        // The parts of a job from a side list are claimed from there.
        let isAside = jobs.isAside(app: job.app, list: job.list)
        let aside = isAside ? jobs.aside(of: job.app, list: job.list) : nil
        jobs.settler.split(claim, list: job.list, aside: aside, into: parts, &effects)
        return true
    }

    /// The app of a job that comes from a side list, where it belongs in front.
    private mutating func appOfOlder(_ claim: ClaimedJob) -> Int? {
        guard claim.wasClaimed, let job = try? plan.reader.read(claim.bytes) else { return nil }
        return try? plan.routes.app(for: job)
    }

    private mutating func warn(
        of hint: (key: JobKey, text: String), in job: borrowing Job, _ now: Instant, _ effects: inout [DispatchEffect]
    ) {
        if let last = expiryHints[hint.key], now < last + Self.hintInterval { return }
        expiryHints[hint.key] = now
        effects.append(.log(.unusualExpiry(job, hint: hint.text)))
    }

    /// Returns whether the filter stops the job. If it masks words instead, the job gets a masked payload.
    private func isStoppedByFilter(_ job: HeldJob) -> Bool {
        guard let filter = plan.filter else { return false }
        switch filter.judge(job.job.data, of: job.job.bytes) {
        case .clean: return false
        case .stopped: return true
        case .masked(let payload):
            job.maskedPayload = payload
            return false
        }
    }

    /// - Parameters:
    ///   - app: `nil` for a job that returns to the list, whatever its app.
    ///   - isRetry: whether it goes before the other jobs of its app.
    private func giveBack(
        _ claim: ClaimedJob, app: Int?, list: Int, isRetry: Bool = false, _ jobs: inout JobFlow,
        _ effects: inout [DispatchEffect]
    ) -> Bool {
        let aside = if let app { jobs.aside(of: app, list: list) } else { String?.none }
        let toTail = aside != nil && !claim.wasClaimed && !isRetry
        jobs.settler.giveBack(claim, list: list, aside: aside, toTail: toTail, &effects)
        return false
    }
}
