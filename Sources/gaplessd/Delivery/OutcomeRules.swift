import DequeModule
import PushPool

/// Settles, resends or holds a job by the outcome of its attempt, and tells the circuit breaker of its app.
struct OutcomeRules {
    var policy: RetryPolicy

    /// - Parameters:
    ///   - isCurrent: whether the session presents the credential that is in use now.
    ///   - times: for results and metrics; `nil` without them.
    func delivered(
        _ id: JobID, apnsID: String?, isCurrent: Bool, times: AttemptTimes? = nil, _ jobs: inout JobFlow,
        _ effects: inout [DispatchEffect]
    ) {
        guard let job = jobs.remove(id) else { return }
        jobs.apps[job.app].responses.countAcceptance()
        if let times { answered(job, times, &jobs) }
        if !jobs.apps[job.app].isAtRest { accepted(job, isCurrent: isCurrent, &jobs, &effects) }
        if isCurrent, jobs.apps[job.app].notesAcceptance(now: jobs.now) {
            jobs.apps[job.app].accepted(job, topic: jobs.plan.apps[job.app].topic, now: jobs.now)
        }
        jobs.settler.delivered(job, apnsID: apnsID, &effects)
    }

    /// APNs has responded to the last attempt.
    private func answered(_ job: HeldJob, _ times: AttemptTimes, _ jobs: inout JobFlow) {
        job.times = times
        jobs.apps[job.app].responses.record(claimed: job.claimed, times)
    }

    /// A job was accepted while its app's breaker was not at rest. An acceptance on a session with a replaced credential proves
    /// nothing about the present one: it ends no hold, except that of a failing APNs, and settles no suspect. It also ends the
    /// caution after a reload, so that a reload under load does not stop the claims.
    private func accepted(_ job: HeldJob, isCurrent: Bool, _ jobs: inout JobFlow, _ effects: inout [DispatchEffect]) {
        if isCurrent { jobs.apps[job.app].isProven = true }
        let wasHeld = jobs.apps[job.app].breaker.isHeld
        if !isCurrent && (wasHeld || jobs.apps[job.app].suspects > 0) {
            return jobs.perform(jobs.apps[job.app].breaker.failuresEnded(), app: job.app, &effects)
        }
        let changes = jobs.apps[job.app].breaker.accepted()
        if wasHeld && changes.contains(.resume) { jobs.apps[job.app].culprits.holdEnded(by: job.fingerprint) }
        jobs.perform(changes, app: job.app, &effects)
    }

    /// An attempt ended without an acceptance.
    ///
    /// - Parameters:
    ///   - isCurrent: whether the session presents the credential that is in use now.
    ///   - random: from 0 to 1, for jitter.
    func failed(
        _ id: JobID, _ outcome: Outcome, on session: SessionID, isCurrent: Bool, random: Double, times: AttemptTimes? = nil,
        _ jobs: inout JobFlow, _ effects: inout [DispatchEffect]
    ) {
        guard let job = jobs[id] else { return }
        // Another worker holds the job now, and sends, counts and logs it.
        if job.isDisowned { return jobs.forget(id, isInDoubt: outcome.isInDoubt, &effects) }
        let app = job.app
        let isResponse = jobs.apps[app].responses.count(outcome)
        if let times { if isResponse { answered(job, times, &jobs) } else { job.times = times } }
        if RetryPolicy.isFailure(outcome) {
            jobs.apps[app].breaker.failed(now: jobs.now)
        } else if isResponse {
            jobs.perform(jobs.apps[app].breaker.failuresEnded(), app: app, &effects)
        }
        if isCurrent, let throttle = RetryPolicy.throttle(outcome) {
            throttled(throttle.hold, pause: throttle.pause, app: app, &jobs, &effects)
        }
        let standing = RetryPolicy.Standing(
            attempts: job.job.attempts, resends: job.resends, doubtful: job.doubtful,
            isTopicFromSettings: job.job.usesTopicOfApp, namesChannel: job.job.namesChannel)
        let decision = policy.decide(outcome, standing, random: random)
        perform(decision, id, outcome, on: session, isCurrent: isCurrent, &jobs, &effects)
    }

