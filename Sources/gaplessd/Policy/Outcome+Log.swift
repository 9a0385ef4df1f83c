import PushPool

extension Outcome {
    /// The outcome in log lines: `503 ServiceUnavailable`.
    var logText: String {
        switch self {
        case .delivered: "200"
        case .rejected(let rejection): rejection.text
        case .timedOut: "request timeout"
        case .outdated: "Expired"
        case .begun: "sent"
        case .notProcessed(let error), .maybeProcessed(let error): error.logText
        }
    }
}

extension SessionError {
    /// The reason for the end of a session.
    var logText: String {
        switch self {
        case .closedByUs: "closed by gaplessd"
        default: text
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
