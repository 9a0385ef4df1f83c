import JSONBytes
import PushPool
import RedisQueue

/// Every key of the settings file, in the order of docs/settings.md. The default of a key is the value of its field in a new
/// `SettingsDraft`.
enum SettingsTable {
    static let keys: [Setting] = apns + sessions + pool + retries + redis + redisOptions + monitoring + filter + channels

    static let byName = Dictionary(uniqueKeysWithValues: keys.map { ($0.name, $0) })

    /// By every name that a file may have for them: `redis_password_file` and `redis_password_env` give `redis_password`, too.
    static let byAnyName = Dictionary(uniqueKeysWithValues: keys.flatMap { key in key.names.map { ($0, key) } })

    /// Seconds.
    private static let wait = 0.001...3600.0
    private static let count = 1_000_000_000_000

    private static let apns: [Setting] = [
        Setting(
            "apns_server", optional: \.server, .apnsServer, isRequired: true,
            help: "APNs server of the app: production, sandbox, host:port or an https URL of a host."),
        Setting(
            "apns_cert_path", optional: \.app.keys.certificatePath, .path, .eachApp, help: "PEM file of the client certificate."
        ),
        Setting(
            "apns_key_path", optional: \.app.keys.keyPath, .path, .eachApp,
            help: "PEM file of the private key of the certificate."),
        Setting(
            "apns_key_password", optional: \.app.keys.keyPassword, .secret(mayBeEmpty: true), .eachApp,
            help: "Password of an encrypted private key."),
        Setting(
            "apns_p12_path", optional: \.app.keys.pkcs12Path, .path, .eachApp,
            help: "PKCS#12 file of the certificate and its key."),
        Setting(
            "apns_p12_password", optional: \.app.keys.pkcs12Password, .secret(mayBeEmpty: true), .eachApp,
            help: "Password of the PKCS#12 file."),
        Setting(
            "apns_auth_key_path", optional: \.app.keys.signingKeyPath, .path, .eachApp,
            help: "File of the provider signing key (.p8)."),
        Setting("apns_auth_key_id", optional: \.app.keys.keyID, .appleID, .eachApp, help: "Identifier of the signing key."),
        Setting("apns_team_id", optional: \.app.keys.teamID, .appleID, .eachApp, help: "Identifier of the developer team."),
        Setting("apns_topic", optional: \.app.topic, .word, .eachApp, help: "Topic of jobs that name none."),
        Setting(
            "apns_management_server", optional: \.management, .address,
            help: "Server of the channel management API, host:port. Default: Apple's, or apns_server if that is not Apple's."),
        Setting("apps", optional: \.apps, .apps, help: "Additional apps, each an object of apns_* keys."),
        Setting(
            "apps_dir", optional: \.settings.appsFolder, .folder,
            help: "Folder with one file NAME.json per app, which is watched."),
        Setting(
            "apps_idle_timeout", \.settings.appsIdleTimeout, .limit(0.1...31_536_000),
            help: "Seconds without a job after which an app has no sessions; 0 keeps them open."),
    ]

    private static let sessions: [Setting] = [
        Setting(
            "apns_ca_path", optional: \.app.pool.extraRootsPath, .path,
            help: "PEM bundle that is trusted in addition to the system's roots."),
        Setting("apns_proxy", optional: \.app.pool.proxy, .proxy, help: "HTTP proxy for connections to APNs."),
        Setting(
            "apns_dial_timeout", \.app.pool.dialTimeout, .seconds(wait),
            help: "Seconds for TCP, TLS and SETTINGS of a new session."),
        Setting(
            "apns_dial_backoff_min", \.app.pool.dialBackoff.first, .seconds(wait),
            help: "Seconds to wait after the first failed dial."),
        Setting(
            "apns_dial_backoff_max", \.app.pool.dialBackoff.most, .seconds(wait),
            help: "Most seconds to wait between two dials."),
        Setting(
            "apns_dial_backoff_jitter", \.app.pool.dialBackoff.jitter, .number(0...1),
            help: "Random change of a wait between dials, as a fraction of it: 0.2 gives 80 to 120 %."),
        Setting(
            "apns_request_timeout", \.app.pool.requestTimeout, .seconds(wait),
            help: "Seconds that a request may wait for its response."),
        Setting("apns_keepalive", \.app.pool.keepAlive, .seconds(wait), help: "Seconds of silence of a session before a PING."),
        Setting(
            "apns_max_concurrent_streams", \.app.pool.maxConcurrentStreams, .integer(1...100_000),
            help: "Most open streams per session; a lower limit of the server takes precedence."),
    ]

