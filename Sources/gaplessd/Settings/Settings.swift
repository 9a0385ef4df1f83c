import PushPool
import RedisQueue

/// The settings of one gaplessd: a value that is read completely, or not at all (`Settings.read`).
///
/// Above this type there are no seconds and no key names: each layer gets its part in its own units.
struct Settings: Sendable, Equatable {
    /// The top level first, if it has a credential; then `apps`, in the order of the file. Never empty once read.
    var apps: [App] = []
    /// The lists to claim from, in order of priority. Never empty once read.
    var lists: [String] = []
    var redis = Redis()
    /// Resends after the first attempt.
    var retryLimit = 3
    /// The waits before the first, second, third … resend; the last one repeats. Never empty.
    var retryDelays: [Duration] = [.seconds(1), .seconds(60), .seconds(900)]
    /// For all apps together.
    var limits = Limits()
    /// For all daemons of the first list together.
    var fleetLimits = Limits()
    var log = Logging()
    /// The longest wait of a stop for requests in flight.
    var drainTimeout: Duration = .seconds(20)
    /// The address of `/metrics` and the status page; port 0 is any free one. `nil` without a listener.
    var metricsListen: HostAndPort?
    /// Names and addresses that a request for metrics may have as its host, in addition to loopback and the bound address.
    var metricsHosts: [String] = []
    /// Whether a replaced file is read again.
    var watchesFiles = false
    /// For `gaplessd relay`.
    var relay = Relay()
    /// `nil` without a filter.
    var filter: Filter?

    /// One app: its server and its credential.
    struct App: Sendable, Equatable {
        /// `nil` is the top level.
        var name: String?
        var pool: PoolSettings
        var credential: CredentialSource
        /// `apns_topic`, for jobs that name none.
        var topic: String?

        /// The text before a key of this app in a fault.
        var keyPrefix: String { name.map { "apps.\($0)." } ?? "" }
    }

    /// The files of a credential.
    enum CredentialSource: Sendable, Equatable {
        /// Without `keyPath`, the file of the certificate contains the key as well.
        case certificate(path: String, keyPath: String?, password: Secret?)
        case pkcs12(path: String, password: Secret?)
        case signingKey(path: String, keyID: String, teamID: String)
    }

    struct Redis: Sendable, Equatable {
        private static let standard = QueueSettings(list: "", server: .tcp(host: "", port: 0))

        var server = standard.server
        /// `nil` without TLS.
        var tls: RedisTLS?
        var database = standard.database
        var username: String?
        var password: Secret?
        /// For Sentinels; without a password they get that of Redis.
        var sentinelUsername: String?
        var sentinelPassword: Secret?
        var delivery = standard.mode
        var lease = standard.lease
        var resultsKey: String?
        var resultsMax = standard.resultsMax
        var deadLetterMax = standard.deadLetterMax
        var feedbackMax = standard.feedbackMax
    }

    /// 0 is no limit.
    struct Limits: Sendable, Equatable {
        var pushesPerSecond = 0.0
        /// Of payload.
        var bitsPerSecond = 0.0
    }

    struct Logging: Sendable, Equatable {
        /// The share of delivered pushes that is logged, from 0 to 1.
        var successes = 0.0
        var format = LogFormat.text
        var level = LogLevel.info
        /// Whether device tokens are truncated and `data` is omitted.
        var redacts = false
    }

    /// The receiver of results.
    struct Relay: Sendable, Equatable {
        var url: RelayURL?
        /// The key of the signature.
        var secret: Secret?
        var headers: [RelayHeader]?
    }

    /// Words that must not reach a device.
    struct Filter: Sendable, Equatable {
        /// From the settings and from their file. Never empty.
        var words: [String]
        var action: WordFilter.Action
    }

    /// The part of one list.
    func queue(_ list: String) -> QueueSettings {
        var queue = QueueSettings(
            list: list, server: redis.server, database: redis.database, username: redis.username,
            password: redis.password?.text, mode: redis.delivery, lease: redis.lease, resultsKey: redis.resultsKey,
            resultsMax: redis.resultsMax, deadLetterMax: redis.deadLetterMax, feedbackMax: redis.feedbackMax)
        (queue.sentinelUsername, queue.sentinelPassword) = (redis.sentinelUsername, redis.sentinelPassword?.text)
        return queue
    }

    /// The part of the first list, for a connection that serves all lists.
    ///
    /// - Parameter timeout: of a dial, and of a reply.
    func connection(timeout: Duration) -> QueueSettings {
        var queue = queue(lists[0])
        queue.timeout = timeout
        return queue
    }

    /// The parts of all lists, in order of priority.
    var queues: [QueueSettings] { lists.map(queue) }
}

/// One app of the settings file with the files that it names. Files of a faulty app are checked as well.
struct AppFiles: Sendable, Equatable {
    /// The keys of a credential, as far as the settings have them.
    struct Credential: Sendable, Equatable {
        var certificatePath: String?
        var keyPath: String?
        var keyPassword: Secret?
        var pkcs12Path: String?
        var pkcs12Password: Secret?
        var signingKeyPath: String?
        var keyID: String?
        var teamID: String?

        var namesCertificate: Bool { certificatePath != nil || pkcs12Path != nil }
    }

    /// `nil` is the top level.
    var name: String?
    /// The part of a fault's key that precedes the key of this app.
    var prefix: String
    var credential: Credential
    /// `apns_ca_path`
    var rootsPath: String?
    /// The place of `apns_ca_path`, which an app may inherit.
    var rootsKey: String
    /// The faults of its secrets that are in files. They concern this app alone.
    var faults: [SettingsError] = []
    /// `nil` if the credential of the app is incomplete or faulty.
    var app: Settings.App?
}

/// A password. Only `text` reveals it; descriptions and dumps do not.
struct Secret: Sendable, Equatable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    let text: String

    init(_ text: String) { self.text = text }

    var description: String { "(secret)" }
    var debugDescription: String { description }
    var customMirror: Mirror { Mirror(self, children: []) }
}
