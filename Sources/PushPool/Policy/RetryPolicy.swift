/// Decides what a failed attempt means for its job. `RetryTable` has the meaning of APNs' responses.
package struct RetryPolicy: Sendable, Equatable {
    /// Resends after the first send.
    package var limit: Int
    /// The waits before the first, second, third … resend; the last one repeats.
    package var delays: [Duration]
    /// Decisions of the operator about rejections. The first rule that matches replaces the decision of `RetryTable`.
    package var rules: [ResponseRule]
    /// Each delay is spread by this fraction both ways, so that failures at one moment are not retried at one moment.
    package static let jitter = 0.2
    /// A Retry-After of the server takes precedence over `delays`, up to this.
    package static let longestRetryAfter = Duration.seconds(900)
    /// The most uncounted resends of a request that may have been processed.
    package static let uncountedResends = 10
    /// The most immediate resends in a row of a request that was certainly not processed, and the pause that follows.
    package static let resendsAtOnce = 10
    package static let pauseBetweenRefusals = Duration.seconds(1)

    package init(limit: Int, delays: [Duration], rules: [ResponseRule] = []) {
        self.limit = limit
        self.delays = delays
        self.rules = rules
    }

    /// The attempts of a job so far, as far as the decision depends on them. Their owner keeps it from claim to settlement.
    package struct Standing: Equatable, Sendable {
        /// Counted resends so far (`_gapless_RETRYING`).
        package var attempts: Int
        /// Uncounted resends since its claim.
        package var resends: Int
        /// Uncounted resends so far that may have caused a duplicate.
        package var doubtful: Int
        /// Whether the topic came from the settings or the certificate: then a refused topic is not the job's fault.
        package var isTopicFromSettings: Bool
        /// Whether the job names a channel.
        package var namesChannel: Bool

        package init(attempts: Int, resends: Int, doubtful: Int = 0, isTopicFromSettings: Bool, namesChannel: Bool = false) {
            self.attempts = attempts
            self.resends = resends
            self.doubtful = doubtful
            self.isTopicFromSettings = isTopicFromSettings
            self.namesChannel = namesChannel
        }

        /// The job goes out again. A counted resend raises its retry marker.
        package mutating func resent(isCounted: Bool, mayDuplicate: Bool) {
            attempts += isCounted ? 1 : 0
            resends += isCounted ? 0 : 1
            doubtful += mayDuplicate ? 1 : 0
        }
    }

    package enum Decision: Equatable {
        /// Send again at once on another session, uncounted.
        case resend(mayDuplicate: Bool)
        /// Send again after this time, uncounted: many sessions have refused it in a row.
        case postpone(Duration)
        /// Send again after this time and raise the retry marker. `pausesToken`: newer jobs of the device token wait behind it.
        case retryLater(Duration, pausesToken: Bool = false)
        case deadLetter(TokenVerdict?)
        /// Dead letter after an acceptance of the app: a wrong environment causes the same response.
        case suspect
        /// The credential is at fault: the job goes back to the list, and the app is held.
        case hold(HoldReason)
        /// Its deadline had passed before it could be sent.
        case expire
        /// The provider token is too old: sign another one, reconnect and send again, uncounted.
        case renewToken
    }

    /// Returns why APNs throttles the whole credential, and for how long if it specifies that; `nil` if it does not.
    package static func throttle(_ outcome: Outcome) -> (hold: HoldReason, pause: Duration?)? {
        guard case .rejected(let rejection) = outcome else { return nil }
        guard RetryTable.meaning(of: rejection.status, rejection.reason) == .tooManyToAll else { return nil }
        return (.throttled(rejection.text), rejection.retryAfter.map { min($0, longestRetryAfter) })
    }

    /// Returns the pause that APNs asks for if one channel or device has too many updates, or zero if it asks for none; `nil` for
    /// any other outcome.
    package static func pace(_ outcome: Outcome) -> Duration? {
        guard case .rejected(let rejection) = outcome,
            RetryTable.meaning(of: rejection.status, rejection.reason) == .tooManyToOne
        else { return nil }
        return max(.zero, min(rejection.retryAfter ?? .zero, longestRetryAfter))
    }

    /// Whether a rule of the operator decides about the outcome. Such a response throttles no other app.
    package func hasRule(for outcome: Outcome) -> Bool {
        guard case .rejected(let rejection) = outcome else { return false }
        return rule(for: rejection) != nil
    }

    private func rule(for rejection: Rejection) -> ResponseRule? {
        rules.first { ($0.status ?? rejection.status) == rejection.status && ($0.reason ?? rejection.reason) == rejection.reason }
    }

    /// Whether the outcome is an error of APNs itself, which says nothing about the job: 5xx, 408, or no response in time.
    package static func isFailure(_ outcome: Outcome) -> Bool {
        switch outcome {
        case .timedOut: true
        case .rejected(let rejection): rejection.status >= 500 || rejection.status == 408
        case .delivered, .notProcessed, .maybeProcessed, .outdated, .begun: false
        }
    }

    /// Whether APNs evaluated the job and rejected it, which means that it accepted the credential.
    package static func isResponseAboutJob(_ outcome: Outcome) -> Bool {
        guard case .rejected(let rejection) = outcome else { return false }
        return (400..<500).contains(rejection.status) && throttle(outcome) == nil
    }

    /// Whether a rejection that ends a job shows that APNs accepts the credential. A rule may end a job whose credential APNs
    /// refuses.
    package static func provesCredential(_ outcome: Outcome) -> Bool {
        guard case .rejected(let rejection) = outcome, isResponseAboutJob(outcome) else { return false }
        switch RetryTable.meaning(of: rejection.status, rejection.reason) {
        case .credential, .expiredProviderToken, .tokenUpdates: return false
        default: return true
        }
    }

    /// - Parameters:
    ///   - outcome: of an attempt that ended without an acceptance.
    ///   - random: from 0 to 1, for jitter.
    package func decide(_ outcome: Outcome, _ job: Standing, random: Double) -> Decision {
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
        if let rule = rule(for: rejection) { return decide(rule, rejection, job, random: random) }
        return switch RetryTable.meaning(of: rejection.status, rejection.reason) {
        case .final: .deadLetter(nil)
        case .deadToken: .deadLetter(.dead)
        case .suspectToken: .suspect
        case .topic: job.isTopicFromSettings ? .hold(.topic(rejection.reason)) : .deadLetter(nil)
        case .topicOrChannel:
            job.isTopicFromSettings && !job.namesChannel ? .hold(.topic(rejection.reason)) : .deadLetter(nil)
        case .sessionEnd: resendOnce(job, rejection, random: random)
        case .expiredProviderToken: .renewToken
        case .credential: .hold(.credential(rejection.reason.isEmpty ? "\(rejection.status) without a reason" : rejection.reason))
        case .tokenUpdates: .hold(.tokenUpdates)
        case .passing, .tooManyToAll: countedRetry(job, after: rejection.retryAfter, random: random)
        case .tooManyToOne: countedRetry(job, after: rejection.retryAfter, pausesToken: true, random: random)
        }
    }

    private func decide(_ rule: ResponseRule, _ rejection: Rejection, _ job: Standing, random: Double) -> Decision {
        switch rule.action {
        case .hold: return .hold(.rule(rejection.text))
        case .retry(let delays) where job.attempts < limit:
            return retry(job, after: rejection.retryAfter, delays.isEmpty ? self.delays : delays, random: random)
        case .retry, .dead: return Self.end(rejection)
        }
    }

    /// The end of a job by a rule. The protection against mass rejection stays: a suspect response ends a job only after an
    /// acceptance of the app.
    private static func end(_ rejection: Rejection) -> Decision {
        switch RetryTable.meaning(of: rejection.status, rejection.reason) {
        case .deadToken: .deadLetter(.dead)
        case .suspectToken: .suspect
        default: .deadLetter(nil)
        }
    }

    /// A response that announces the end of its session: like GOAWAY the first time, then a counted retry.
    private func resendOnce(_ job: Standing, _ rejection: Rejection, random: Double) -> Decision {
        job.resends == 0 && job.attempts == 0
            ? .resend(mayDuplicate: false) : countedRetry(job, after: rejection.retryAfter, random: random)
    }

    private func countedRetry(_ job: Standing, after asked: Duration?, pausesToken: Bool = false, random: Double) -> Decision {
        guard job.attempts < limit else { return .deadLetter(nil) }
        return retry(job, after: asked, delays, pausesToken: pausesToken, random: random)
    }

    private func retry(
        _ job: Standing, after asked: Duration?, _ delays: [Duration], pausesToken: Bool = false, random: Double
    ) -> Decision {
        // 0, or a date in the past, would use up all resends in a moment.
        if let asked, asked > .zero { return .retryLater(min(asked, Self.longestRetryAfter), pausesToken: pausesToken) }
        let delay = delays[min(job.attempts, delays.count - 1)]
        return .retryLater(delay * (1 + Self.jitter * (2 * random - 1)), pausesToken: pausesToken)
    }
}

/// A decision of the operator (`retry_rules`) about the rejections that it matches.
package struct ResponseRule: Sendable, Equatable {
    package enum Action: Sendable, Equatable {
        /// A counted retry after these waits, the last of which repeats; empty for those of the policy.
        case retry(delays: [Duration])
        case dead
        case hold
    }

    /// `nil` is any.
    package var status: Int?
    /// `nil` is any.
    package var reason: String?
    package var action: Action

    package init(status: Int?, reason: String?, action: Action) {
        (self.status, self.reason, self.action) = (status, reason, action)
    }
}

/// The meaning of a rejection for the device token.
package enum TokenVerdict: String, Sendable {
    /// 410: the token is no longer valid.
    case dead
    /// Either the token or the environment is wrong.
    case suspect
}
