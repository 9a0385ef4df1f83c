import JSONBytes
import PushPool
import RedisQueue

extension Settings {
    /// Settings, and what the operator should know about them though nothing is wrong.
    struct Reading: Sendable, Equatable {
        var settings: Settings
        var warnings: [SettingsFault]
    }

    /// Reads a settings file and the secrets that it names, or says everything that is wrong with them.
    static func read(_ file: SettingsFile) throws(SettingsRefusal) -> Reading {
        let members = try file.members()
        var reader = SettingsReader(file: file)
        let settings = reader.settings(members)
        guard reader.faults.isEmpty, let settings else {
            throw SettingsRefusal(file: file.path, faults: reader.faults, soundApps: reader.soundApps)
        }
        return Reading(settings: settings, warnings: reader.warnings)
    }

    /// Every key with its default, in the order of the README's table.
    static let knownKeys: [(name: String, defaultText: String?)] = SettingsTable.keys.map { ($0.name, $0.defaultText) }
}

/// Turns a settings file into `Settings`, and collects every fault on the way.
struct SettingsReader {
    let file: SettingsFile
    private(set) var faults: [SettingsFault] = []
    private(set) var warnings: [SettingsFault] = []
    private(set) var soundApps: [Settings.App] = []

    init(file: SettingsFile) { self.file = file }

    mutating func fault(_ key: String, _ problem: String, _ remedy: String) {
        faults.append(SettingsFault(key: key, problem: problem, remedy: remedy))
    }

    mutating func warn(_ key: String, _ problem: String, _ remedy: String) {
        warnings.append(SettingsFault(key: key, problem: problem, remedy: remedy))
    }

    /// `nil` only where faults were found.
    mutating func settings(_ members: [JSONMember]) -> Settings? {
        let top = scope(members, prefix: "")
        soundApps = apps(members, top: top)
        for key in SettingsTable.keys where key.isRequired && !key.isPerApp && !top.present.contains(key.name) {
            fault(key.name, "is missing", key.kind.words)
        }
        let redis = redis(top)
        guard faults.isEmpty, let format = Log.Format(rawValue: top.text("log_format") ?? ""),
            let level = Log.Level(name: top.text("log_level") ?? "")
        else { return nil }
        return Settings(
            apps: soundApps, lists: top.names("redis_queue_key"), redis: redis, retryLimit: top.integer("retry_limit"),
            retryDelays: top.delays("retry_delays"),
            log: Settings.Logging(
                successes: top.flag("log_successes"), format: format, level: level, redacts: top.flag("log_redact")),
            drainTimeout: top.seconds("drain_timeout"))
    }

    private mutating func redis(_ top: SettingsScope) -> Settings.Redis {
        if top.present.contains("redis_username"), top.secret("redis_password") == nil,
            !top.present.contains("redis_password"), !top.present.contains("redis_password_file")
        {
            fault("redis_username", "is given without redis_password", "both, or the password alone, would be right")
        }
        if top.secret("redis_password")?.text.isEmpty == true {
            fault("redis_password", "is an empty string", "leave it out where Redis asks for none")
        }
        return Settings.Redis(
            server: redisServer(top), database: top.integer("redis_db"), username: top.text("redis_username"),
            password: top.secret("redis_password"),
            delivery: top.text("redis_delivery") == "at_most_once" ? .atMostOnce : .atLeastOnce,
            lease: top.seconds("redis_lease"), resultsKey: top.text("redis_results_key"),
            resultsMax: top.integer("redis_results_max"), deadLetterMax: top.integer("redis_dead_letter_max"))
    }

    /// One way to say where Redis is, not two that may differ.
    private mutating func redisServer(_ top: SettingsScope) -> QueueSettings.Server {
        let ways = [["redis_netaddress"], ["redis_socket_path"], ["redis_host", "redis_port"]]
            .compactMap { $0.first(where: top.present.contains) }
        if let first = ways.first, ways.count > 1 {
            let others = ways.dropFirst().joined(separator: " and ")
            fault(first, "is given beside \(others)", "one way to say where Redis is would be right")
        }
        if let address = top.text("redis_netaddress"), let server = QueueSettings.Server(netAddress: address) {
            guard case .unix(let path) = server else { return server }
            return unixServer(path, "redis_netaddress")
        }
        if let path = top.text("redis_socket_path") { return unixServer(path, "redis_socket_path") }
        return .tcp(host: top.text("redis_host") ?? "", port: top.integer("redis_port"))
    }

    private mutating func unixServer(_ path: String, _ key: String) -> QueueSettings.Server {
        // What sockaddr_un holds (unix(7)): 108 bytes with the NUL at the end.
        if path.utf8.count > 107 {
            fault(key, "names a socket whose path has \(path.utf8.count) bytes", "at most 107 would be right")
        }
        return .unix(path: path)
    }
}
