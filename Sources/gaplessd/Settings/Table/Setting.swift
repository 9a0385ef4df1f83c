import JSONBytes

/// One key of the settings file: its name, field, type and help. `SettingsTable` lists all.
struct Setting: Sendable {
    /// Why a value is invalid.
    struct Problem: Error {
        var text: String
        /// `nil` is what the type expects.
        var expected: String?

        static func invalid(_ value: JSONValue) -> Problem { Problem(text: "invalid value \(value.shown)") }
    }

    /// The objects of the file that may contain a key.
    enum Scope: Sendable {
        /// Only the top level.
        case daemon
        /// The top level and each of `apps`, which inherits the value of the top level.
        case app
        /// The top level and each of `apps`, without inheritance.
        case eachApp
    }

    /// The parts of a type that do not depend on its Swift type.
    struct Traits: Sendable {
        /// The words after "expected" in a fault.
        var expected: String
        /// Whether the value is never shown. `NAME_file` then names a file that contains it.
        var isSecret = false
        /// Whether the file of a secret may be empty.
        var mayBeEmpty = false
    }

    let name: String
    let help: String
    let scope: Scope
    let isRequired: Bool
    let traits: Traits
    /// The default as JSON, a string without its quotes; `nil` for a key that may be absent.
    let defaultText: String?
    /// Reads a value into its field.
    let read: @Sendable (JSONValue, SettingsFile, inout SettingsDraft) throws(Problem) -> Void
    /// Puts the default into the field.
    let reset: @Sendable (inout SettingsDraft) -> Void

    /// - Parameters:
    ///   - field: its value in a new draft is the default.
    ///   - scope: `nil` is `.app` for a key that starts with `apns_`.
    init<Value>(
        _ name: String, _ field: any WritableKeyPath<SettingsDraft, Value> & Sendable, _ type: SettingType<Value>,
        _ scope: Scope? = nil, isRequired: Bool = false, help: String
    ) {
        let fallback = SettingsDraft()[keyPath: field]
        (self.name, self.help, self.isRequired, traits) = (name, help, isRequired, type.traits)
        self.scope = scope ?? (name.hasPrefix("apns_") ? .app : .daemon)
        defaultText = isRequired ? nil : type.text(fallback)
        read = { (value, file, draft) throws(Problem) in draft[keyPath: field] = try type.read(value, file) }
        reset = { $0[keyPath: field] = fallback }
    }

    /// A key that may be absent.
    init<Value>(
        _ name: String, optional field: any WritableKeyPath<SettingsDraft, Value?> & Sendable, _ type: SettingType<Value>,
        _ scope: Scope? = nil, isRequired: Bool = false, help: String
    ) {
        let type = SettingType<Value?>(type.traits, text: { $0.flatMap(type.text) }, read: type.read)
        self.init(name, field, type, scope, isRequired: isRequired, help: help)
    }

    /// The key that names the file of a secret.
    var fileName: String? { traits.isSecret ? "\(name)_file" : nil }
}
