/// The state of the devices whose tokens have a common prefix.
public struct DeviceRule: Sendable, Equatable {
    public enum State: Sendable, Equatable {
        case good
        /// 410 `Unregistered` with this timestamp in milliseconds since 1970; `nil` is the simulator's start time.
        case unregistered(since: Int64?)
        /// 410 `ExpiredToken`.
        case expired
        /// 400 `DeviceTokenNotForTopic` for any other topic.
        case topic(String)
        /// 400 `BadDeviceToken` in the other environment.
        case environment(PushEnvironment)
        /// 429 `TooManyRequests` above `count` accepted pushes per token and `window`.
        case limited(count: Int, window: Duration)
        case silent
        case slow(Duration)
    }

    /// Hex digits in lower case. Empty matches every token.
    public var prefix: String
    public var state: State

    public init(prefix: String, _ state: State) {
        self.prefix = prefix.lowercased()
        self.state = state
    }
}

extension DeviceRule {
    /// Reads `HEXPREFIX=STATE`: `good`, `unregistered`, `expired`, `topic:TOPIC`, `production`, `sandbox`,
    /// `limited:COUNT/TIME`, `silent` or `slow:TIME`.
    public init(_ text: String) throws(ScriptSyntaxError) {
        let sides = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        guard sides.count == 2, sides[0].utf8.allSatisfy(\.isHexDigit) else {
            throw ScriptSyntaxError("'\(text)' is not a device rule; expected HEXPREFIX=STATE")
        }
        self.init(prefix: sides[0], try DeviceRule.state(sides[1]))
    }

    private static func state(_ text: String) throws(ScriptSyntaxError) -> State {
        let parts = text.split(separator: ":", maxSplits: 1).map(String.init)
        switch (parts.first ?? "", parts.count > 1 ? parts[1] : nil) {
        case ("good", nil): return .good
        case ("unregistered", nil): return .unregistered(since: nil)
        case ("expired", nil): return .expired
        case ("topic", let topic?): return .topic(topic)
        case ("production", nil): return .environment(.production)
        case ("sandbox", nil): return .environment(.sandbox)
        case ("silent", nil): return .silent
        case ("slow", let time?): return .slow(try Duration(milliseconds: time))
        case ("limited", let rate?):
            let (count, window) = try Script.rate(rate)
            return .limited(count: count, window: window)
        default:
            throw ScriptSyntaxError(
                "'\(text)' is not a device state; expected good, unregistered, expired, topic:TOPIC, production, sandbox, "
                    + "limited:COUNT/TIME, silent or slow:TIME")
        }
    }
}
