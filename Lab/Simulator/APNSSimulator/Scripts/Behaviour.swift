import Platform

/// The behaviour of the simulator beyond the rules of APNs. A change at runtime also affects open connections, unless a
/// property states otherwise.
public struct Behaviour: Sendable, Equatable {
    /// The first bytes of a new connection.
    public enum Greeting: Sendable, Equatable {
        case settings
        /// No byte of HTTP/2 at any time.
        case nothing
        /// No byte at all: the TLS handshake is not answered.
        case tarpit
        /// GOAWAY instead of SETTINGS, and close.
        case goAway(GoAway)
    }

    /// The reaction to a stream above the limit.
    public enum OverLimit: String, Sendable, CaseIterable {
        /// RST_STREAM with REFUSED_STREAM.
        case refuse
        /// As `refuse`, and a second RST_STREAM with STREAM_CLOSED, as for DATA that follows HEADERS.
        case refuseTwice = "refuse-twice"
        /// GOAWAY with code 7 and plain text, and close.
        case goAway = "goaway"
    }

    /// The reaction to an idle connection.
    public enum IdleFault: String, Sendable, CaseIterable {
        /// GOAWAY with `IdleTimeout` after the idle time.
        case goAway = "goaway"
        /// 400 `IdleTimeout` to the next request, followed by GOAWAY.
        case badRequest = "400"
        /// 500 `InternalServerError` to every later request of the connection.
        case internalError = "500"
    }

    /// A limit of new connections. APNs treats "opening and closing repeatedly" as an attack.
    public struct ConnectLimit: Sendable, Equatable {
        /// The number of accepted connections per `window`.
        public var count: Int
        public var window: Duration
        /// The time for which new connections are reset after the limit is exceeded.
        public var block: Duration

        public init(count: Int, window: Duration, block: Duration) {
            self.count = count
            self.window = window
            self.block = block
        }
    }

    /// A valid credential that the simulator rejects.
    public struct Refusal: Sendable, Equatable {
        public enum Credential: Sendable, Equatable {
            /// Every client certificate.
            case certificate
            /// Provider tokens of the key with this id.
            case key(String)
        }

        public var credential: Credential
        /// The reason for each push. `nil`, only for certificates: a TLS alert on new connections.
        public var reason: Reason?

        public init(_ credential: Credential, _ reason: Reason? = nil) {
            self.credential = credential
            self.reason = reason
        }
    }

    /// A random stream limit that changes every `interval`.
    public struct LimitWalk: Sendable, Equatable {
        public var interval: Duration
        public var bounds: ClosedRange<UInt32>

        public init(interval: Duration, bounds: ClosedRange<UInt32>) {
            self.interval = interval
            self.bounds = bounds
        }
    }

    public var script = Script()
    /// The states of device tokens. The first rule with a matching prefix applies, before the script.
    public var devices: [DeviceRule] = []
    /// The answer of single connections, numbered from 1, to every valid push, as of a faulty server behind them. The first
    /// matching element applies, before devices and script.
    public var connections: [Script.Turn] = []
    /// The answers to channel management requests, by their number from 1. The first matching element applies; a request that is
    /// accepted, or recorded before its connection is cut, is executed.
    public var managementTurns: [Script.Turn] = []
    /// Maximum number of channels per app.
    public var channelLimit = Channels.limit
    /// 429 `TooManyRequests` for broadcasts above the limit of their channel.
    public var channelRate: ChannelRate?
    /// The rejected credentials. The first matching element applies.
    public var refusals: [Refusal] = []
    /// Affects new connections.
    public var greeting = Greeting.settings
    /// The share of new connections with `greeting`, 0 to 1. The others get SETTINGS.
    public var greetingShare = 1.0
    /// MAX_CONCURRENT_STREAMS: immediately with a certificate, after the first accepted push with a token.
    public var streamLimit: UInt32 = 1000
    /// MAX_CONCURRENT_STREAMS of a connection without certificate until its first accepted push.
    public var tokenStreamLimit: UInt32 = 1
    /// Replaces `streamLimit` by random limits.
    public var limitWalk: LimitWalk?
    /// Random values of INITIAL_WINDOW_SIZE, also below the bytes that a stream has already sent. Once it is `nil`, streams get
    /// the value of a connection without it.
    public var windowWalk: LimitWalk?
    public var overLimit = OverLimit.refuse
    /// The limit falls to 1 after a 4xx other than 410, until the next 200 (observed at APNs until 2020).
    public var dropsLimitAfterRejection = false
    /// Sends GOAWAY after each such number of requests of a connection, and answers the requests so far. 0: never.
    public var goAwayEvery = 0
    /// The port is closed: a dial gets ECONNREFUSED.
    public var refusesConnections = false
    public var connectLimit: ConnectLimit?
    /// The longest time without a request; `nil` has no limit.
    public var idleLimit: Duration?
    public var idleFault = IdleFault.goAway
    /// The simulator does not read, write or accept: every connection is half-open.
    public var isFrozen = false
    /// PING frames get no ACK.
    public var ignoresPings = false
    /// No WINDOW_UPDATE is sent: a client can send 65,535 bytes per connection. Affects new connections.
    public var withholdsWindowUpdates = false
    /// INITIAL_WINDOW_SIZE of the first SETTINGS; `nil` omits it, which means 65,535. Affects new connections.
    public var initialWindow: UInt32?
    /// Sends answers in DATA frames of one byte and header blocks in five frames.
    public var splitsFrames = false
    /// Bytes per TLS record, at most 16,384.
    public var recordBytes = 16384

    /// The number of broadcasts that each channel accepts in a window. Each window of each channel has another random limit.
    public struct ChannelRate: Sendable, Equatable {
        public var limits: ClosedRange<Int>
        public var window: Duration

        public init(_ limits: ClosedRange<Int>, per window: Duration) { (self.limits, self.window) = (limits, window) }
    }

    public init() {}

    /// Client certificates get a TLS alert.
    var refusesHandshakes: Bool { refusals.contains(Refusal(.certificate)) }

    /// Returns the reason with which the valid credential of a connection is rejected.
    func refusal(certificate hasCertificate: Bool, key: String?) -> Reason? {
        refusals.first { refusal in
            switch refusal.credential {
            case .certificate: hasCertificate
            case .key(let id): !hasCertificate && id == key
            }
        }?.reason
    }
}

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

/// Applies a channel rate: stores the window of each channel.
struct ChannelRatePlayer {
    private struct Window {
        let start: Instant
        let limit: Int
        var count = 0
    }

    var rate: Behaviour.ChannelRate? {
        didSet { if rate != oldValue { windows = [:] } }
    }
    private var windows: [[UInt8]: Window] = [:]

    /// Returns whether the channel accepts a broadcast now.
    mutating func admits(_ channel: [UInt8], _ random: inout SeededRandom, now: Instant) -> Bool {
        guard let rate else { return true }
        var window = windows[channel].flatMap { now - $0.start < rate.window ? $0 : nil }
        if window == nil {
            let spread = UInt64(rate.limits.upperBound - rate.limits.lowerBound) + 1
            window = Window(start: now, limit: rate.limits.lowerBound + Int(random.next() % spread))
        }
        guard var window else { return true }
        defer { windows[channel] = window }
        if window.count >= window.limit { return false }
        window.count += 1
        return true
    }
}

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