    private func perform(
        _ decision: RetryPolicy.Decision, _ id: JobID, _ outcome: Outcome, on session: SessionID, isCurrent: Bool,
        _ jobs: inout JobFlow, _ effects: inout [DispatchEffect]
    ) {
        guard let job = jobs[id] else { return }
        let app = job.app
        switch decision {
        case .resend(let mayDuplicate):
            if mayDuplicate { jobs.doubt(job, &effects) }
            jobs.resend(id, avoiding: session, &effects)
        case .postpone(let pause):
            // At shutdown it goes back at once: the next process has other sessions.
            if jobs.isLeaving { return jobs.release(id, &effects) }
            if let job = jobs.remove(id) { jobs.settler.postpone(job, by: pause, &effects) }
        case .expire:
            probeEnded(app: app, provesCredential: false, &jobs, &effects)
            if let job = jobs.remove(id) { jobs.settler.expire(job, wasSent: false, &effects) }
        case .retryLater where jobs.apps[app].breaker.holdReason == .failing: returned(id, outcome, &jobs, &effects)
        case .retryLater(let delay, let pausesToken):
            // If the device token alone has too many requests, APNs has accepted the credential.
            probeEnded(app: app, provesCredential: isCurrent && pausesToken, &jobs, &effects)
            let key = TokenMemory.Key(app: app, token: job.token)
            jobs.memory.failed(key, on: session, delay: delay, pauses: pausesToken, now: jobs.now)
            if let job = jobs.remove(id) { jobs.settler.retry(job, outcome, after: delay, &effects) }
        case .deadLetter where jobs.apps[app].breaker.isFailing && hasUsedResends(outcome):
            returned(id, outcome, &jobs, &effects)
        case .deadLetter(let verdict):
            let isAboutJob = RetryPolicy.isResponseAboutJob(outcome)
            probeEnded(app: app, provesCredential: isCurrent && isAboutJob, &jobs, &effects)
            jobs.deadLetter(id, outcome, verdict, &effects)
        case .suspect: suspected(id, outcome, on: session, isCurrent: isCurrent, &jobs, &effects)
        case .hold(let reason):
            if !isCurrent && reason.isOfSessions { effects.append(.retire(session, app: app)) }
            faulted(id, outcome, reason, isCurrent: isCurrent, &jobs, &effects)
        case .renewToken where isCurrent && !jobs.isLeaving:
            effects.append(.renewToken(for: id, refusedOn: session, app: app))
        case .renewToken:
            if !isCurrent { effects.append(.retire(session, app: app)) }
            jobs.resend(id, avoiding: session, &effects)
        }
    }

    /// Whether this outcome ends a job only because the job has no resends left.
    private func hasUsedResends(_ outcome: Outcome) -> Bool {
        if case .maybeProcessed = outcome { true } else { RetryPolicy.isFailure(outcome) }
    }

    /// APNs is failing, and no job is at fault: the job returns to its list with the counts that it had. A probe goes to the
    /// tail, because it may fail by itself, and so does a job before the hold, so that others are tried before it.
    private func returned(_ id: JobID, _ outcome: Outcome, _ jobs: inout JobFlow, _ effects: inout [DispatchEffect]) {
        guard let job = jobs[id] else { return }
        let isLast = jobs.apps[job.app].breaker.isProbing || !jobs.apps[job.app].breaker.isHeld
        if outcome.isInDoubt { effects.append(.countMaybeDuplicate(list: job.list)) }
        jobs.release(id, toTail: isLast, keepsDeadline: true, &effects)
        probeEnded(app: job.app, provesCredential: false, &jobs, &effects)
    }

    /// The job may have been a probe, and has another outcome than an acceptance or a hold.
    private func probeEnded(
        app: Int, provesCredential: Bool, _ jobs: inout JobFlow, _ effects: inout [DispatchEffect]
    ) {
        let changes =
            provesCredential ? jobs.apps[app].breaker.answered() : jobs.apps[app].breaker.probeWasInconclusive(now: jobs.now)
        jobs.perform(changes, app: app, &effects)
    }

