/// Every key of the settings file, in the order of the README's table.
enum SettingsTable {
    static let keys: [SettingsKey] = apns + pool + retries + redis + watching

    static let byName = Dictionary(uniqueKeysWithValues: keys.map { ($0.name, $0) })

    /// The keys that name the file of a secret: `redis_password_file` for `redis_password`.
    static let secretFiles = Dictionary(
        uniqueKeysWithValues: keys.filter(\.isSecret).map { ($0.fileName, $0) })

    /// Seconds: a millisecond is the least that can be meant, an hour more than anybody waits.
    private static let wait = 0.001...3600.0

    private static let apns: [SettingsKey] = [
        SettingsKey("apns_server", .apnsServer, isRequired: true),
        SettingsKey("apns_cert_path", .path),
        SettingsKey("apns_key_path", .path),
        SettingsKey("apns_key_password", .secret),
        SettingsKey("apns_p12_path", .path),
        SettingsKey("apns_p12_password", .secret),
        SettingsKey("apns_auth_key_path", .path),
        SettingsKey("apns_auth_key_id", .appleID),
        SettingsKey("apns_team_id", .appleID),
        SettingsKey("apns_topic", .word),
        SettingsKey("apps", .apps),
        SettingsKey("apns_ca_path", .path),
        SettingsKey("apns_proxy", .proxy),
        SettingsKey("apns_dial_timeout", .seconds(wait), default: "10"),
        SettingsKey("apns_dial_backoff_min", .seconds(wait), default: "0.5"),
        SettingsKey("apns_dial_backoff_max", .seconds(wait), default: "60"),
        SettingsKey("apns_dial_backoff_jitter", .fraction(0...1), default: "0.2"),
        SettingsKey("apns_request_timeout", .seconds(wait), default: "15"),
        SettingsKey("apns_keepalive", .seconds(wait), default: "60"),
        SettingsKey("apns_max_concurrent_streams", .integer(1...100_000), default: "1000"),
    ]

    private static let pool: [SettingsKey] = [
        SettingsKey("pool_size", .integer(1...100), default: "2"),
        SettingsKey("pool_max_size", .integer(1...100)),
        SettingsKey("pool_scale", .poolScale, default: "\"incremental:1\""),
        SettingsKey("pool_poll_interval", .seconds(wait), default: "0.2"),
        SettingsKey("pool_min_sustain", .seconds(wait), default: "2"),
        SettingsKey("pool_settle_period", .seconds(wait), default: "5"),
        SettingsKey("max_rate", .limit(0.001...1e9), default: "0"),
        SettingsKey("max_bandwidth", .limit(1...1e12), default: "0"),
    ]

    private static let retries: [SettingsKey] = [
        SettingsKey("retry_limit", .integer(0...1000), default: "3"),
        SettingsKey("retry_delays", .delays(0...2_592_000), default: "[1, 60, 900]"),
    ]

    private static let redis: [SettingsKey] = [
        SettingsKey("redis_queue_key", .names, isRequired: true),
        SettingsKey("redis_lease", .seconds(1...3600), default: "15"),
        SettingsKey("redis_host", .host, default: "\"127.0.0.1\""),
        SettingsKey("redis_port", .integer(1...65535), default: "6379"),
        SettingsKey("redis_db", .integer(0...Int(Int32.max)), default: "0"),
        SettingsKey("redis_socket_path", .path),
        SettingsKey("redis_netaddress", .netAddress),
        SettingsKey("redis_username", .text),
        SettingsKey("redis_password", .secret),
        SettingsKey("redis_tls", .flag, default: "false"),
        SettingsKey("redis_ca_path", .path),
        SettingsKey("redis_cert_path", .path),
        SettingsKey("redis_key_path", .path),
        SettingsKey("redis_sentinels", .addresses),
        SettingsKey("redis_sentinel_master", .text),
        SettingsKey("redis_delivery", .choice(["at_least_once", "at_most_once"]), default: "\"at_least_once\""),
        SettingsKey("redis_results_key", .text),
        SettingsKey("redis_results_max", .integer(1...1_000_000_000_000), default: "1000000"),
        SettingsKey("redis_dead_letter_max", .integer(0...1_000_000_000_000), default: "0"),
    ]

    private static let watching: [SettingsKey] = [
        SettingsKey("log_successes", .flag, default: "false"),
        SettingsKey("log_format", .choice(["text", "json", "journal"]), default: "\"text\""),
        SettingsKey("log_level", .choice(["debug", "info", "warning", "error"]), default: "\"info\""),
        SettingsKey("log_redact", .flag, default: "false"),
        SettingsKey("metrics_listen", .listenAddress, default: "\"off\""),
        SettingsKey("drain_timeout", .seconds(0...3600), default: "20"),
        SettingsKey("filter_words", .words),
        SettingsKey("filter_words_path", .path),
        SettingsKey("filter_action", .choice(["drop", "mask"]), default: "\"drop\""),
    ]
}
