import JSONBytes

/// One key of the settings file: its name, what may stand there, and its default.
struct SettingsKey: Sendable, Equatable {
    /// What may stand at a key. Bounds are inclusive.
    enum Kind: Sendable, Equatable {
        /// Becomes a header or a name: printable ASCII without spaces.
        case word
        /// A name or an address without a port; an IPv6 address may stand in brackets.
        case host
        /// Any string but an empty one.
        case text
        /// A file. `${NAME}` is expanded, and a relative path starts from the settings file's folder.
        case path
        /// Never shown. Beside it, `NAME_file` names a file that holds it.
        case secret
        /// What Apple gives to keys and teams: ten letters or digits.
        case appleID
        /// `production`, `sandbox` or `host:port`.
        case apnsServer
        /// `http://[user:pass@]host:port`. There may be a password in it, so it is a secret, too.
        case proxy
        /// `constant`, `incremental:N` or `exponential:F`.
        case poolScale
        /// `host:port`, `tcp:host:port` or `unix:/path`.
        case netAddress
        /// `off`, or `host:port`; port 0 is any free one.
        case listenAddress
        case integer(ClosedRange<Int>)
        case fraction(ClosedRange<Double>)
        /// As `fraction`, or 0 for none.
        case limit(ClosedRange<Double>)
        case seconds(ClosedRange<Double>)
        /// As `seconds`, an array of them with at least one.
        case delays(ClosedRange<Double>)
        case flag
        case choice([String])
        /// A string, or an array of different ones.
        case names
        /// A string, or an array of strings; none of them is empty, and there may be none.
        case words
        /// An array of different `host:port`.
        case addresses
        /// App name to object of `apns_*` keys.
        case apps
    }

    let name: String
    let kind: Kind
    /// As JSON; `nil` where leaving the key out is a state of its own.
    let fallback: String?
    let isRequired: Bool

    init(_ name: String, _ kind: Kind, default fallback: String? = nil, isRequired: Bool = false) {
        self.name = name
        self.kind = kind
        self.fallback = fallback
        self.isRequired = isRequired
    }

    /// Whether it is never shown, and may stand in a file of its own.
    var isSecret: Bool { kind == .secret || kind == .proxy }

    /// A PKCS#12 file may well have the empty password; elsewhere an empty file is one that nobody has filled.
    var mayBeEmpty: Bool { name == "apns_p12_password" }

    /// The key that names the file of this secret.
    var fileName: String { "\(name)_file" }

    /// Whether each of `apps` may have its own.
    var isPerApp: Bool { name.hasPrefix("apns_") }

    /// Whether an app that leaves it out gets that of the top level.
    var isInherited: Bool { isPerApp && !Self.credentialNames.contains(name) && name != "apns_topic" }

    /// The default as a page for people has it: a string without its quotes.
    var defaultText: String? {
        guard let fallback else { return nil }
        return fallbackValue?.stringValue ?? fallback
    }

    var fallbackValue: JSONValue? {
        guard let fallback else { return nil }
        return try? JSONValue.parse(Array(fallback.utf8))
    }

    static let credentialNames: Set<String> = [
        "apns_cert_path", "apns_key_path", "apns_key_password", "apns_p12_path", "apns_p12_password",
        "apns_auth_key_path", "apns_auth_key_id", "apns_team_id",
    ]
}

extension SettingsKey.Kind {
    /// What would be right, as the second half of a fault.
    var words: String {
        switch self {
        case .word: "a string of printable ASCII without spaces would be right"
        case .host: "a host's name or address alone, such as \"127.0.0.1\", would be right"
        case .text: "a string would be right"
        case .path: "the path of a file, as a string, would be right"
        case .secret: "a string would be right"
        case .appleID: "the 10 letters and digits that Apple shows for it would be right"
        case .apnsServer: "\"production\", \"sandbox\" or \"host:port\" would be right"
        case .proxy: "\"http://host:port\" or \"http://user:password@host:port\" would be right"
        case .poolScale:
            "\"constant\", \"incremental:N\" with N from 1 to 100, or \"exponential:F\" with F above 1, up to 100, would be right"
        case .netAddress: "\"host:port\", \"tcp:host:port\" or \"unix:/path\" would be right"
        case .listenAddress: "\"host:port\", such as \"127.0.0.1:9464\", or \"off\" would be right"
        case .integer(let range): "an integer from \(range.lowerBound) to \(range.upperBound) would be right"
        case .fraction(let range): "a number from \(range.lowerBound.short) to \(range.upperBound.short) would be right"
        case .limit(let range):
            "a number from \(range.lowerBound.short) to \(range.upperBound.short), or 0 for no limit, would be right"
        case .seconds(let range):
            "a number of seconds from \(range.lowerBound.short) to \(range.upperBound.short) would be right"
        case .delays(let range):
            "an array of at least one number of seconds, each from \(range.lowerBound.short) to \(range.upperBound.short), would be right"
        case .flag: "true or false would be right"
        case .choice(let choices): choices.map { "\"\($0)\"" }.joined(separator: " or ") + " would be right"
        case .names: "a string, or an array of different strings with at least one, would be right"
        case .words: "a string, or an array of strings, would be right"
        case .addresses: "an array of different \"host:port\" with at least one would be right"
        case .apps: "an object of objects, such as {\"beta\": {\"apns_server\": \"sandbox\", …}}, would be right"
        }
    }
}

extension Double {
    /// Without the `.0` of a whole number.
    fileprivate var short: String { self == rounded() ? String(Int64(self)) : String(self) }
}
