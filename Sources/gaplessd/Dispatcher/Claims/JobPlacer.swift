import RedisQueue
import SystemTime

/// Decides where a claimed job goes: reads it, finds its app, and checks its dates, its token and its words.
///
/// The first row that fits applies:
///
///     claimed job                                   next
///     gaplessd stops, or the list is paused         released
///     too large, or not readable                    dead letter
///     several tokens                                split: its parts are claimed in turn
///     `not_before` to come, and not expired         delayed
///     no app, or no topic                           dead letter
///     the app cannot take it, and not expired       released; in a list of several apps, set aside
///     expired, or filtered                          dead letter
///     its token is paused, and it is no resend      delayed
///     otherwise                                     held, and outgoing
struct JobPlacer {
    var plan: DispatchPlan

    /// Sends or settles a claimed job. Returns false if it was given back.
    mutating func place(
        _ claim: ClaimedJob, list: Int, _ state: inout ListState, _ jobs: inout JobFlow, _ effects: inout [DispatchEffect]
    ) -> Bool {
        guard !jobs.isLeaving, !state.isPaused else {
            return giveBack(claim, app: appOfOlder(claim), list: list, &jobs, &effects)
        }
        if let size = claim.fullSize {
            jobs.settler.rejectLargeJob(claim, size: size, list: list, &effects)
            return true
        }
        do {
            return try place(try plan.reader.read(claim.bytes), of: claim, list: list, &state, &jobs, &effects)
        } catch {
            jobs.settler.rejectBadJob(claim, list: list, error, &effects)
            return true
        }
    }

    private mutating func place(
        _ job: consuming Job, of claim: ClaimedJob, list: Int, _ state: inout ListState, _ jobs: inout JobFlow,
        _ effects: inout [DispatchEffect]
    ) throws(JobError) -> Bool {
        if case .tokens = job.target { return try split(job, of: claim, list: list, &state, &jobs, &effects) }
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
        let expiration = job.expiration(now: jobs.wallClock.unixSeconds)
        let held = HeldJob(
            job, list: list, claim: claim.id, isAlone: claim.isAlone, app: app, expiration: expiration, claimed: jobs.now)
        if isExpired {
            jobs.settler.expire(held, wasSent: false, &effects)
        } else if isStoppedByFilter(held) {
            jobs.settler.filter(held, &effects)
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

    /// Replaces a job with several tokens by its parts. If the claim has too many bytes of parts, the job returns to the list and
    /// is split after the parts before it are gone.
    private func split(
        _ job: borrowing Job, of claim: ClaimedJob, list: Int, _ state: inout ListState, _ jobs: inout JobFlow,
        _ effects: inout [DispatchEffect]
    ) throws(JobError) -> Bool {
        let app = try plan.routes.app(for: job)
        let isAside = jobs.isAside(app: app, list: list)
        guard state.splitsMore, claim.wasClaimed || !isAside, let parts = job.parts() else {
            return giveBack(claim, app: isAside ? app : nil, list: list, &jobs, &effects)
        }
        state.split(parts)
        // The parts of a job from a side list are claimed from there.
        jobs.settler.split(
            claim, list: list, aside: isAside ? jobs.aside(of: app, list: list) : nil, into: parts, &effects)
        return true
    }

    /// The app of a job that comes from a side list, where it belongs in front.
    private mutating func appOfOlder(_ claim: ClaimedJob) -> Int? {
        guard claim.wasClaimed, let job = try? plan.reader.read(claim.bytes) else { return nil }
        return try? plan.routes.app(for: job)
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
