internal import PushPool

#if Logging
    public import Logging
#endif
#if Metrics
    public import CoreMetrics
#endif

/// The configuration of a client.
public struct APNSConfiguration: Sendable {
    /// The server to dial.
    public enum Server: Sendable, Equatable {
        /// `api.push.apple.com`, for apps from the App Store and TestFlight.
        case production
        /// `api.sandbox.push.apple.com`, for apps that Xcode installed.
        case sandbox
        /// Another server, for example a simulator.
        case host(String, port: Int = 443)

        /// The channel management API beside this server: Apple's, or the same address.
        var managementAddress: (host: String, port: Int) {
            switch self {
            case .production: ("api-manage-broadcast.push.apple.com", 2196)
            case .sandbox: ("api-manage-broadcast.sandbox.push.apple.com", 2195)
            case .host: address
            }
        }

        var address: (host: String, port: Int) {
            switch self {
            case .production: ("api.push.apple.com", 443)
            case .sandbox: ("api.sandbox.push.apple.com", 443)
            case .host(let host, let port): (host, port)
            }
        }
    }

    /// The number of sessions, which are HTTP/2 connections to APNs.
    public enum PoolSize: Sendable, Equatable {
        /// From 1 to 1000.
        case fixed(Int)
        /// As many as demand and distance require.
        case automatic(most: Int = 32)
    }

    /// The environment of the device tokens.
    public var server: Server
    /// The signing key or certificate.
    public var authentication: APNSAuthentication
    /// The topic of pushes that name none: the bundle id of the app. `nil` with a certificate is its own topic.
    public var topic: String?
    /// Two sessions suffice for some thousand pushes per second.
    public var poolSize = PoolSize.fixed(PoolSettings.usualSessions)
    /// The rule for failed requests.
    public var retries = RetryRule()
    /// The server of ``APNSChannels``; `nil` is Apple's for ``server``, and ``server`` itself for another host.
    public var managementServer: Server?
    /// The proxy, which then resolves the name of the server; `nil` for none.
    public var proxy: APNSProxy?
    /// The longest time from ``APNSClient/send(_:)`` to its result; `nil` sets no limit.
    public var deadline: Duration? = .seconds(60)
    /// The time limit of one request.
    public var requestTimeout = PoolSettings.usualRequestTimeout
    /// The most pushes in any second; `nil` for no limit.
    public var pushesPerSecond: Double?
    /// Whether receipts carry the id that APNs assigned.
    public var collectsAPNSIDs = true
    /// Whether 20 rejections of device tokens in a row hold the client: usually the environment or the topic is wrong.
    public var holdsAfterSuspectTokens = true
    /// A PEM bundle of roots to trust in addition to those of the system.
    public var extraRootsPath: String?
    /// A folder that shares provider tokens with other processes and the next start. APNs accepts a new token every 20 minutes.
    public var tokenFolder: String?
    #if Logging
        /// Receives the events of the client: sessions at the level debug, failed dials at warning, holds at error. `nil` logs
        /// nothing.
        public var logger: Logger?
    #endif
    #if Metrics
        /// Receives counters of pushes and failed dials and the number of open sessions, for example `MetricsSystem.factory`.
        /// `nil` counts nothing.
        public var metrics: (any MetricsFactory)?
    #endif

    /// A configuration with the defaults.
    public init(server: Server, authentication: APNSAuthentication, topic: String? = nil) {
        self.server = server
        self.authentication = authentication
        self.topic = topic
    }

    private static let longestTime = Duration.seconds(30 * 86_400)

    static func isHost(_ text: String) -> Bool { !text.isEmpty && text.utf8.allSatisfy { $0 > 0x20 && $0 != 0x7F } }

    /// The settings of the session to the channel management API.
    func managementSettings() throws(APNSError) -> PoolSettings {
        let (host, port) = managementServer?.address ?? server.managementAddress
        var own = self
        (own.server, own.poolSize, own.collectsAPNSIDs) = (.host(host, port: port), .fixed(1), true)
        return try own.settings()
    }

