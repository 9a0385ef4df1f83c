import JSONBytes
import PushPool
import RedisQueue

/// The lines that `check` prints about settings, credentials and certificates.
struct CheckReport {
    let lines: [String]

    /// The readable certificates of rejected settings.
    init(_ refusal: SettingsErrors, now: Int64) {
        let blocks = refusal.certificates.map { seen in
            switch seen.owner {
            case .app(let name):
                [Self.title(name), "certificate \(seen.path.printable)"] + Self.lines(seen.facts, now: now)
            case .redis: ["redis"] + Self.redisLines(seen, now: now)
            }
        }
        lines = Array(blocks.joined(separator: [""]))
    }

    /// Valid settings.
    ///
    /// - Parameter now: Unix seconds.
    init(_ configuration: Configuration, now: Int64) {
        let settings = configuration.settings
        let redis = settings.redis
        let server = redis.server.text + (redis.tls == nil ? "" : " with TLS")
        var lines = [
            "redis       \(server), database \(redis.database), \(redis.delivery.text)"
        ]
        if let certificate = configuration.redisCertificate { lines += Self.redisLines(certificate, now: now) }
        lines += [
            "lists       \(settings.lists.map(\.printable).joined(separator: ", "))",
            "retries     \(settings.retryLimit), after \(settings.retryDelays.map(\.secondsText).joined(separator: ", ")) s",
        ]
        if let address = settings.metricsListen { lines.append("metrics     http://\(address.text)/metrics") }
        if let filter = settings.filter {
            lines.append("filter      \(filter.words.count.counted("word")), \(filter.action.rawValue)")
        }
        for app in settings.apps {
            lines += ["", Self.title(app.name)]
            lines += Self.lines(app, configuration.stateFolder, now: now)
        }
        self.lines = lines + ["", "settings: ok"]
    }

    private static func lines(_ app: Settings.App, _ tokenFolder: String?, now: Int64) -> [String] {
        var lines = [
            "server      \(HostAndPort(app.pool.host, app.pool.port).text), \(app.pool.sessionsText)",
            "credential  \(app.credential?.description.printable ?? "cannot be used")",
        ]
        if let proxy = app.pool.proxy {
            lines.append("proxy       \(proxy)\(proxy.user.map { ", user \($0.printable)" } ?? "")")
        }
        if case .signingKey = app.source {
            let place = tokenFolder.map { "kept in \($0.printable)" } ?? "kept in memory only: STATE_DIRECTORY is not set"
            lines.append("tokens      \(place)")
        }
        if let facts = app.certificate { lines += Self.lines(facts, now: now) }
        return lines + ["topic       \(app.defaultTopic?.printable ?? "set by each job")"]
    }

    private static func title(_ app: String?) -> String { "app         \(app.map(\.orQuotes.printable) ?? "(top level)")" }

    /// A certificate for Redis has no topics.
    private static func redisLines(_ certificate: SettingsErrors.Certificate, now: Int64) -> [String] {
        ["certificate \(certificate.path.printable)", subject(certificate.facts)] + dates(certificate.facts, now: now)
    }

    private static func lines(_ facts: CertificateFacts, now: Int64) -> [String] {
        let topics = facts.allTopics
        return [subject(facts), "topics      \(topics.isEmpty ? "none" : topics.joined(separator: ", ").printable)"]
            + dates(facts, now: now)
    }

    private static func subject(_ facts: CertificateFacts) -> String { "subject     \(facts.subject.printable)" }

    private static func dates(_ facts: CertificateFacts, now: Int64) -> [String] {
        var lines: [String] = []
        // Rounded up: a certificate that becomes valid within the day is not valid yet.
        if facts.notBefore > now { lines.append("begins      in \(((facts.notBefore - now + 86_399) / 86_400).counted("day"))") }
        let left = facts.daysLeft(now: now)
        if left >= 0 {
            lines.append("expires     in \(left.counted("day"))")
        } else {
            // daysLeft rounds down: half a day after expiry it is -1.
            lines.append("expired     \(left == -1 ? "less than a day" : (-left - 1).counted("day")) ago")
        }
        return lines
    }
}

extension QueueSettings.DeliveryMode {
    fileprivate var text: String {
        switch self {
        case .atLeastOnce: "at least once"
        case .atMostOnce: "at most once"
        }
    }
}

extension Duration {
    /// Seconds as `0.5` or `60`.
    fileprivate var secondsText: String {
        let seconds = self / .seconds(1)
        return seconds == seconds.rounded() ? String(Int64(seconds)) : String(seconds)
    }
}

