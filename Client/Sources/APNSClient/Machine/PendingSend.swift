internal import Platform
internal import PushPool

/// One push between `send` and its result.
struct PendingSend {
    enum Phase: Equatable {
        /// The pool is full, or has no session.
        case waiting
        /// In the pool: it waits there, or is on a stream.
        case pooled
        /// Goes out again at this time.
        case resting(until: Instant)
        /// Goes out again once there is another provider token.
        case renewingToken
    }

    let request: PushRequest
    let deadline: Instant?
    var phase = Phase.waiting
    /// The reason for which it ends as soon as the pool lets go of it: cancelled, past its deadline, shut down.
    var ending: APNSError.Cause?
    /// Requests that were made.
    var requests = 0
    var standing: RetryPolicy.Standing
    /// Whether an earlier request may have been accepted.
    var mayBeSent = false
    /// The session that failed it last.
    var avoiding: SessionID?
    /// The error of the last request.
    var lastError: APNSError?

    init(_ request: PushRequest, deadline: Instant?) {
        self.request = request
        self.deadline = deadline
        let isBroadcast: Bool = if case .channel = request.push.target { true } else { false }
        standing = RetryPolicy.Standing(
            attempts: 0, resends: 0, isTopicFromSettings: request.usesDefaultTopic, namesChannel: isBroadcast)
    }

    // MARK: Facts

    /// Returns its next notification if it waits.
    mutating func enterPool(_ id: SendID) -> Notification? {
        guard phase == .waiting else { return nil }
        phase = .pooled
        return request.notification(id: id.rawValue, avoiding: avoiding)
    }

    /// Returns whether it was in the pool.
    mutating func leavePool() -> Bool {
        guard phase == .pooled else { return false }
        phase = .waiting
        return true
    }

    /// Records a failed request, and returns its error.
    mutating func failed(_ outcome: Outcome, on session: SessionID) -> APNSError {
        if outcome != .outdated { requests += 1 }
        let error = error(of: outcome)
        avoiding = session
        lastError = error
        if outcome.isInDoubt { mayBeSent = true }
        return error
    }

    // MARK: Results

    /// The receipt for an accepted request; `nil` if it is not in the pool.
    func receipt(_ acceptance: Acceptance?) -> Receipt? {
        guard phase == .pooled else { return nil }
        return Receipt(
            apnsID: acceptance?.apnsID ?? request.push.apnsID, attempts: requests + 1, mayBeDuplicate: mayBeSent,
            uniqueID: acceptance?.uniqueID)
    }

    /// The error as the caller gets it. An earlier request in doubt decides its fate, and the last response is kept.
    func error(_ cause: APNSError.Cause, _ fate: APNSError.Fate, _ message: String) -> APNSError {
        var error = APNSError(cause, mayBeSent ? .maybeSent : fate, message)
        error.attempts = requests
        error.response = lastError?.response
        error.retryAfter = lastError?.retryAfter
        return error
    }

    /// The error of a send that ends without another request.
    func error(ended cause: APNSError.Cause, _ fate: APNSError.Fate) -> APNSError {
        let text =
            switch cause {
            case .cancelled: "the task was cancelled"
            case .deadlineExceeded: "the deadline has passed"
            default: "the client is shutting down"
            }
        return error(cause, fate, text + (lastError.map { ", after: \($0.message)" } ?? ""))
    }

    private func error(of outcome: Outcome) -> APNSError {
        switch outcome {
        case .rejected(let rejection):
            var error = error(.rejected, .rejected, rejection.text)
            error.add(rejection)
            error.token =
                switch RetryTable.meaning(of: rejection.status, rejection.reason) {
                case .deadToken: .dead
                case .suspectToken: .suspect
                default: .none
                }
            return error
        case .notProcessed(let error): return self.error(.connectionLost, .notSent, error.text)
        case .maybeProcessed(let error): return self.error(.connectionLost, .maybeSent, error.text)
        case .timedOut: return error(.noResponse, .maybeSent, "no response within the request timeout")
        case .outdated: return error(.expired, .notSent, "the expiration passed before the push could be sent")
        case .delivered, .begun: preconditionFailure("\(outcome) is not a failed request")
        }
    }
}

/// The next step for a send whose request failed.
enum NextStep: Equatable {
    case fail
    case resend(after: Duration, isCounted: Bool, mayDuplicate: Bool)
    /// The credential, the topic of the configuration or the provider token is at fault: the send fails and the client is held.
    case hold(HoldReason)
    case renewToken

    /// - Parameters:
    ///   - standard: the decision of the standard rule. Only it decides about faults of the credential and passed expirations.
    ///   - own: the decision of the caller's rule, if it was asked.
    ///   - mayDuplicate: whether APNs may have accepted the request.
    ///   - mayResend: whether the standard rule may send the push again, if it decides so.
    ///   - isCurrent: whether the session presents the credential that is in use now. The fault of an earlier credential says
    ///     nothing about it: the push goes out again once the other sessions had time to open.
    init(_ standard: RetryPolicy.Decision, own: RetryRule.Decision?, mayDuplicate: Bool, mayResend: Bool, isCurrent: Bool) {
        self =
            switch (standard, own) {
            case (.hold, _) where !isCurrent && mayResend, (.renewToken, _) where !isCurrent:
                .resend(after: RetryPolicy.pauseBetweenRefusals, isCounted: false, mayDuplicate: mayDuplicate)
            case (.hold, _) where !isCurrent: .fail
            case (.hold(let reason), _): .hold(reason)
            case (.renewToken, _): .renewToken
            case (.expire, _), (_, .giveUp): .fail
            case (_, .resend(let delay)): .resend(after: delay, isCounted: true, mayDuplicate: mayDuplicate)
            case (.resend, nil) where !mayResend, (.retryLater, nil) where !mayResend: .fail
            case (.resend, nil): .resend(after: .zero, isCounted: false, mayDuplicate: mayDuplicate)
            case (.postpone(let delay), nil): .resend(after: delay, isCounted: false, mayDuplicate: false)
            case (.retryLater(let delay, _), nil): .resend(after: delay, isCounted: true, mayDuplicate: false)
            case (.deadLetter, nil), (.suspect, nil): .fail
            }
    }

    /// The decision of the standard rule for the caller's rule; `nil` if that is not asked.
    static func standard(_ decision: RetryPolicy.Decision) -> RetryRule.Decision? {
        switch decision {
        case .hold, .renewToken, .expire: nil
        case .resend: .resend(after: .zero)
        case .postpone(let delay), .retryLater(let delay, _): .resend(after: delay)
        case .deadLetter, .suspect: .giveUp
        }
    }
}
