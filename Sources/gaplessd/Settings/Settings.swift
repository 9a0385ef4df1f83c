import PushPool
import RedisQueue

/// The settings of one gaplessd as a value: read whole, or not at all (`Settings.read`).
///
/// Past this type there are no seconds and no key names: each layer gets its part in its own units.
struct Settings: Sendable, Equatable {
    /// The top level first, where it has a credential; then `apps`, in the order of the file. Never empty.
    var apps: [App]
    /// The lists to claim from, in order of priority. Never empty.
    var lists: [String]
    var redis: Redis
    /// Resends after the first send.
    var retryLimit: Int
    /// Before the first, second, third … resend; the last one repeats. Never empty.
    var retryDelays: [Duration]
    /// Of all apps together.
    var limits = Limits()
    var log: Logging
    /// How long a stop waits for what is on the wire.
    var drainTimeout: Duration
    /// Where `/metrics` and its like are; port 0 is any free one. `nil` where nobody is to listen.
    var metricsListen: HostAndPort?
    /// `nil` where nothing is filtered.
    var filter: Filter?

    /// One app: where its pushes go and who they come from.
    struct App: Sendable, Equatable {
        /// `nil` is the top level.
        var name: String?
        var pool: PoolSettings
        var credential: CredentialSource
        /// `apns_topic`, for jobs that name none.
        var topic: String?
        /// Where `apns_ca_path` stands that this app has, by its own word or the top level's.
        var rootsKey = "apns_ca_path"

        /// Before a key of this app, in a fault.
        var keyPrefix: String { name.map { "apps.\($0)." } ?? "" }
    }

    /// Which files a credential is made from.
    enum CredentialSource: Sendable, Equatable {
        /// One file may hold both: then there is no second.
        case certificate(path: String, keyPath: String?, password: Secret?)
        case pkcs12(path: String, password: Secret?)
        case signingKey(path: String, keyID: String, teamID: String)
    }

    struct Redis: Sendable, Equatable {
        var server: QueueSettings.Server
        /// `nil` without TLS.
        var tls: TLS?
        var database: Int
        var username: String?
        var password: Secret?
        var delivery: QueueSettings.DeliveryMode
        var lease: Duration
        var resultsKey: String?
        var resultsMax: Int
        var deadLetterMax: Int
    }

    /// 0 is no limit.
    struct Limits: Sendable, Equatable {
        var pushesPerSecond = 0.0
        /// Of payload.
        var bitsPerSecond = 0.0
    }

    struct Logging: Sendable, Equatable {
        var successes: Bool
        var format: Log.Format
        var level: Log.Level
        /// Whether device tokens are cut and `data` is left out.
        var redacts: Bool
    }

    /// Words that must not reach a device.
    struct Filter: Sendable, Equatable {
        /// Those of the settings and of their file, never empty.
        var words: [String]
        var action: WordFilter.Action
    }

    /// One list's part.
    func queue(_ list: String) -> QueueSettings {
        QueueSettings(
            list: list, server: redis.server, database: redis.database, username: redis.username,
            password: redis.password?.text, mode: redis.delivery, lease: redis.lease, resultsKey: redis.resultsKey,
            resultsMax: redis.resultsMax, deadLetterMax: redis.deadLetterMax)
    }

    /// Every list's part, in order of priority.
    var queues: [QueueSettings] { lists.map(queue) }
}