    /// The settings of the pool.
    func settings() throws(APNSError) -> PoolSettings {
        let (host, port) = server.address
        guard Self.isHost(host) else { throw .invalid("the host is not a name") }
        guard (1...65_535).contains(port) else { throw .invalid("the port \(port) is out of range; expected 1 to 65535") }
        guard requestTimeout > .zero, requestTimeout <= Self.longestTime else {
            throw .invalid("the request timeout is out of range; expected more than 0 and at most 30 days")
        }
        if let deadline, deadline <= .zero { throw .invalid("the deadline is not above zero") }
        if let rate = pushesPerSecond, !(0.01...1e9).contains(rate) {
            throw .invalid("pushesPerSecond is out of range; expected 0.01 to 1000000000")
        }
        guard retries.limit >= 0 else { throw .invalid("the limit of retries is negative") }
        guard !retries.delays.isEmpty, retries.delays.allSatisfy({ (.zero...Self.longestTime).contains($0) }) else {
            throw .invalid("the delays of retries are empty, or one is out of range; expected 0 to 30 days")
        }
        var settings = PoolSettings(
            host: host, port: port, extraRootsPath: extraRootsPath, proxy: try proxy?.checked(), requestTimeout: requestTimeout,
            collectsAPNSIDs: collectsAPNSIDs)
        let most: Int
        switch poolSize {
        case .fixed(let count): (settings.sessions, settings.mostSessions, most) = (count, count, count)
        case .automatic(let count):
            (settings.sessions, settings.mostSessions, settings.isAutomatic, most) = (1, count, true, count)
        }
        guard (1...1000).contains(most) else { throw .invalid("the pool size \(most) is out of range; expected 1 to 1000") }
        return settings
    }
}

/// A proxy that connects to APNs by HTTP CONNECT. TLS passes through it unread.
///
/// Its description never shows the password.
public struct APNSProxy: Sendable, Equatable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    private let proxy: HTTPProxy

    /// A proxy, with its user and password if it requires them.
    public init(host: String, port: Int, user: String? = nil, password: String? = nil) {
        proxy = HTTPProxy(host: host, port: port, user: user, password: password)
    }

    /// `http://proxy.example:3128`
    public var description: String { proxy.description }
    public var debugDescription: String { description }
    public var customMirror: Mirror { Mirror(self, children: []) }

    func checked() throws(APNSError) -> HTTPProxy {
        guard APNSConfiguration.isHost(proxy.host) else { throw .invalid("the host of the proxy is not a name") }
        guard (1...65_535).contains(proxy.port) else {
            throw .invalid("the port \(proxy.port) of the proxy is out of range; expected 1 to 65535")
        }
        // RFC 7617, 2: the first colon ends the user.
        if proxy.user?.contains(":") == true { throw .invalid("the user of the proxy contains a colon") }
        return proxy
    }
}

/// Decides whether a failed push is sent again before its caller gets the error.
public struct RetryRule: Sendable {
    /// The next step for a push whose request failed.
    public enum Decision: Sendable, Equatable {
        /// The caller gets the error.
        case giveUp
        /// Send again after this time, on another session if there is one.
        case resend(after: Duration)
    }

    /// A failed request.
    public struct Failure: Sendable, Equatable {
        /// The push that failed.
        public let push: Push
        /// The error that the caller would get now.
        public let error: APNSError
        /// The decision of the standard rule, with its limits and delays.
        public let standard: Decision
    }

    /// The number of counted resends: after 408, 429, 5xx, and a request without a response.
    public var limit: Int
    /// The wait before each resend, with 20 % of jitter; the last one repeats. A Retry-After of APNs takes precedence.
    public var delays: [Duration]
    /// Whether to send again what may have been sent, which may cause a duplicate.
    public var resendsMaybeSent: Bool
    /// Replaces the decision of the standard rule. Called on a thread of the client, which waits for it.
    ///
    /// It is not asked about faults of the credential: see ``APNSError/Cause/held``.
    public var judge: (@Sendable (Failure) -> Decision)?

    /// A rule with limits, and optionally a judgement of your own.
    public init(
        limit: Int = 3, delays: [Duration] = [.seconds(1), .seconds(5), .seconds(20)], resendsMaybeSent: Bool = true,
        judge: (@Sendable (Failure) -> Decision)? = nil
    ) {
        self.limit = limit
        self.delays = delays
        self.resendsMaybeSent = resendsMaybeSent
        self.judge = judge
    }

    /// Every push is requested once. Only requests that APNs has certainly not processed are made again.
    public static let never = RetryRule(limit: 0, resendsMaybeSent: false)
}
