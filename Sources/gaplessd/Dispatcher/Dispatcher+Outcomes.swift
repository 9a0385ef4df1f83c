import Clocks
import PushPool
import RedisQueue

/// From the pools back to Redis.
extension Dispatcher {
    /// An attempt ended.
    mutating func ended(_ delivery: Delivery) {
        if case .delivered(let apnsID) = delivery.outcome { return delivered(delivery.id, apnsID: apnsID) }
        // Lines keep the order in which answers came.
        logSent()
        guard let job = held[delivery.id] else { return }
        // Its owner pushes it again, counts it and says so.
        if job.isDisowned { return forget(delivery.id) }
        let app = apps[job.app]
        if let throttle = RetryPolicy.throttle(delivery.outcome), app.pool.usesPresentCredential(delivery.session) {
            throttled(throttle.hold, pause: throttle.pause, app: job.app)
        }
        let standing = RetryPolicy.Standing(
            attempts: job.job.attempts, resends: job.resends, doubtful: job.doubtful, topicIsOurs: job.job.topic == nil)
        switch plan.policy.decide(delivery.outcome, standing, random: .random(in: 0..<1)) {
        case .settleDelivered: delivered(delivery.id, apnsID: nil)
        case .resend(let mayDuplicate): resend(delivery, mayDuplicate: mayDuplicate)
        case .postpone(let pause): postpone(delivery.id, by: pause)
        case .keepDeadline(let expiration): job.expiration = expiration
        case .buryExpired:
            perform(app.gate.probeWasInconclusive(now: now), app: job.app)
            if let job = remove(delivery.id) { buryExpired(job, wasSent: false) }
        case .retryLater(let delay, let pausesToken):
            perform(app.gate.probeWasInconclusive(now: now), app: job.app)
            let key = TokenMemory.Key(app: job.app, token: job.token)
            memory.failed(key, on: delivery.session, delay: delay, pauses: pausesToken, now: now)
            retryLater(delivery.id, delivery.outcome, after: delay)
        case .bury(let verdict):
            perform(
                delivery.outcome.isAnswerAboutTheJob ? app.gate.answered() : app.gate.probeWasInconclusive(now: now), app: job.app
            )
            bury(delivery.id, delivery.outcome, verdict)
        case .burySuspect(let verdict): burySuspect(delivery, verdict)
        case .hold(let reason):
            if reason == .tokenUpdates { app.pool.keepToken() }
            if case .maybeProcessed = delivery.outcome { job.maybeDuplicates += 1 }
            // A probe goes to the tail: should this job alone be refused for ever, the others are not behind it.
            release(delivery.id, toTail: app.gate.isProbing)
            if app.pool.usesPresentCredential(delivery.session) {
                perform(app.gate.faulted(reason, now: now), app: job.app)
            }
        case .renewToken: renewToken(delivery)
        }
    }

    /// The log gets the `Sent:` lines of a turn together: a lock and a look at the clock for each would cost more than the lines.
    mutating func logSent() {
        if sent.isEmpty { return }
        log.sent(sent)
        sent.removeAll(keepingCapacity: true)
    }

    private mutating func delivered(_ number: UInt64, apnsID: String?) {
        guard let job = held.remove(number) else { return }
        let app = apps[job.app]
        app.noLongerHolds(job)
        counters.sent += 1
        if !app.gate.isOpen { perform(app.gate.accepted(), app: job.app) }
        if plan.logsSuccesses { sent.append(forSent(job)) }
        if !plan.keepsResults && job.resends == 0 && job.maybeDuplicates == 0 {
            return lists[job.list].queue.acknowledge(job.claim)
        }
        let result = plan.keepsResults ? job.result(JobEnd(status: 200, reason: "", apnsID: apnsID), at: wallClock) : nil
        settle(job, .ack, result: result)
    }

    /// Out again at once, on another session if there is one. Not while leaving, and not while the app is held.
    private mutating func resend(_ delivery: Delivery, mayDuplicate: Bool) {
        guard let job = held[delivery.id] else { return }
        job.maybeDuplicates += mayDuplicate ? 1 : 0
        job.avoiding = delivery.session
        let app = apps[job.app]
        guard phase == .running, app.gate.allowance(now: now) > 0 || app.gate.phase == .open else {
            return release(delivery.id)
        }
        if case .held = app.gate.phase {
            release(delivery.id)
            return perform(app.gate.probeWasInconclusive(now: now), app: job.app)
        }
        job.resends += 1
        counters.resent += 1
        app.outgoing.append(app.notification(delivery.id, job))
    }