    /// The response holds the app, unless the job alone is the cause.
    private func faulted(
        _ id: JobID, _ outcome: Outcome, _ reason: HoldReason, isCurrent: Bool, _ jobs: inout JobFlow,
        _ effects: inout [DispatchEffect]
    ) {
        guard let job = jobs[id] else { return }
        let app = job.app
        if isCurrent, reason == .tokenUpdates { effects.append(.keepToken(app: app)) }
        if case .maybeProcessed = outcome { jobs.doubt(job, &effects) }
        if isCurrent, RetryPolicy.isResponseAboutJob(outcome), reason.mayBeOfOneJob,
            jobs.apps[app].culprits.rejected(job.fingerprint)
        {
            probeEnded(app: app, provesCredential: false, &jobs, &effects)
            return jobs.deadLetter(id, outcome, nil, &effects)
        }
        // If APNs rejects this job alone, the next probe is another one.
        jobs.release(id, toTail: jobs.apps[app].breaker.isProbing || jobs.apps[app].breaker.isClosed, &effects)
        if isCurrent { jobs.perform(jobs.apps[app].breaker.faulted(reason, now: jobs.now), app: app, &effects) }
    }

    func renewedToken(
        _ renewal: SessionPool.TokenRenewal, for id: JobID, refusedOn session: SessionID, _ jobs: inout JobFlow,
        _ effects: inout [DispatchEffect]
    ) {
        guard let job = jobs[id] else { return }
        switch renewal {
        case .renewed, .alreadyRenewed: jobs.resend(id, avoiding: session, &effects)
        case .tooYoung, .noSigningKey:
            jobs.release(id, &effects)
            let changes = jobs.apps[job.app].breaker.faulted(.credential("ExpiredProviderToken"), now: jobs.now)
            jobs.perform(changes, app: job.app, &effects)
        }
    }

    /// The job waits for an acceptance of its app. The response of a session with a replaced credential is no reason for a dead
    /// letter while a current session can be asked.
    private func suspected(
        _ id: JobID, _ outcome: Outcome, on session: SessionID, isCurrent: Bool, _ jobs: inout JobFlow,
        _ effects: inout [DispatchEffect]
    ) {
        guard let job = jobs[id], case .rejected(let rejection) = outcome else { return }
        let app = job.app
        if !isCurrent && jobs.apps[app].breaker.isClosed && job.resends < RetryPolicy.uncountedResends {
            return jobs.resend(id, avoiding: session, &effects)
        }
        let isProbe = jobs.apps[app].breaker.isHeld
        let wasClosed = jobs.apps[app].breaker.isClosed
        let changes =
            isCurrent ? jobs.apps[app].breaker.suspected(now: jobs.now, isKnown: jobs.apps[app].isKnown(now: jobs.now)) : []
        if isProbe || jobs.isLeaving || job.isAlone {
            // While a job is alone, nothing else is claimed, and no acceptance can follow.
            jobs.release(id, toTail: isProbe || job.isAlone, &effects)
        } else {
            job.suspectResponse = HeldJob.SuspectResponse(rejection: rejection, isStale: !isCurrent)
            jobs.apps[app].becameSuspect(id, now: jobs.now)
            if jobs.apps[app].suspects == 1 && !wasClosed {
                effects.append(.log(.firstSuspect(app: jobs.plan.apps[app].label, outcome)))
            }
        }
        jobs.perform(changes, app: app, &effects)
    }

    /// A 429 that concerns neither a device nor the provider token: every app with this credential and host waits
    /// (docs/answers.md).
    private func throttled(
        _ reason: HoldReason, pause: Duration?, app: Int, _ jobs: inout JobFlow, _ effects: inout [DispatchEffect]
    ) {
        for other in jobs.plan.apps[app].sharers {
            let changes = jobs.apps[other].breaker.throttled(reason, for: pause, now: jobs.now, isOwnResponse: other == app)
            jobs.perform(changes, app: other, &effects)
        }
    }
}
