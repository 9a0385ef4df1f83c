internal import PushPool

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
    init(
        _ standard: RetryPolicy.Decision, own: RetryRule.Decision?, mayDuplicate: Bool, mayResend: Bool, isCurrent: Bool
    ) {
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
