import PushPool

/// Decides what a failed attempt means for its job. `RetryTable` has the meaning of APNs' responses.
struct RetryPolicy: Sendable, Equatable {
    /// Resends after the first send.
    var limit: Int
    /// Before the first, second, third … resend; the last one repeats.
    var delays: [Duration]
    /// Each delay is spread by this fraction both ways, so that failures at one moment are not retried at one moment.
    static let jitter = 0.2
    /// A Retry-After of the server takes precedence over `delays`, up to this.
    static let longestRetryAfter = Duration.seconds(900)
    /// How often a request that may have been processed is resent without being counted.
    static let uncountedResends = Job.maxDoubtfulResends
    /// How often in a row a request that was certainly not processed is resent at once, and the pause that follows.
    static let resendsAtOnce = 10
    static let pauseBetweenRefusals = Duration.seconds(1)

    /// The state of the job, as far as the decision depends on it.
    struct Standing: Equatable {
        /// Counted resends so far (`_gapless_RETRYING`).
        var attempts: Int
        /// Uncounted resends since its claim.
        var resends: Int
        /// Uncounted resends so far that may have caused a duplicate.
        var doubtful = 0
        /// Whether the topic came from the settings or the certificate: then a refused topic is not the job's fault.
        var isTopicFromSettings: Bool
        /// Whether the job names a channel.
        var namesChannel = false
    }

    enum Decision: Equatable {
        /// Send again at once on another session, uncounted.
        case resend(mayDuplicate: Bool)
        /// Send again after this time, uncounted: many sessions have refused it in a row.
        case postpone(Duration)
        /// Send again after this time and raise the retry marker. `pausesToken`: newer jobs of the device token wait behind it.
        case retryLater(Duration, pausesToken: Bool = false)
        case deadLetter(Verdict?)
        /// Dead letter after an acceptance of the app: a wrong environment causes the same response.
        case suspect
        /// The credential is at fault: the job goes back to the list, and the app is held.
        case hold(HoldReason)
        /// Its deadline had passed before it could be sent.
        case expire
        /// The provider token is too old: mint another one, reconnect and send again, uncounted.
        case renewToken
    }

    /// The verdict on the token for the feedback list.
    typealias Verdict = FeedbackRecord.Verdict

    /// Returns why APNs throttles the whole credential, and for how long if it specifies that; `nil` if it does not.
    static func throttle(_ outcome: Outcome) -> (hold: HoldReason, pause: Duration?)? {
        guard case .rejected(let rejection) = outcome else { return nil }
        guard RetryTable.meaning(of: rejection.status, rejection.reason) == .tooManyToAll else { return nil }
        return (.throttled(outcome.logText), rejection.retryAfter.map { min($0, longestRetryAfter) })
    }

    /// - Parameters:
    ///   - outcome: of an attempt that ended without an acceptance.
    ///   - random: from 0 to 1, for jitter.
    func decide(_ outcome: Outcome, _ job: Standing, random: Double) -> Decision {
        switch outcome {
        case .notProcessed(let error):
            if let reason = HoldReason(error) { return .hold(reason) }
            return (job.resends + 1) % Self.resendsAtOnce == 0
                ? .postpone(Self.pauseBetweenRefusals) : .resend(mayDuplicate: false)
        case .maybeProcessed(let error):
            if let reason = HoldReason(error) { return .hold(reason) }
            return job.doubtful < Self.uncountedResends
                ? .resend(mayDuplicate: true) : countedRetry(job, after: nil, random: random)
        case .timedOut: return countedRetry(job, after: nil, random: random)
        case .outdated: return .expire
        case .rejected(let rejection): return decide(rejection, job, random: random)
        case .delivered, .begun: preconditionFailure("\(outcome) is not a failed attempt")
        }
    }

    private func decide(_ rejection: Rejection, _ job: Standing, random: Double) -> Decision {
        switch RetryTable.meaning(of: rejection.status, rejection.reason) {
        case .final: .deadLetter(nil)
        case .deadToken: .deadLetter(.dead)
        case .suspectToken: .suspect
        case .topic: job.isTopicFromSettings ? .hold(.topic(rejection.reason)) : .deadLetter(nil)
        case .topicOrChannel:
            job.isTopicFromSettings && !job.namesChannel ? .hold(.topic(rejection.reason)) : .deadLetter(nil)
        case .farewell: resendOnce(job, rejection, random: random)
        case .expiredProviderToken: .renewToken
        case .credential: .hold(.credential(rejection.reason.isEmpty ? "\(rejection.status) without a reason" : rejection.reason))
        case .tokenUpdates: .hold(.tokenUpdates)
        case .passing, .tooManyToAll: countedRetry(job, after: rejection.retryAfter, random: random)
        case .tooManyToOne: countedRetry(job, after: rejection.retryAfter, pausesToken: true, random: random)
        }
    }

    /// A response that announces the end of its session: like GOAWAY the first time, then a counted retry.
    private func resendOnce(_ job: Standing, _ rejection: Rejection, random: Double) -> Decision {
        job.resends == 0 && job.attempts == 0
            ? .resend(mayDuplicate: false) : countedRetry(job, after: rejection.retryAfter, random: random)
    }

    private func countedRetry(
        _ job: Standing, after asked: Duration?, pausesToken: Bool = false, random: Double
    ) -> Decision {
        guard job.attempts < limit else { return .deadLetter(nil) }
        // 0, or a date in the past, would use up all resends in a moment.
        if let asked, asked > .zero { return .retryLater(min(asked, Self.longestRetryAfter), pausesToken: pausesToken) }
        let delay = delays[min(job.attempts, delays.count - 1)]
        return .retryLater(delay * (1 + Self.jitter * (2 * random - 1)), pausesToken: pausesToken)
    }
}
