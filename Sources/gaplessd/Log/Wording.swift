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
            "Using the provider token of the key \(key) that was signed \(Int((age / .seconds(60)).rounded())) min ago."
        case .notKept(let key, let why):
            "The provider token of the key \(key) cannot be kept for other processes and the next start: \(why). "
                + "APNs accepts no second token within 20 minutes: set STATE_DIRECTORY to a folder that this user can write to."
        }
    }
}

extension Duration {
    /// Seconds with at most one decimal: `20`, `0.5`.
    var roundedSeconds: String {
        let tenths = Int((self / .milliseconds(100)).rounded())
        return tenths % 10 == 0 ? "\(tenths / 10)" : "\(tenths / 10).\(tenths % 10)"
    }
}

extension PoolAdvice {
    /// `2 sessions at 100 ms carry about 3,400 pushes/s of 210 bytes; pool_size 8 would carry 14,000.`
    var logText: String {
        let milliseconds = Int((roundTrip / .milliseconds(1)).rounded())
        return "\(sessions.logged("session")) at \(milliseconds) ms carry about \(pushesPerSecond.rounded.grouped) pushes/s "
            + "of \(payload) bytes; \(isMaximum ? "pool_max_size" : "pool_size") \(suggestion) would carry "
            + "\(suggestedPushesPerSecond.rounded.grouped)."
    }
}

extension Int {
    /// The number with two significant digits.
    var rounded: Int {
        var unit = 1
        while self / unit >= 100 { unit *= 10 }
        return (self + unit / 2) / unit * unit
    }
}
