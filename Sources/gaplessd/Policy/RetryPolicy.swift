import PushPool

/// What an outcome means for its job. What an answer of APNs means stands in `RetryTable`.
///
/// A pure value: the dispatcher tells it what happened, and does what it says.
struct RetryPolicy: Sendable, Equatable {
    /// Resends after the first send.
    var limit: Int
    /// Before the first, second, third … resend; the last one repeats.
    var delays: [Duration]
    /// Each delay is spread by this fraction both ways, so that a storm of failures does not come back as one.
    static let jitter = 0.2
    /// A server's Retry-After wins over `delays` up to here.
    static let longestRetryAfter = Duration.seconds(900)
    /// How often a request that may have been processed goes out again without being counted.
    static let uncountedResends = Job.maxDoubtfulResends
    /// How often in a row one that certainly was not goes out again at once, and how long it then waits.
    static let resendsAtOnce = 10
    static let pauseBetweenRefusals = Duration.seconds(1)

    /// What the policy must know of the job beside the outcome.
    struct Standing: Equatable {
        /// Resends counted so far (`_gapless_RETRYING`).
        var attempts: Int
        /// Uncounted resends so far since its claim.
        var resends: Int
        /// Uncounted resends so far after which APNs may have it twice.
        var doubtful = 0
        /// Whether the topic came from the settings or the certificate: then a refused topic is not the job's fault.
        var topicIsOurs: Bool
    }

    enum Decision: Equatable {
        /// APNs has it.
        case settleDelivered
        /// Out again at once on another session, uncounted.
        case resend(mayDuplicate: Bool)
        /// Out again after this long, uncounted: so many sessions have refused it that at once again would only keep them busy.
        case postpone(Duration)
        /// Out again after `delay`, and the marker goes up by one. `pausesToken`: newer jobs of the same device token wait behind it.
        case retryLater(Duration, pausesToken: Bool = false)
        /// Dead letter.
        case bury(Verdict?)
        /// Dead letter, if the app has ever had an acceptance: before, a wrong environment looks the same.
        case burySuspect(Verdict?)
        /// The credential's fault, not the job's: back to the list, and the app is held.
        case hold(HoldReason)
        /// It is on its way, with this deadline.
        case keepDeadline(Int64)
        /// Its deadline had passed before it could be sent.
        case buryExpired
        /// The provider token is too old: mint, reconnect, and out again uncounted.
        case renewToken
    }

    /// Whether APNs wants nothing more of the whole credential for a while, why, and for how long if it says so.
    static func throttle(_ outcome: Outcome) -> (hold: HoldReason, pause: Duration?)? {
        guard case .rejected(let rejection) = outcome else { return nil }
        guard RetryTable.meaning(of: rejection.status, rejection.reason) == .tooManyToAll else { return nil }
        let words = rejection.reason.isEmpty ? "\(rejection.status)" : "\(rejection.status) \(rejection.reason)"
        return (.throttled(words), rejection.retryAfter.map { min($0, longestRetryAfter) })
    }

    /// What the feedback list says of the token.
    typealias Verdict = FeedbackRecord.Verdict

    func decide(_ outcome: Outcome, _ job: Standing, random: Double) -> Decision {
        switch outcome {
        case .delivered: return .settleDelivered
        case .notProcessed(let fault):
            if let reason = HoldReason(fault) { return .hold(reason) }
            return (job.resends + 1) % Self.resendsAtOnce == 0
                ? .postpone(Self.pauseBetweenRefusals) : .resend(mayDuplicate: false)
        case .maybeProcessed(let fault):
            if let reason = HoldReason(fault) { return .hold(reason) }
            return job.doubtful < Self.uncountedResends
                ? .resend(mayDuplicate: true) : countedRetry(job, after: nil, random: random)
        case .timedOut: return countedRetry(job, after: nil, random: random)
        case .outdated: return .buryExpired
        case .begun(let expiration): return .keepDeadline(expiration)
        case .rejected(let rejection): return decide(rejection, job, random: random)
        }
    }

    private func decide(_ rejection: Rejection, _ job: Standing, random: Double) -> Decision {
        switch RetryTable.meaning(of: rejection.status, rejection.reason) {
        case .final: .bury(nil)
        case .deadToken: .bury(.dead)
        case .suspectToken: .burySuspect(.suspect)
        case .topic: job.topicIsOurs ? .hold(.topic(rejection.reason)) : .burySuspect(nil)
        case .farewell: resendOnce(job, rejection, random: random)
        case .expiredProviderToken: .renewToken
        case .credential: .hold(.credential(rejection.reason.isEmpty ? "\(rejection.status) without a reason" : rejection.reason))
        case .tokenUpdates: .hold(.tokenUpdates)
        case .passing, .tooManyToAll: countedRetry(job, after: rejection.retryAfter, random: random)
        case .tooManyToOne: countedRetry(job, after: rejection.retryAfter, pausesToken: true, random: random)
        }
    }

    /// A session that says goodbye in an answer: like GOAWAY the first time, a counted retry from then on.
    private func resendOnce(_ job: Standing, _ rejection: Rejection, random: Double) -> Decision {
        job.resends == 0 && job.attempts == 0
            ? .resend(mayDuplicate: false) : countedRetry(job, after: rejection.retryAfter, random: random)
    }

    private func countedRetry(
        _ job: Standing, after asked: Duration?, pausesToken: Bool = false, random: Double
    ) -> Decision {
        guard job.attempts < limit else { return .bury(nil) }
        // 0, or a date that has passed, would spend all resends in a moment.
        if let asked, asked > .zero { return .retryLater(min(asked, Self.longestRetryAfter), pausesToken: pausesToken) }
        let delay = delays[min(job.attempts, delays.count - 1)]
        return .retryLater(delay * (1 + Self.jitter * (2 * random - 1)), pausesToken: pausesToken)
    }
}
