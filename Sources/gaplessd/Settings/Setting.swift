import JSONBytes

/// One key of the settings file: its name, field, type and help. `SettingsTable` lists all.
struct Setting: Sendable {
    /// The objects of the file that may contain a key.
    enum Scope: Sendable {
        /// Only the top level.
        case daemon
        /// The top level and each of `apps`, which inherits the value of the top level.
        case app
        /// The top level and each of `apps`, without inheritance: a part of the credential, or a limit of all apps and of one.
        case eachApp
    }

    let name: String
    let help: String
    let scope: Scope
    let isRequired: Bool
    let traits: SettingTraits
    /// The default as JSON, a string without its quotes; `nil` for a key that may be absent.
    let defaultText: String?
    /// Reads a value into its field.
    let read: @Sendable (JSONValue, SettingsFile, inout SettingsDraft) throws(SettingError) -> Void
    /// Returns the value of the field as `defaultText` has it. Reveals a secret.
    let text: @Sendable (SettingsDraft) -> String?
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
        read = { (value, file, draft) throws(SettingError) in draft[keyPath: field] = try type.read(value, file) }
        text = { type.text($0[keyPath: field]) }
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

    /// The key that names the environment variable of a secret.
    var variableName: String? { traits.isSecret ? "\(name)_env" : nil }

    /// The keys that give its value. A file has one of them.
    var names: [String] { [name, fileName, variableName].compactMap(\.self) }
}

/// The parts of a type that do not depend on its Swift type.
struct SettingTraits: Sendable {
    /// The words after "expected" in a fault.
    var expected: String
    var schema = SettingSchema.text
    /// Whether the value is never shown. `NAME_file` then names a file that contains it, and `NAME_env` an environment variable.
    var isSecret = false
    /// Whether the file of a secret may be empty.
    var mayBeEmpty = false
    /// Whether the value is a path, in which environment variables are expanded.
    var isPath = false
    /// Whether the value is the path of a file that is read.
    var namesFile = false
}

/// The JSON values that a setting accepts, as far as JSON Schema can say it.
indirect enum SettingSchema: Sendable, Equatable {
    /// Any string but an empty one.
    case text
    /// A string that may be empty.
    case anyText
    /// A string that matches a regular expression of ECMA-262.
    case pattern(String)
    case choice([String])
    case flag
    case integer(ClosedRange<Int>)
    case number(ClosedRange<Double>)
    case zero
    case array(SettingSchema, isEmptyAllowed: Bool, isUnique: Bool)
    /// The object of `apps`.
    case apps
    /// The object of `relay_headers`.
    case headers
    /// The object of `channels`.
    case channels
    /// The array of `retry_rules`.
    case rules
    /// The array of `filter_match`.
    case matches
    case any([SettingSchema])

    /// Whether every value is a string.
    var isText: Bool {
        switch self {
        case .text, .anyText, .pattern, .choice: true
        case .flag, .integer, .number, .zero, .array, .apps, .headers, .channels, .rules, .matches: false
        case .any(let schemas): schemas.allSatisfy(\.isText)
        }
    }
}
