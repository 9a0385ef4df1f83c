import JSONBytes
import PushPool

extension Settings {
    /// Settings, and what the operator should know about them though nothing is wrong.
    struct Reading: Sendable, Equatable {
        var settings: Settings
        var warnings: [SettingsError]
    }

    /// Reads a settings file and the secrets that it names, or says everything that is wrong with them.
    static func read(_ file: SettingsFile) throws(SettingsErrors) -> Reading {
        let members = try file.members()
        var reader = SettingsReader(file: file)
        let settings = reader.settings(members)
        guard reader.faults.isEmpty, let settings else {
            throw SettingsErrors(
                file: file.path, faults: reader.faults, soundApps: reader.soundApps, looseFiles: reader.looseFiles)
        }
        return Reading(settings: settings, warnings: reader.warnings)
    }

    /// Every key with its default, in the order of the README's table.
    static let knownKeys: [(name: String, defaultText: String?)] = SettingsTable.keys.map { ($0.name, $0.defaultText) }
}

/// Turns a settings file into `Settings`, and collects every fault on the way.
struct SettingsReader {
    let file: SettingsFile
    private(set) var faults: [SettingsError] = []
    private(set) var warnings: [SettingsError] = []
    private(set) var soundApps: [Settings.App] = []
    private(set) var looseFiles: [Settings.LooseFiles] = []

    init(file: SettingsFile) { self.file = file }

    mutating func fault(_ key: String, _ problem: String, _ remedy: String) {
        faults.append(SettingsError(key: key, problem: problem, remedy: remedy))
    }

    mutating func warn(_ key: String, _ problem: String, _ remedy: String) {
        warnings.append(SettingsError(key: key, problem: problem, remedy: remedy))
    }

    /// Files of an app with a fault, for who looks at them by themselves.
    mutating func leave(_ files: Settings.LooseFiles) { looseFiles.append(files) }

    /// `nil` only where faults were found.
    mutating func settings(_ members: [JSONMember]) -> Settings? {
        let top = scope(members, prefix: "")
        soundApps = apps(top: top)
        for key in SettingsTable.keys where key.isRequired && !key.isPerApp && !top.present.contains(key.name) {
            fault(key.name, "is missing", key.kind.words)
        }
        checkGovernor(top)
        let redis = redis(top)
        let filter = filter(top)
        guard faults.isEmpty, let format = Log.Format(rawValue: top.text("log_format") ?? ""),
            let level = Log.Level(name: top.text("log_level") ?? "")
        else { return nil }
        return Settings(
            apps: soundApps, lists: top.names("redis_queue_key"), redis: redis, retryLimit: top.integer("retry_limit"),
            retryDelays: top.delays("retry_delays"),
            limits: Settings.Limits(pushesPerSecond: top.fraction("max_rate"), bitsPerSecond: top.fraction("max_bandwidth")),
            log: Settings.Logging(
                successes: top.flag("log_successes"), format: format, level: level, redacts: top.flag("log_redact")),
            drainTimeout: top.seconds("drain_timeout"),
            metricsListen: top.text("metrics_listen").flatMap(HostAndPort.init(listening:)), filter: filter)
    }
}
