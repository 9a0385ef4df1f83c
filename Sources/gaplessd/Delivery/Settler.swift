import Platform
import PushPool
import RedisQueue

/// Ends jobs: makes the settlement, its records and its log line, and counts it. The caller decides which end a job has.
struct JobSettler {
    /// The settings for records and log lines.
    struct Options: Equatable {
        /// The share of delivered pushes that is logged, from 0 to 1.
        var loggedSuccesses = 0.0
        /// Whether log lines cut device tokens and omit `data`.
        var redacts = false
        /// The names of the apps, for lines that name the push; `nil` unless `log_format` is `json`.
        var taggedApps: [String]?
        /// The names and topics of the apps, for the results stream; `nil` without one.
        var apps: [App]?

        struct App: Equatable {
            /// Empty for the top level.
            var name: String
            /// For jobs that name none.
            var topic: String?
        }
    }

    var options: Options
    /// The time of this turn, for records.
    var now: Instant
    var wallClock: WallClock
    /// The name of this worker at each list.
    private var workers: [String]
    private(set) var counters = Counters()
    private var sampler = SuccessSampler()

    init(_ options: Options, workers: [String], now: Instant, wallClock: WallClock) {
        self.options = options
        self.workers = workers
        (self.now, self.wallClock) = (now, wallClock)
    }

    mutating func renamed(to worker: String, list: Int) { workers[list] = worker }

    mutating func countClaims(_ count: Int) { counters.claimed += count }
    mutating func countResend() { counters.resent += 1 }

    // MARK: Held jobs

    mutating func delivered(_ job: HeldJob, apnsID: String?, _ effects: inout [DispatchEffect]) {
        counters.sent += 1
        if options.loggedSuccesses > 0, sampler.takesNext(share: options.loggedSuccesses) {
            let push = tags(job, apnsID: apnsID)
            effects.append(push.map { .log(.sent(logged(job), $0)) } ?? .logSent(logged(job)))
        }
        if options.apps == nil && job.resends == 0 {
            return effects.append(.acknowledge(job.claim, list: job.list))
        }
        settle(job, .ack, result: result(job, JobEnd(status: 200, reason: "", apnsID: apnsID), wasSent: true), &effects)
    }

    /// Returns the job to its list, with its possible duplicates recorded.
    ///
    /// - Parameters:
    ///   - aside: the app in whose side list it waits.
    ///   - keepsDeadline: whether the job was sent, so that a relative expiry does not start again.
    ///   - asClaimed: at shutdown the list gets the original bytes back.
    mutating func release(
        _ job: HeldJob, aside: String? = nil, toTail: Bool, keepsDeadline: Bool = false, asClaimed: Bool,
        _ effects: inout [DispatchEffect]
    ) {
        counters.released += 1
        let isMarked = job.maybeDuplicates > 0 || keepsDeadline && job.deadlineToKeep != nil
        if asClaimed || !isMarked { return settle(job, .release(toTail: toTail), aside: aside, &effects) }
        let marked = job.job.markedAsDoubtful(job.doubtful, deadline: job.deadlineToKeep)
        settle(job, .replace(with: marked, toTail: toTail), aside: aside, &effects)
    }

    /// Delays the job without counting a retry. It has been sent: it keeps the deadline of its first send.
    mutating func postpone(_ job: HeldJob, by pause: Duration, _ effects: inout [DispatchEffect]) {
        counters.postponed += 1
        let marked = job.job.markedAsDoubtful(job.doubtful, deadline: job.deadlineToKeep)
        settle(job, .delay(job: marked, .after(pause), isRetry: false), &effects)
    }

    /// Delays the job and raises its retry marker, or expires it if its deadline comes first.
    mutating func retry(_ job: HeldJob, _ outcome: Outcome, after delay: Duration, _ effects: inout [DispatchEffect]) {
        let due = wallClock.seconds + delay / .seconds(1)
        if job.expiration > 0 && due > Double(job.expiration) { return expire(job, wasSent: true, &effects) }
        counters.retried += 1
        let attempts = job.job.attempts + 1
        if outcome.isInDoubt { effects.append(.countMaybeDuplicate(list: job.list)) }
        effects.append(
            .log(
                .retrying(
                    identifier: job.identifier, reason: outcome.logText, count: attempts,
                    push: tags(job, apnsID: JobEnd(outcome).apnsID))))
        // This send counts as an attempt: only those before it are uncounted.
        let marked = job.job.markedForRetry(
            attempts: attempts, deadline: job.deadlineToKeep, doubtful: job.doubtful, apnsID: JobEnd(outcome).apnsID)
        settle(job, .delay(job: marked, .after(delay), isRetry: true), &effects)
    }

