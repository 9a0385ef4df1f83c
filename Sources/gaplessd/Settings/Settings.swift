import PushPool
import RedisQueue

/// The settings of one gaplessd: a value that is read completely, or not at all (`Configuration.read`).
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
    /// The pause between two updates of a channel.
    var channelPace = ChannelPace.automatic
    /// Decisions about rejections that precede the built-in ones.
    var retryRules: [ResponseRule] = []
    /// For all apps together.
    var limits = Limits()
    /// For all daemons of the first list together.
    var fleetLimits = Limits()
    var log = Logging()
    /// The longest wait of a stop for requests in flight.
    var drainTimeout: Duration = .seconds(20)
    /// The least share of the claimed pushes that campaigns get while the list has jobs, from 0 to 1.
    var campaignShare = 0.1
    /// The address of `/metrics` and the status page; port 0 is any free one. `nil` without a listener.
    var metricsListen: HostAndPort?
    /// Names and addresses that a request for metrics may have as its host, in addition to loopback and the bound address.
    var metricsHosts: [String] = []
    /// Whether a replaced file is read again.
    var watchesFiles = false
    /// The folder with a file for each further app.
    var appsFolder: String?
    /// The time without a job after which an app has no sessions; 0 keeps them open.
    var appsIdleTimeout = Duration.zero
    /// For `gaplessd relay`.
    var relay = Relay()
    /// `nil` without a filter.
    var filter: Filter?
    /// In the order of the file.
    var channels: [ChannelRule] = []

    /// The rule of a channel: the first one whose pattern matches its name.
    func channelRule(of name: String) -> ChannelRule? { channels.first { $0.matches(name) } }

    /// Values that no payload may have.
    var matches: [PayloadMatch] = []

    /// One app: its keys in the settings file, and the content of the files that they name once `CredentialLoader` has read them.
    /// The files of a faulty app are read as well.
    struct App: Sendable, Equatable {
        /// `nil` is the top level.
        var name: String?
        /// The text before a key of this app in a fault: empty, or `apps.NAME.`.
        var keyPrefix = ""
        /// Its file in `apps_dir`.
        var file: String?
        /// The content of this file. Only values of one process are comparable.
        var fileDigest = 0
        /// The settings no longer have the app: this is what it was, without its credential.
        var isRemoved = false
        var pool = PoolSettings(host: "", port: 0)
        /// `apns_management_server`
        var management = HostAndPort("", 0)
        var keys = CredentialKeys()
        /// The kind of credential that `keys` name; `nil` if they are incomplete or contradict each other.
        var source: CredentialSource?
        /// `apns_topic`
        var topic: String?
        /// Of this app alone, in pushes per second; 0 is no limit. A change replaces no session.
        var maxRate = 0.0
        /// The place of `apns_ca_path`, which an app may inherit.
        var rootsKey = "apns_ca_path"
        /// Whether the app does not inherit it.
        var ownsRoots = false
        /// Why the credential cannot be used; before it is read, the faults of secrets in files, which concern this app alone.
        var faults: [SettingsError] = []

        /// `nil` if it cannot be used: the app is held.
        var credential: Credential?
        /// The part of the credential that a pool needs. The files are read once for the check and the pool.
        var setup: SessionPool.Setup?
        /// The content of the client certificate, also of one that cannot be used; `nil` for a signing key, and if it cannot be
        /// read.
        var certificate: CertificateFacts?
        /// The content of all its files. Only values of one process are comparable.
        var digest = 0

        /// The settings of a session to the channel management API.
        var managementPool: PoolSettings {
            var pool = pool
            (pool.host, pool.port) = (management.host, management.port)
            (pool.sessions, pool.mostSessions, pool.isAutomatic, pool.collectsAPNSIDs) = (1, 1, false, true)
            return pool
        }

        /// Seconds that a call of the channel management API may take, from the dial to the response.
        var channelTimeout: Duration { min(.seconds(25), pool.dialTimeout + pool.requestTimeout) }
        /// The time for which one process alone creates a channel: longer than a call and a timeout of Redis.
        var channelLease: Duration { channelTimeout + .seconds(5) }
        static let longestChannelLease = Duration.seconds(30)

        /// The environment of the app's channels: `production`, `sandbox`, or the host of another server.
        var environment: String { APNSServer.environment(of: pool.host) ?? pool.host }

        /// `maxRate` as pools have it.
        var ownLimit: Double? { maxRate > 0 ? maxRate : nil }

        /// For jobs that name none: `apns_topic`, else the topic of the certificate.
        var defaultTopic: String? { topic ?? certificate?.defaultTopic }
        /// Whether its certificate or its file cannot be read: it may have any topic.
        var hasUnknownTopics: Bool {
            certificate == nil && (keys.nameCertificate || file != nil && topic == nil && !faults.isEmpty)
        }
        /// The files that it names.
        var files: Set<String> = []
        /// The files of its credential as they were when they were read.
        var stamps: [String: FileStamp] = [:]

        /// The app without a credential, for its jobs that wait.
        var removed: Settings.App {
            var app = self
            (app.isRemoved, app.topic, app.credential, app.setup) = (true, defaultTopic, nil, nil)
            (app.faults, app.stamps, app.fileDigest, app.digest) = ([], [:], 0, 0)
            return app
        }

        /// Compares the keys of a faultless app, and the content of its files.
        static func == (left: Self, right: Self) -> Bool {
            left.name == right.name && left.pool == right.pool && left.management == right.management
                && left.source == right.source && left.topic == right.topic
                && left.digest == right.digest
        }
    }

    /// The keys of a credential, as far as the settings have them.
    struct CredentialKeys: Sendable {
        var certificatePath: String?
        var keyPath: String?
        var keyPassword: Secret?
        var pkcs12Path: String?
        var pkcs12Password: Secret?
        var signingKeyPath: String?
        var keyID: String?
        var teamID: String?

        var nameCertificate: Bool { certificatePath != nil || pkcs12Path != nil }

        /// The files of keys of one kind; `nil` if they are incomplete.
        var source: CredentialSource? {
            if let signingKeyPath, let keyID, let teamID {
                return .signingKey(path: signingKeyPath, keyID: keyID, teamID: teamID)
            }
            if let certificatePath { return .certificate(path: certificatePath, keyPath: keyPath, password: keyPassword) }
            return pkcs12Path.map { .pkcs12(path: $0, password: pkcs12Password) }
        }
    }

    /// The files of a credential.
    enum CredentialSource: Sendable, Equatable {
        /// Without `keyPath`, the file of the certificate contains the key as well.
        case certificate(path: String, keyPath: String?, password: Secret?)
        case pkcs12(path: String, password: Secret?)
        case signingKey(path: String, keyID: String, teamID: String)

        /// The key that names the credential.
        var key: String {
            switch self {
            case .certificate: "apns_cert_path"
            case .pkcs12: "apns_p12_path"
            case .signingKey: "apns_auth_key_path"
            }
        }
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

        var redaction: Redaction { Redaction(isOn: redacts) }
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
        queue.channelPace = channelPace.pause
        queue.readsApps = true
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

/// One pattern of `channels`.
struct ChannelRule: Sendable, Equatable {
    /// A name, in which each `*` stands for any characters.
    var pattern: String
    var storage = ChannelCall.Storage.none
    /// Whether the daemon creates a channel at its first use.
    var creates = true
    /// `nil` keeps channels after their end.
    var deleteAfterEnd: Duration?

    func matches(_ name: String) -> Bool {
        let parts = pattern.split(separator: "*", omittingEmptySubsequences: false)
        guard parts.count > 1, let first = parts.first, let last = parts.last else { return pattern == name }
        guard name.utf8.count >= first.utf8.count + last.utf8.count, name.hasPrefix(first), name.hasSuffix(last) else {
            return false
        }
        var rest = name.dropFirst(first.count).dropLast(last.count)
        for part in parts.dropFirst().dropLast() where !part.isEmpty {
            guard let found = rest.firstRange(of: part) else { return false }
            rest = rest[found.upperBound...]
        }
        return true
    }
}

/// A password. Only `text` reveals it; descriptions and dumps do not.
struct Secret: Sendable, Equatable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    let text: String

    init(_ text: String) { self.text = text }

    var description: String { "(secret)" }
    var debugDescription: String { description }
    var customMirror: Mirror { Mirror(self, children: []) }
}
