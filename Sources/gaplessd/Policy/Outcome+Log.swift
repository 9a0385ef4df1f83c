import PushPool

extension Outcome {
    /// As log lines name it: `503 ServiceUnavailable`.
    var logText: String {
        switch self {
        case .delivered: "200"
        case .rejected(let rejection):
            rejection.reason.isEmpty ? "\(rejection.status)" : "\(rejection.status) \(rejection.reason)"
        case .timedOut: "request timeout"
        case .outdated: "Expired"
        case .begun: "sent"
        case .notProcessed(let fault), .maybeProcessed(let fault): fault.logText
        }
    }

    /// Whether APNs may have accepted it, for all we know.
    var isInDoubt: Bool {
        switch self {
        case .timedOut, .maybeProcessed: true
        case .delivered, .rejected, .notProcessed, .outdated, .begun: false
        }
    }

    /// Whether APNs looked at the job and blamed it: then it knew the credential.
    var isAnswerAboutTheJob: Bool {
        guard case .rejected(let rejection) = self else { return false }
        return (400..<500).contains(rejection.status) && RetryPolicy.throttle(self) == nil
    }
}

extension SessionError {
    /// Why a session ended, for people.
    var logText: String {
        switch self {
        case .dial(let text, _), .untrusted(let text): text
        case .goAway(let code, let reason):
            reason.isEmpty ? "GOAWAY, code \(code)" : "GOAWAY, code \(code): \(reason)"
        case .streamReset(let code): "stream reset, code \(code)"
        case .connectionLost(let text): text
        case .pingUnanswered: "PING unanswered"
        case .closedByUs: "closed by gaplessd"
        case .retired(.requestIgnored): "a request was never answered, so another session takes over"
        case .retired(.serverErrors): "three answers of 500 in a row, so another session takes over"
        case .retired(.shutdownAnnounced): "the server said goodbye in an answer, so another session takes over"
        case .retired(.usedUp): "its stream identifiers are used up, so another session takes over"
        }
    }
}

extension TokenNews {
    /// What became of a provider token, for people.
    var logText: String {
        switch self {
        case .minted(let key): "A new provider token was signed with the key \(key)."
        case .found(let key, let age):
            "Using the provider token of the key \(key) that was signed \(age.roundedMinutes) min ago."
        case .notKept(let key, let why):
            "The provider token of the key \(key) cannot be kept for other processes and the next start: \(why). "
                + "APNs wants no second one within 20 minutes: let STATE_DIRECTORY name a folder that this user can write."
        }
    }
}

extension Duration {
    fileprivate var roundedMinutes: Int { Int((self / .seconds(60)).rounded()) }

    /// In seconds with at most one digit behind the point: `20`, `0.5`.
    var roundedSeconds: String {
        let tenths = Int((self / .milliseconds(100)).rounded())
        return tenths % 10 == 0 ? "\(tenths / 10)" : "\(tenths / 10).\(tenths % 10)"
    }
}