    private mutating func retryLater(_ number: UInt64, _ outcome: Outcome, after delay: Duration) {
        guard let job = held[number] else { return }
        let due = wallClock.seconds + delay / .seconds(1)
        if job.expiration > 0 && due > Double(job.expiration) {
            if let job = remove(number) { buryExpired(job, wasSent: true) }
            return
        }
        guard let job = remove(number) else { return }
        // The mark is for what costs no retry: this send is in `attempts`.
        let doubtful = job.doubtful
        // What was not answered may have been accepted all the same.
        if outcome.isInDoubt { job.maybeDuplicates += 1 }
        counters.retried += 1
        log.retrying(identifier: job.identifier, outcome.logText, count: job.job.attempts + 1)
        let marked = job.job.markedForRetry(
            attempts: job.job.attempts + 1, deadline: job.deadlineToKeep, doubtful: doubtful)
        settle(job, .delay(job: marked, .after(delay), isRetry: true))
    }

    private mutating func bury(_ number: UInt64, _ outcome: Outcome, _ verdict: RetryPolicy.Verdict?) {
        guard let job = remove(number) else { return }
        counters.dead += 1
        log.final(identifier: job.identifier, outcome.logText, job: forLog(job))
        let end = JobEnd(outcome)
        let topic = job.job.topic ?? apps[job.app].topic
        let record = job.deadLetter(end, at: wallClock, worker: worker(of: job.list))
        settle(
            job, .deadLetter(record: record, isExpired: false),
            feedback: verdict.map { job.feedback(end, topic: topic, verdict: $0) },
            result: plan.keepsResults ? job.result(end, at: wallClock) : nil)
    }

    /// Before the app's first acceptance a suspect answer waits; after it the token is simply wrong. What a session from before a reload says
    /// buries nobody while a present one can be asked.
    private mutating func burySuspect(_ delivery: Delivery, _ verdict: RetryPolicy.Verdict?) {
        let (number, outcome) = (delivery.id, delivery.outcome)
        guard let job = held[number], case .rejected(let rejection) = outcome else { return }
        let app = apps[job.app]
        let isStale = !app.pool.usesPresentCredential(delivery.session)
        if isStale && app.gate.isOpen && job.resends < RetryPolicy.uncountedResends {
            return resend(delivery, mayDuplicate: false)
        }
        let isProbe = if case .held = app.gate.phase { true } else { false }
        let (mayBury, effects) = app.gate.suspected(now: now)
        if mayBury {
            bury(number, outcome, verdict)
        } else if isProbe || phase != .running {
            // On the way out there is no time to wait for a first acceptance.
            release(number, toTail: isProbe)
        } else {
            job.suspectAnswer = SuspectAnswer(rejection: rejection, verdict: verdict, isStale: isStale)
            app.heldSuspects += 1
            guard app.heldSuspects == 1 else { return perform(effects, app: job.app) }
            log.warning(
                "\(app.label)APNs has refused a job (\(outcome.logText)) and accepted none yet: it waits for the first acceptance, "
                    + "for a wrong environment or topic would look the same.")
        }
        perform(effects, app: job.app)
    }

    private mutating func renewToken(_ delivery: Delivery) {
        guard let job = held[delivery.id] else { return }
        let app = apps[job.app]
        guard app.pool.usesPresentCredential(delivery.session) else { return resend(delivery, mayDuplicate: false) }
        switch app.pool.renewToken(refusedOn: delivery.session) {
        case .renewed, .alreadyRenewed: resend(delivery, mayDuplicate: false)
        case .tooYoung, .noSigningKey:
            release(delivery.id)
            perform(app.gate.faulted(.credential("ExpiredProviderToken"), now: now), app: job.app)
        }
    }

    mutating func perform(_ effects: [CircuitBreaker.Effect], app index: Int) {
        let app = apps[index]
        for effect in effects {
            switch effect {
            case .hold(let reason):
                log.error("\(app.label)\(reason.wholeSentence) Its jobs stay in the queue until APNs accepts one.")
                takeBack(app: index)
                giveBackSuspects(app: index)
            case .reconnect: app.pool.reconnect()
            case .resume:
                log.info("\(app.label)APNs answers as it should again: sending.")
                for list in lists { list.pausedUntil = nil }
                endThrottles(with: index)
            case .settleSuspects: settleSuspects(app: index)
            }
        }
    }

    /// What waited for a first acceptance that will not come like this.
    mutating func giveBackSuspects(app index: Int) {
        for number in held.numbers(where: { $0.app == index && $0.suspectAnswer != nil }) { release(number, toTail: true) }
    }

    private mutating func settleSuspects(app index: Int) {
        for number in held.numbers(where: { $0.app == index && $0.suspectAnswer != nil }) {
            guard let answer = held[number]?.suspectAnswer else { continue }
            if answer.isStale {
                release(number, toTail: true)
                continue
            }
            bury(number, .rejected(answer.rejection), answer.verdict)
        }
    }

    /// What an app has claimed and no session has taken goes back to the queue.
    mutating func takeBack(app index: Int) {
        let app = apps[index]
        for notification in app.outgoing { release(notification.id) }
        app.outgoing.removeAll()
        for number in app.pool.withdraw() { release(number) }
    }

