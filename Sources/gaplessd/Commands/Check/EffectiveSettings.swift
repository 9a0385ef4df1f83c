import JSONBytes
import PushPool
import RedisQueue

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
            case .file(let key): key.hasSuffix("_file") ? key : "file"
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
            return setting.text(draft) == nil || isUnused(setting, draft) ? .none : .builtIn
        }
        return draft.own.contains(setting.name) ? .file(key: key) : .inherited
    }

    /// Whether another key locates Redis.
    private static func isUnused(_ setting: Setting, _ draft: SettingsDraft) -> Bool {
        ["redis_host", "redis_port"].contains(setting.name)
            && draft.firstGiven(["redis_sentinels", "redis_netaddress", "redis_socket_path"]) != nil
    }

    private static func derived(_ setting: Setting, _ draft: SettingsDraft, topic: String?) -> String? {
        switch setting.name {
        case "pool_max_size":
            switch draft.poolSize {
            case .fixed(let count): "\(count)"
            case .automatic: "\(PoolSettings.mostAutomaticSessions)"
            }
        case "apns_topic": topic
        case "redis_host": if case .tcp(let host, _) = draft.redis.netAddress { host } else { nil }
        case "redis_port": if case .tcp(_, let port) = draft.redis.netAddress { "\(port)" } else { nil }
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