    private static let pool: [Setting] = [
        Setting("pool_size", \.poolSize, .poolSize(1...100), help: "Sessions kept open per app, or \"auto\"."),
        Setting("pool_max_size", optional: \.mostSessions, .integer(1...100), help: "Most sessions per app under load."),
        Setting(
            "pool_scale", \.app.pool.scale, .poolScale,
            help: "Step of the number of sessions: constant, incremental:N or exponential:F."),
        Setting("pool_poll_interval", \.app.pool.pollInterval, .seconds(wait), help: "Seconds between two checks of the load."),
        Setting(
            "pool_min_sustain", \.app.pool.minSustain, .seconds(wait),
            help: "Seconds that a high or low load must last before the number of sessions changes."),
        Setting(
            "pool_settle_period", \.app.pool.settlePeriod, .seconds(wait),
            help: "Least seconds between two changes of the number of sessions."),
        Setting(
            "max_rate", \.app.maxRate, .limit(0.001...1e9), .eachApp,
            help: "Most pushes per second, of all apps together or of one of apps; 0 is no limit."),
        Setting(
            "max_bandwidth", \.settings.limits.bitsPerSecond, .limit(1...1e12),
            help: "Most payload bits per second; 0 is no limit."),
        Setting(
            "max_rate_fleet", \.settings.fleetLimits.pushesPerSecond, .limit(0.001...1e9),
            help: "Most pushes per second of all daemons of the list together; 0 is no limit."),
        Setting(
            "max_bandwidth_fleet", \.settings.fleetLimits.bitsPerSecond, .limit(1...1e12),
            help: "Most payload bits per second of all daemons of the list together; 0 is no limit."),
    ]

    private static let retries: [Setting] = [
        Setting("retry_limit", \.settings.retryLimit, .integer(0...1000), help: "Number of resends after the first attempt."),
        Setting(
            "retry_delays", \.settings.retryDelays, .delays(SettingsReader.delays),
            help: "Seconds before the first, second, third resend; the last entry repeats."),
        Setting(
            "channel_pace", \.settings.channelPace, .channelPace(0...3600),
            help: "Seconds between two updates of a channel, or \"auto\": as APNs' responses of 429 require."),
        Setting(
            "retry_rules", \.retryRules, .entries("retry rules", .rules),
            help: "Decisions about rejected responses that precede the built-in ones."),
    ]

    private static let redis: [Setting] = [
        Setting(
            "redis_queue_key", \.settings.lists, .names, isRequired: true, help: "List of jobs, or lists in order of priority."),
        Setting(
            "redis_lease", \.settings.redis.lease, .seconds(1...3600),
            help: "Seconds of silence of a worker after which others take over its jobs."),
        Setting("redis_host", \.redis.host, .host, help: "Host of Redis."),
        Setting("redis_port", \.redis.port, .integer(1...65535), help: "Port of Redis."),
        Setting("redis_db", \.settings.redis.database, .integer(0...Int(Int32.max)), help: "Database number."),
        Setting("redis_socket_path", optional: \.redis.socketPath, .socketPath, help: "Unix socket of Redis."),
        Setting(
            "redis_netaddress", optional: \.redis.netAddress, .netAddress,
            help: "Address of Redis in one string, such as unix:/path."),
        Setting(
            "redis_url", optional: \.redis.url, .redisURL,
            help: "Address, user, password and database of Redis in one URL; rediss:// is TLS."),
        Setting("redis_username", optional: \.settings.redis.username, .text, help: "ACL user of Redis."),
        Setting("redis_password", optional: \.settings.redis.password, .secret(mayBeEmpty: false), help: "Password of Redis."),
    ]

    private static let redisOptions: [Setting] = [
        Setting("redis_tls", \.redis.usesTLS, .flag, help: "Whether connections to Redis use TLS."),
        Setting(
            "redis_ca_path", optional: \.redis.tls.rootsPath, .path,
            help: "PEM bundle that is trusted instead of the system's roots."),
        Setting("redis_cert_path", optional: \.redis.tls.certificatePath, .path, help: "PEM file of the certificate for Redis."),
        Setting("redis_key_path", optional: \.redis.tls.keyPath, .path, help: "PEM file of the key for Redis."),
        Setting(
            "redis_tls_name", optional: \.redis.tls.name, .tlsName,
            help: "Name in the certificate of Redis, if it is not the host."),
        Setting("redis_sentinels", optional: \.redis.sentinels, .addresses, help: "Addresses (host:port) of the Sentinels."),
        Setting("redis_sentinel_master", optional: \.redis.master, .text, help: "Name of the master that Sentinels report."),
        Setting(
            "redis_sentinel_username", optional: \.settings.redis.sentinelUsername, .text, help: "ACL user of the Sentinels."),
        Setting(
            "redis_sentinel_password", optional: \.settings.redis.sentinelPassword, .secret(mayBeEmpty: false),
            help: "Password of the Sentinels, if it is not that of Redis."),
        Setting(
            "redis_delivery", \.settings.redis.delivery, .choice(["at_least_once": .atLeastOnce, "at_most_once": .atMostOnce]),
            help: "Whether a crash may lose jobs: with at_most_once it loses those that were popped."),
        Setting("redis_results_key", optional: \.settings.redis.resultsKey, .text, help: "Stream of final outcomes."),
        Setting(
            "redis_results_max", \.settings.redis.resultsMax, .integer(1...count),
            help: "Most entries in the stream of final outcomes."),
        Setting(
            "redis_dead_letter_max", \.settings.redis.deadLetterMax, .integer(0...count),
            help: "Most dead letters that are kept; 0 is no limit."),
        Setting(
            "redis_feedback_max", \.settings.redis.feedbackMax, .integer(0...count),
            help: "Most feedback entries that are kept; 0 is no limit."),
    ]