    private mutating func remove(_ number: UInt64) -> HeldJob? {
        guard let job = held.remove(number) else { return nil }
        apps[job.app].noLongerHolds(job)
        return job
    }

    /// Back to its list: as it was, but that sends which APNs may have had stay known. Who stops the daemon finds every job as it came.
    mutating func release(_ number: UInt64, toTail: Bool = false) {
        guard let job = remove(number) else { return }
        counters.released += 1
        let isAsItWas = job.maybeDuplicates == 0 || phase != .running
        let toTail = toTail || apps.count > 1
        settle(
            job,
            isAsItWas
                ? .release(toTail: toTail)
                : .replace(with: job.job.markedAsDoubtful(job.doubtful, deadline: job.deadlineToKeep), toTail: toTail))
    }

    /// Waits in Redis, uncounted. On the way out it goes back at once: the next process has other sessions.
    private mutating func postpone(_ number: UInt64, by pause: Duration) {
        guard phase == .running else { return release(number) }
        guard let job = remove(number) else { return }
        counters.postponed += 1
        // It has been sent: the deadline of the first send stays.
        settle(
            job, .delay(job: job.job.markedAsDoubtful(job.doubtful, deadline: job.deadlineToKeep), .after(pause), isRetry: false))
    }

    mutating func buryExpired(_ job: HeldJob, wasSent: Bool) {
        counters.expired += 1
        log.final(identifier: job.identifier, "Expired", job: forLog(job))
        let end = JobEnd(reason: "Expired")
        let record = job.deadLetter(end, at: wallClock, worker: worker(of: job.list), wasSent: wasSent)
        settle(
            job, .deadLetter(record: record, isExpired: true),
            result: plan.keepsResults ? job.result(end, at: wallClock, wasSent: wasSent) : nil)
    }

    /// The bytes of the job stand in the dead letter as they came: who looks at it wants to see the word.
    mutating func buryFiltered(_ job: HeldJob) {
        counters.dead += 1
        log.final(identifier: job.identifier, "Filtered", job: forLog(job))
        let end = JobEnd(reason: "Filtered")
        let record = job.deadLetter(end, at: wallClock, worker: worker(of: job.list), wasSent: false)
        settle(
            job, .deadLetter(record: record, isExpired: false),
            result: plan.keepsResults ? job.result(end, at: wallClock, wasSent: false) : nil)
    }

    mutating func buryUnreadable(_ claim: ClaimedJob, list: Int, _ fault: JobError) {
        log.badJob(claim.bytes, fault, redacts: plan.redacts)
        buryUnsent(claim, list: list, reason: fault.reason)
    }

    mutating func buryCrashSuspect(_ claim: ClaimedJob, list: Int) {
        let identifier =
            JobReader.identity(of: claim.bytes).identifier.map { " (ID \(String(decoding: $0, as: UTF8.self)))" } ?? ""
        log.error(
            "A job\(identifier) was in flight at four crashes, the last time alone: it is now a dead letter (crash_suspect).")
        buryUnsent(claim, list: list, reason: "crash_suspect")
    }

    /// A dead letter as it came, byte for byte.
    private mutating func buryUnsent(_ claim: ClaimedJob, list: Int, reason: String) {
        counters.dead += 1
        let (identifier, token) = JobReader.identity(of: claim.bytes)
        let letter = DeadLetter(
            reason: reason, status: nil, apnsID: nil, identifier: identifier, token: token, attempts: 0,
            at: wallClock.unixSeconds, worker: worker(of: list), job: claim.bytes)
        let effect = Settlement.Effect.deadLetter(record: letter.record(), isExpired: false)
        let result =
            plan.keepsResults
            ? ResultEntry(
                identifier: identifier, token: token, status: nil, reason: reason, apnsID: nil, attempts: 0,
                at: wallClock.unixSeconds
            ).fields() : nil
        lists[list].queue.settle(Settlement(id: claim.id, effect: effect, result: result))
    }

    private func worker(of list: Int) -> String { lists[list].queue.worker }

    /// The job as a log line shows it.
    private func forLog(_ job: HeldJob) -> [UInt8] { Job.onOneLine(forSent(job)) }

    /// The same before its line breaks are taken out.
    private func forSent(_ job: HeldJob) -> [UInt8] {
        plan.redacts ? Job.redacted(job.job.bytes) : job.job.bytes
    }

    private mutating func settle(
        _ job: HeldJob, _ effect: Settlement.Effect, feedback: [UInt8]? = nil, result: [[UInt8]]? = nil
    ) {
        lists[job.list].queue.settle(
            Settlement(
                id: job.claim, effect: effect, feedback: feedback, result: result, resends: job.resends,
                maybeDuplicates: job.maybeDuplicates))
    }
}