    /// - Parameters:
    ///   - verdict: for the feedback list; `nil` if the token is not the cause.
    ///   - topic: with which the job was sent.
    mutating func deadLetter(
        _ job: HeldJob, _ outcome: Outcome, _ verdict: TokenVerdict?, topic: String?, _ effects: inout [DispatchEffect]
    ) {
        counters.dead += 1
        let end = JobEnd(outcome)
        let feedback = verdict.map { job.feedback(end, topic: topic, verdict: $0) }
        deadLetter(job, end, outcome.logText, feedback: feedback, wasSent: true, &effects)
    }

    mutating func expire(_ job: HeldJob, wasSent: Bool, _ effects: inout [DispatchEffect]) {
        counters.expired += 1
        deadLetter(job, JobEnd(reason: "Expired"), "Expired", isExpired: true, wasSent: wasSent, &effects)
    }

    /// The dead letter holds the job with the filtered word in it, so that the operator sees which word it was.
    mutating func filter(_ job: HeldJob, _ effects: inout [DispatchEffect]) {
        counters.dead += 1
        deadLetter(job, JobEnd(reason: "Filtered"), "Filtered", wasSent: false, &effects)
    }

    private func deadLetter(
        _ job: HeldJob, _ end: JobEnd, _ reason: String, feedback: [UInt8]? = nil, isExpired: Bool = false, wasSent: Bool,
        _ effects: inout [DispatchEffect]
    ) {
        effects.append(
            .log(
                .final(
                    identifier: job.identifier, reason: reason, job: Job.onOneLine(logged(job)),
                    push: tags(job, apnsID: end.apnsID))))
        let letter = job.deadLetter(end, at: wallClock, worker: workers[job.list], wasSent: wasSent)
        settle(
            job, letter.effect(of: job.claim, isExpired: isExpired), feedback: feedback,
            result: result(job, end, wasSent: wasSent), &effects)
    }

    private func result(_ job: HeldJob, _ end: JobEnd, wasSent: Bool) -> [[UInt8]]? {
        guard let app = options.apps?[job.app] else { return nil }
        var entry = job.result(end, at: wallClock, wasSent: wasSent)
        (entry.app, entry.topic, entry.worker) = (app.name, job.job.topic(ofApp: app.topic), workers[job.list])
        (entry.claimedAt, entry.sentAt) = (milliseconds(job.claimed), milliseconds(job.times?.sent))
        // The times of an attempt that broke are not those of a response.
        entry.respondedAt = end.status == nil ? nil : milliseconds(job.times?.ended)
        return entry.fields()
    }

    /// Unix milliseconds of an instant of this process.
    private func milliseconds(_ instant: Instant?) -> Int64? {
        instant.flatMap { Int64(exactly: ((wallClock.seconds - (now - $0) / .seconds(1)) * 1000).rounded()) }
    }

    private func tags(_ job: HeldJob, apnsID: String?) -> LoggedPush? {
        options.taggedApps.map { names in
            LoggedPush(app: names[job.app], apnsID: apnsID ?? job.job.apnsID, attempt: job.sends, trace: job.job.trace)
        }
    }

    private func logged(_ job: HeldJob) -> [UInt8] { Redaction(isOn: options.redacts).job(job.job.bytes) }

    private func settle(
        _ job: HeldJob, _ effect: Settlement.Effect, aside: String? = nil, feedback: [UInt8]? = nil,
        result: [[UInt8]]? = nil, _ effects: inout [DispatchEffect]
    ) {
        let settlement = Settlement(
            id: job.claim, effect: effect, aside: aside, feedback: feedback, result: result, resends: job.resends)
        effects.append(.settle(settlement, list: job.list))
    }

    // MARK: Claims that never became held jobs

    mutating func giveBack(
        _ claim: ClaimedJob, list: Int, aside: String? = nil, toTail: Bool, _ effects: inout [DispatchEffect]
    ) {
        counters.released += 1
        effects.append(.settle(Settlement(id: claim.id, effect: .release(toTail: toTail), aside: aside), list: list))
    }

    mutating func split(
        _ claim: ClaimedJob, list: Int, aside: String? = nil, into parts: JobParts, _ effects: inout [DispatchEffect]
    ) {
        counters.released += 1
        effects.append(.settle(Settlement(id: claim.id, effect: .split(into: parts), aside: aside), list: list))
    }