    private static let monitoring: [Setting] = [
        Setting(
            "log_successes", \.settings.log.successes, .share,
            help: "Share of the delivered pushes that is logged: false, true or a number from 0 to 1."),
        Setting(
            "log_format", \.settings.log.format, .choice(["text": .text, "json": .json, "journal": .journal]),
            help: "Format of log lines."),
        Setting(
            "log_level", \.settings.log.level, .choice(["debug": .debug, "info": .info, "warning": .warning, "error": .error]),
            help: "Least severity that is logged."),
        Setting("log_redact", \.settings.log.redacts, .flag, help: "Whether device tokens are truncated and data is omitted."),
        Setting(
            "metrics_listen", \.settings.metricsListen, .listenAddress,
            help: "Address (host:port) of the metrics and the status page, or off."),
        Setting(
            "metrics_hosts", \.settings.metricsHosts, .hosts,
            help: "Further names that the Host header of a request to metrics_listen may contain."),
        Setting(
            "watch_files", \.settings.watchesFiles, .flag,
            help: "Whether a replaced settings, credential or word file is read without SIGHUP."),
        Setting("relay_url", optional: \.settings.relay.url, .relayURL, help: "URL to which 'gaplessd relay' posts results."),
        Setting(
            "relay_secret", optional: \.settings.relay.secret, .secret(mayBeEmpty: false),
            help: "Key of the HMAC-SHA256 signature of posted results."),
        Setting(
            "relay_headers", optional: \.settings.relay.headers, .relayHeaders,
            help: "Additional headers of a request with results, name to value."),
        Setting(
            "campaign_share", \.settings.campaignShare, .number(0...1),
            help: "Least share of the claimed pushes that campaigns get while the list has jobs."),
        Setting(
            "drain_timeout", \.settings.drainTimeout, .seconds(0...3600),
            help: "Seconds that a stop waits for the requests in flight."),
    ]

    private static let channels: [Setting] = [
        Setting(
            "channels", \.settings.channels, .channels,
            help: "Broadcast channels by patterns of their names: storage, create, delete_after_end.")
    ]

    private static let filter: [Setting] = [
        Setting("filter_words", optional: \.filter.words, .words, help: "Words that must not reach a device."),
        Setting(
            "filter_words_path", optional: \.filter.path, .path, help: "File of words that must not reach a device, one per line."
        ),
        Setting(
            "filter_action", \.filter.action, .choice(["drop": .drop, "mask": .mask]),
            help: "Action for a job with a word that must not reach a device: drop or mask."),
        Setting(
            "filter_match", \.filterMatches, .entries("a path and its values", .matches),
            help: "Values at paths of the payload that must not reach a device."),
    ]
}

/// The values of one object of the settings file, the top level or one of `apps`. An absent or invalid key has its default.
struct SettingsDraft: Sendable {
    /// The keys that locate Redis.
    struct RedisLocation: Sendable {
        var host = "127.0.0.1"
        var port = 6379
        var socketPath: String?
        var netAddress: QueueSettings.Server?
        var url: RedisURL?
        var sentinels: [HostAndPort]?
        var master: String?
        var usesTLS = false
        var tls = RedisTLS()

        /// The address that one key names.
        var address: QueueSettings.Server? { url?.server ?? netAddress }
    }

    /// The keys of the word filter.
    struct FilterKeys: Sendable {
        var words: [String]?
        var path: String?
        var action = WordFilter.Action.drop
    }

    /// The keys of this object and the inherited ones, valid or not. `NAME_file` and `NAME_env` stand under `NAME`.
    var given: [String: String] = [:]
    /// The keys of this object.
    var own: Set<String> = []
    /// The keys whose value is invalid.
    var invalid: Set<String> = []

    // Keys of an app.
    var app = Settings.App()
    var server: APNSServer?
    var management: HostAndPort?
    var poolSize = PoolSize.fixed(PoolSettings.usualSessions)
    var mostSessions: Int?

    // Keys of the daemon. A value that needs no further check has its field in `settings`.
    var settings = Settings()
    var apps: [JSONMember]?
    var redis = RedisLocation()
    var filter = FilterKeys()
    /// The entries of `retry_rules` and `filter_match`, which are checked one by one.
    var retryRules: [JSONValue] = []
    var filterMatches: [JSONValue] = []

    /// The values that an app inherits from this object, the top level.
    var heritage: SettingsDraft {
        var start = self
        (start.own, start.app.faults) = ([], [])
        for key in SettingsTable.keys where key.scope == .eachApp {
            key.reset(&start)
            start.given[key.name] = nil
            start.invalid.remove(key.name)
        }
        // The files of the top level's own credential.
        start.app.files = Set([app.pool.extraRootsPath].compactMap(\.self))
        return start
    }

    /// Returns the first of the keys that this object has or inherits, as the file names it.
    func firstGiven(_ names: [String]) -> String? { names.lazy.compactMap { given[$0] }.first }
}
