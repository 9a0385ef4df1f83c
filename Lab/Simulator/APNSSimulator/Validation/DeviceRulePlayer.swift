import Platform

/// Applies device rules: stores the times of the pushes under a `limited` rule.
struct DeviceRulePlayer {
    var rules: [DeviceRule] = []
    private var pushed: [[UInt8]: [Instant]] = [:]

    /// Returns the answer of the matching rule; `nil` if there is none, or if the rule permits the push.
    mutating func answer(
        token: [UInt8], topic: ArraySlice<UInt8>?, _ environment: PushEnvironment, now: Instant
    ) -> Answer? {
        guard let rule = rules.first(where: { token.starts(with: $0.prefix.utf8) }) else { return nil }
        switch rule.state {
        case .good: return nil
        case .unregistered(let since): return .status(410, Reason.unregistered.rawValue, timestamp: since)
        case .expired: return .reason(.expiredToken)
        case .topic(let own): return topic?.elementsEqual(own.utf8) == true ? nil : .reason(.deviceTokenNotForTopic)
        case .environment(let own): return own == environment ? nil : .reason(.badDeviceToken)
        case .limited(let count, let window):
            let recent = pushed[token, default: []].filter { now - $0 < window }
            pushed[token] = recent.count < count ? recent + [now] : recent
            return recent.count < count ? nil : .reason(.tooManyRequests)
        case .silent: return .silent
        case .slow(let time): return .delay(time, then: .accept)
        }
    }
}