    mutating func postpone(_ claim: ClaimedJob, list: Int, _ due: Settlement.Due, _ effects: inout [DispatchEffect]) {
        counters.postponed += 1
        let effect = Settlement.Effect.delay(job: claim.bytes, due, isRetry: false)
        effects.append(.settle(Settlement(id: claim.id, effect: effect), list: list))
    }

    mutating func rejectBadJob(_ claim: ClaimedJob, list: Int, _ error: JobError, _ effects: inout [DispatchEffect]) {
        effects.append(.log(.badJob(claim.bytes, error, redacts: options.redacts)))
        deadLetter(claim, list: list, reason: error.reason, JobReader.identity(of: claim.bytes), &effects)
    }

    /// Only the beginning of the job is here.
    mutating func rejectLargeJob(_ claim: ClaimedJob, size: Int, list: Int, _ effects: inout [DispatchEffect]) {
        let error = JobError.structure("a job of \(size) bytes, more than \(ClaimedJob.mostBytes)")
        effects.append(.log(.badJob(claim.bytes, error, redacts: options.redacts)))
        deadLetter(claim, list: list, reason: "JobTooLarge", (nil, nil, nil), &effects)
    }

    mutating func rejectCrashSuspect(_ claim: ClaimedJob, list: Int, _ effects: inout [DispatchEffect]) {
        let identity = JobReader.identity(of: claim.bytes)
        effects.append(.log(.crashSuspect(identifier: identity.identifier)))
        deadLetter(claim, list: list, reason: "crash_suspect", identity, most: DeadLetter.mostSuspectBytes, &effects)
    }

    /// Dead-letters the bytes exactly as claimed.
    private mutating func deadLetter(
        _ claim: ClaimedJob, list: Int, reason: String, _ identity: (identifier: [UInt8]?, token: String?, trace: String?),
        most: Int = DeadLetter.mostJobBytes, _ effects: inout [DispatchEffect]
    ) {
        counters.dead += 1
        let time = wallClock.unixSeconds
        let letter = DeadLetter(
            reason: reason, status: nil, apnsID: nil, identifier: identity.identifier, token: identity.token,
            trace: identity.trace,
            attempts: 0, at: time, worker: workers[list], job: claim.bytes, fullSize: claim.fullSize)
        let entry = ResultEntry(
            identifier: identity.identifier, token: identity.token, status: nil, reason: reason, apnsID: nil, attempts: 0,
            at: time, trace: identity.trace, worker: workers[list], claimedAt: milliseconds(now))
        let settlement = Settlement(
            id: claim.id, effect: letter.effect(of: claim.id, isExpired: false, most: most),
            result: options.apps == nil ? nil : entry.fields())
        effects.append(.settle(settlement, list: list))
    }
}

/// Selects an even share of the delivered pushes for the log: with a share of 0.01, every hundredth.
struct SuccessSampler {
    private static let whole: UInt64 = 1_000_000_000

    /// The billionth parts of a line that have accumulated. Below `whole`.
    private var sum: UInt64 = 0

    /// Returns whether the next push is logged.
    ///
    /// - Parameter share: from 0 to 1.
    mutating func takesNext(share: Double) -> Bool {
        sum += UInt64((min(1, max(0, share)) * Double(Self.whole)).rounded())
        if sum < Self.whole { return false }
        sum -= Self.whole
        return true
    }
}

/// The end of a job, as its records show it.
struct JobEnd: Equatable {
    /// APNs' HTTP status; `nil` without a response.
    var status: Int?
    var reason: String
    var apnsID: String?
    /// With 410: milliseconds since 1970.
    var timestamp: Int64?

    init(status: Int? = nil, reason: String, apnsID: String? = nil, timestamp: Int64? = nil) {
        self.status = status
        self.reason = reason
        self.apnsID = apnsID
        self.timestamp = timestamp
    }

    init(_ outcome: Outcome) {
        switch outcome {
        case .delivered(let apnsID): self.init(status: 200, reason: "", apnsID: apnsID)
        case .rejected(let rejection):
            self.init(
                status: rejection.status, reason: rejection.reason, apnsID: rejection.apnsID,
                timestamp: rejection.timestamp)
        case .timedOut: self.init(reason: "Timeout")
        case .notProcessed(let fault), .maybeProcessed(let fault): self.init(reason: fault.logText)
        case .outdated, .begun: self.init(reason: outcome.logText)
        }
    }
}
