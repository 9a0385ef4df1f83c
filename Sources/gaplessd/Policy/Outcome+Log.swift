import PushPool

extension Outcome {
    /// The outcome in log lines: `503 ServiceUnavailable`.
    var logText: String {
        switch self {
        case .delivered: "200"
        case .rejected(let rejection):
            rejection.reason.isEmpty ? "\(rejection.status)" : "\(rejection.status) \(rejection.reason)"
        case .timedOut: "request timeout"
        case .outdated: "Expired"
        case .begun: "sent"
        case .notProcessed(let error), .maybeProcessed(let error): error.logText
        }
    }

    /// Whether APNs may have accepted the request without a response.
    var isInDoubt: Bool {
        switch self {
        case .timedOut, .maybeProcessed: true
        case .delivered, .rejected, .notProcessed, .outdated, .begun: false
        }
    }

    /// Whether APNs evaluated the job and rejected it, which means that it accepted the credential.
    var isAnswerAboutTheJob: Bool {
        guard case .rejected(let rejection) = self else { return false }
        return (400..<500).contains(rejection.status) && RetryPolicy.throttle(self) == nil
    }
}

extension SessionError {
    /// Why a session ended.
    var logText: String {
        switch self {
        case .dial(let text, _), .untrusted(let text): text
        case .goAway(let code, let reason):
            reason.isEmpty ? "GOAWAY, code \(code)" : "GOAWAY, code \(code): \(reason)"
        case .streamReset(let code): "stream reset, code \(code)"
        case .connectionLost(let text): text
        case .pingUnanswered: "PING unanswered"
        case .closedByUs: "closed by gaplessd"
        case .retired(.requestIgnored): "a request got no response; replacing the session"
        case .retired(.serverErrors): "three responses of 500 in a row; replacing the session"
        case .retired(.shutdownAnnounced): "the server announced its shutdown in a response; replacing the session"
        case .retired(.usedUp): "its stream identifiers are used up; replacing the session"
        }
    }
}

extension TokenNews {
    /// The log line about a provider token.
    var logText: String {
        switch self {
        case .minted(let key): "A new provider token was signed with the key \(key)."
        case .found(let key, let age):
            "Using the provider token of the key \(key) that was signed \(age.roundedMinutes) min ago."
        case .notKept(let key, let why):
            "The provider token of the key \(key) cannot be kept for other processes and the next start: \(why). "
                + "APNs accepts no second token within 20 minutes: set STATE_DIRECTORY to a folder that this user can write to."
        }
    }
}

extension Duration {
    fileprivate var roundedMinutes: Int { Int((self / .seconds(60)).rounded()) }

    /// Seconds with at most one decimal: `20`, `0.5`.
    var roundedSeconds: String {
        let tenths = Int((self / .milliseconds(100)).rounded())
        return tenths % 10 == 0 ? "\(tenths / 10)" : "\(tenths / 10).\(tenths % 10)"
    }
}