extension PoolSettings {
    fileprivate var sessionsText: String {
        isAutomatic || mostSessions > sessions && scale != .constant
            ? "\(sessions) to \(mostSessions) sessions" : sessions.counted("session")
    }
}

/// Every setting with its value and origin, for `check --effective`. A secret is only `set` or `not set`.
struct EffectiveSettings {
    /// The place that a value comes from.
    private enum Origin {
        /// The settings file, under this key.
        case file(key: String)
        /// The top level, for a key of an app.
        case inherited
        case builtIn
        /// Another setting, or the certificate.
        case derived
        case none

        var text: String {
            switch self {
            case .file(let key): SettingsTable.byName[key] == nil ? key : "file"
            case .inherited: "inherited"
            case .builtIn: "default"
            case .derived: "derived"
            case .none: "-"
            }
        }
    }

    private struct Row {
        var app: String?
        var setting: Setting
        /// As `Setting.defaultText`; `nil` if the key has no value.
        var value: String?
        var origin: Origin

        var key: String { app.map { "apps.\($0.orQuotes).\(setting.name)" } ?? setting.name }
        private var isSet: Bool { value != nil }

        var line: String {
            let shown = setting.traits.isSecret ? (isSet ? "set" : "not set") : value ?? "not set"
            return "\(key.padded(to: 30)) \(origin.text.padded(to: 10)) \(shown)".printable
        }

        var object: JSONValue {
            let value: JSONValue =
                setting.traits.isSecret ? .string(isSet ? "set" : "not set") : self.value.map(setting.value) ?? .null
            return .members(["app": .optional(app), "key": .string(setting.name), "value": value, "origin": .string(origin.text)])
        }
    }

    private var rows: [Row] = []

    init(_ configuration: Configuration) {
        for draft in configuration.drafts {
            let name = draft.app.name
            let topic = configuration.settings.apps.first { $0.name == name }?.defaultTopic
            for setting in SettingsTable.keys where name == nil || setting.scope != .daemon {
                // The apps have rows of their own.
                if setting.traits.schema == .apps { continue }
                var (value, origin) = (setting.text(draft), Self.origin(of: setting, draft))
                if case .none = origin {
                    value = Self.derived(setting, draft, topic: topic)
                    if value != nil { origin = .derived }
                }
                rows.append(Row(app: name, setting: setting, value: value, origin: origin))
            }
        }
    }

    private static func origin(of setting: Setting, _ draft: SettingsDraft) -> Origin {
        guard let key = draft.given[setting.name] else {
            if setting.text(draft) == nil || isUnused(setting, draft) { return .none }
            return isPartOfURL(setting, draft) ? .derived : .builtIn
        }
        return draft.own.contains(setting.name) ? .file(key: key) : .inherited
    }

    /// Whether another key locates Redis.
    private static func isUnused(_ setting: Setting, _ draft: SettingsDraft) -> Bool {
        ["redis_host", "redis_port"].contains(setting.name)
            && draft.firstGiven(["redis_sentinels", "redis_url", "redis_netaddress", "redis_socket_path"]) != nil
    }

    /// Whether the value comes from `redis_url`.
    private static func isPartOfURL(_ setting: Setting, _ draft: SettingsDraft) -> Bool {
        guard let url = draft.redis.url else { return false }
        return switch setting.name {
        case "redis_db": url.database != nil
        case "redis_username", "redis_password": url.password != nil
        case "redis_tls": url.usesTLS
        default: false
        }
    }

    private static func derived(_ setting: Setting, _ draft: SettingsDraft, topic: String?) -> String? {
        switch setting.name {
        case "pool_max_size":
            switch draft.poolSize {
            case .fixed(let count): "\(count)"
            case .automatic: "\(PoolSettings.mostAutomaticSessions)"
            }
        case "apns_topic": topic
        case "apns_management_server": draft.server.map { APNSServer.management(of: $0.address).text }
        case "redis_host": if case .tcp(let host, _) = draft.redis.address { host } else { nil }
        case "redis_port": if case .tcp(_, let port) = draft.redis.address { "\(port)" } else { nil }
        default: nil
        }
    }

    var lines: [String] { rows.map(\.line) }

    /// One object for each setting.
    var json: JSONValue { .array(rows.map(\.object)) }
}

extension Setting {
    /// Returns the JSON value of its text.
    func value(_ text: String) -> JSONValue {
        if traits.schema.isText { return .string(text) }
        return (try? JSONValue.parse(Array(text.utf8))) ?? .string(text)
    }
}
