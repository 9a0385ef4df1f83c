import JSONBytes
import PushPool
import RedisQueue

/// Reads, checks and writes a value of the settings file. Bounds are inclusive.
struct SettingType<Value: Sendable>: Sendable {
    let traits: SettingTraits
    let read: @Sendable (JSONValue, SettingsFile) throws(SettingError) -> Value
    /// A value as JSON, a string without its quotes; `nil` for an absent one.
    let text: @Sendable (Value) -> String?

    /// - Parameter parse: returns `nil` for an invalid value.
    init(
        _ expected: String, schema: SettingSchema = .text, text: @escaping @Sendable (Value) -> String? = { "\($0)" },
        _ parse: @escaping @Sendable (JSONValue) -> Value?
    ) {
        self.init(SettingTraits(expected: expected, schema: schema), text: text) { (value, _) throws(SettingError) in
            guard let result = parse(value) else { throw .invalid(value) }
            return result
        }
    }

    init(
        _ traits: SettingTraits, text: @escaping @Sendable (Value) -> String? = { "\($0)" },
        read: @escaping @Sendable (JSONValue, SettingsFile) throws(SettingError) -> Value
    ) {
        (self.traits, self.read, self.text) = (traits, read, text)
    }
}

/// The words after "expected" of types whose reader has a hint of its own.
private enum Expected {
    static let host = "a host name or address without a port, such as \"127.0.0.1\""
    static let netAddress = "\"host:port\", \"tcp:host:port\" or \"unix:/path\""
}

extension SettingType where Value == String {
    /// Any string but an empty one.
    static let text = SettingType("a non-empty string") { $0.nonEmptyString }

    /// A header value or a name.
    static let word = SettingType(
        "a string of printable ASCII characters without spaces", schema: .pattern("^[!-~]+$")
    ) {
        $0.stringValue.flatMap { $0.isWord ? $0 : nil }
    }

    /// The identifier of a key or a team.
    static let appleID = SettingType(
        "the 10 letters and digits that Apple shows for it", schema: .pattern("^[A-Za-z0-9]{10}$")
    ) {
        $0.stringValue.flatMap { $0.utf8.count == 10 && $0.utf8.allSatisfy(\.isLetterOrDigit) ? $0 : nil }
    }

    /// A file. `${NAME}` is expanded, and a relative path is relative to the settings file.
    static let path = SettingType(
        SettingTraits(expected: "a file path", isPath: true, namesFile: true)
    ) { (value, file) throws(SettingError) in
        // The system reads a path up to its first NUL.
        guard let text = value.nonEmptyString, !text.utf8.contains(0) else { throw .invalid(value) }
        let path = try file.resolve(text)
        if text.looksLikeKey || path.looksLikeKey { throw .keyAsPath }
        return path
    }

    /// A folder.
    static let folder = SettingType(SettingTraits(expected: "the path of a folder", isPath: true), read: path.read)

    /// A host name or address that a certificate contains.
    static let tlsName = SettingType("a host name or address without a port, as the certificate has it") {
        $0.stringValue?.bareHost
    }

    /// A Unix socket.
    static let socketPath = SettingType(SettingTraits(expected: path.traits.expected, isPath: true), read: path.read)

    /// A host name or address without a port; an IPv6 address may have brackets.
    static let host = SettingType(SettingTraits(expected: Expected.host)) {
        (value, _) throws(SettingError) in
        if let host = value.stringValue?.bareHost { return host }
        if value.stringValue?.isRedisURL == true { throw .urlElsewhere(value, Expected.host) }
        guard let text = value.stringValue, !text.mayHoldSecret, let address = HostAndPort(text) else { throw .invalid(value) }
        throw SettingError(
            text: "\"\(text)\" contains a port", expected: "\"\(address.host)\", and \(address.port) as redis_port")
    }
}

extension SettingType where Value == Secret {
    static func secret(mayBeEmpty: Bool) -> SettingType {
        SettingType(
            SettingTraits(
                expected: mayBeEmpty ? "a string" : "a non-empty string, or no key", schema: mayBeEmpty ? .anyText : .text,
                isSecret: true, mayBeEmpty: mayBeEmpty)
        ) { (value, _) throws(SettingError) in
            guard let text = value.stringValue else { throw .hidden }
            if text.isEmpty && !mayBeEmpty { throw .invalid(value) }
            return Secret(text)
        }
    }
}

extension SettingType where Value == HTTPProxy {
    /// `http://[user:pass@]host:port`. A secret, because it may contain a password.
    static let proxy = SettingType(
        SettingTraits(expected: "\"http://host:port\" or \"http://user:password@host:port\"", isSecret: true)
    ) { (value, _) throws(SettingError) in
        guard let text = value.stringValue, !text.isEmpty else { throw .hidden }
        guard let proxy = HTTPProxy(url: text) else { throw SettingError(text: "the address \(HTTPProxy.lack(in: text))") }
        return proxy
    }
}

extension SettingType where Value == RelayURL {
    /// A secret, because path and query of many receivers are one.
    static let relayURL = SettingType(
        SettingTraits(expected: RelayURL.expected, schema: .pattern("^[Hh][Tt][Tt][Pp][Ss]?://[!-~]+$"), isSecret: true),
        text: { $0.shown },
        read: { (value, _) throws(SettingError) in
            guard let text = value.stringValue else { throw .hidden }
            if text.isEmpty { throw .invalid(value) }
            guard let url = RelayURL(text) else { throw .hidden }
            return url
        })
}

extension SettingType where Value == RedisURL {
    /// A secret, because it may contain a password. The path of a Unix socket is resolved as any other.
    static let redisURL = SettingType(
        SettingTraits(
            expected: RedisURL.expected, schema: .pattern("^([Rr][Ee][Dd][Ii][Ss][Ss]?|[Uu][Nn][Ii][Xx])://[!-~]+$"),
            isSecret: true),
        text: { _ in "" },
        read: { (value, file) throws(SettingError) in
            guard let text = value.stringValue else { throw .hidden }
            var url = try RedisURL(text)
            if case .unix(let path) = url.server {
                url.server = .unix(path: try SettingType<String>.path.read(.string(path), file))
            }
            return url
        })
}

extension SettingType where Value == [RelayHeader] {
    /// Name to value. The file of this secret contains the object as JSON.
    static let relayHeaders = SettingType(
        SettingTraits(expected: RelayHeader.expected, schema: .headers, isSecret: true), text: { _ in "" },
        read: { (value, _) throws(SettingError) in
            var object = value
            if let text = value.stringValue {
                guard let parsed = try? JSONValue.parse(Array(text.utf8)) else { throw .hidden }
                object = parsed
            }
            guard case .object(let members) = object else { throw .hidden }
            return try RelayHeader.read(members)
        })
}

extension SettingType where Value == APNSServer {
    static let apnsServer = SettingType(
        "\"production\", \"sandbox\" or \"host:port\"",
        schema: .pattern(
            "^(production|sandbox|api\\.((sandbox|development)\\.)?push\\.apple\\.com|https://[!-~]+|[!-~]+:[0-9]+)$"),
        text: { $0.name ?? $0.address.text }, { $0.stringValue.flatMap(APNSServer.init) })
}

extension SettingType where Value == HostAndPort {
    static let address = SettingType(
        "\"host:port\"", schema: .pattern("^[!-~]+:[0-9]+$"), text: { $0.text },
        { $0.stringValue.flatMap { HostAndPort($0) } })
}

extension SettingType where Value == [ChannelRule] {
    /// Pattern to rule, in the order of the file.
    static let channels = SettingType(
        SettingTraits(expected: ChannelRule.expected, schema: .channels), text: { $0.isEmpty ? nil : ChannelRule.text($0) },
        read: { (value, _) throws(SettingError) in
            guard case .object(let members) = value else { throw .invalid(value) }
            return try ChannelRule.read(members)
        })
}

extension SettingType where Value == QueueSettings.Server {
    /// The path of a Unix socket is resolved as any other.
    static let netAddress = SettingType(
        SettingTraits(expected: Expected.netAddress), text: { $0.text },
        read: { (value, file) throws(SettingError) in
            switch value.stringValue.flatMap(QueueSettings.Server.init(netAddress:)) {
            case .unix(let path): return .unix(path: try SettingType<String>.path.read(.string(path), file))
            case let server?: return server
            case nil where value.stringValue?.isRedisURL == true: throw .urlElsewhere(value, Expected.netAddress)
            case nil: throw .invalid(value)
            }
        })
}

extension SettingType where Value == HostAndPort? {
    /// `off`, or `host:port`; port 0 is any free one.
    static let listenAddress = SettingType(
        SettingTraits(
            expected: "\"host:port\", such as \"127.0.0.1:9464\", or \"off\"", schema: .pattern("^(off|[!-~]+:[0-9]+)$")),
        text: { $0?.text ?? "off" },
        read: { (value, _) throws(SettingError) in
            if value.stringValue == "off" { return nil }
            guard let address = value.stringValue.flatMap(HostAndPort.init(listening:)) else { throw .invalid(value) }
            return address
        })
}

extension SettingType where Value == PoolScale {
    /// `constant`, `incremental:N` or `exponential:F`.
    static let poolScale = SettingType(
        "\"constant\", \"incremental:N\" with N from 1 to 100, or \"exponential:F\" with F above 1 and up to 100",
        schema: .pattern("^(constant|incremental:[0-9]+|exponential:[0-9.]+)$"),
        text: { $0.settingText }, { $0.stringValue.flatMap(PoolScale.init) })
}

extension SettingType where Value == Bool {
    static let flag = SettingType("true or false", schema: .flag) { $0.boolValue }
}

extension SettingType where Value == Int {
    static func integer(_ range: ClosedRange<Int>) -> SettingType {
        let expected = "an integer from \(range.lowerBound) to \(range.upperBound)"
        return SettingType(SettingTraits(expected: expected, schema: .integer(range))) {
            (value, _) throws(SettingError) in
            if let number = value.integerValue, range.contains(Int(number)) { return Int(number) }
            throw value.isInteger ? .outOfRange(value) : .invalid(value)
        }
    }
}

/// The pause between two updates of a channel.
enum ChannelPace: Sendable, Equatable {
    /// As APNs' responses of 429 require.
    case automatic
    /// Zero: none.
    case fixed(Duration)

    /// `nil` follows the responses.
    var pause: Duration? { if case .fixed(let pause) = self { pause } else { nil } }
}

extension SettingType where Value == ChannelPace {
    static func channelPace(_ range: ClosedRange<Double>) -> SettingType {
        let seconds = SettingType<Duration>.seconds(range)
        var traits = seconds.traits
        traits.expected += ", or \"auto\""
        traits.schema = .any([traits.schema, .choice(["auto"])])
        return SettingType(
            traits, text: { $0.pause.map { seconds.text($0) } ?? "auto" },
            read: { (value, file) throws(SettingError) in
                if value.stringValue == "auto" { return .automatic }
                return .fixed(try seconds.read(value, file))
            })
    }
}

extension SettingType where Value == PoolSize {
    static func poolSize(_ range: ClosedRange<Int>) -> SettingType {
        let number = SettingType<Int>.integer(range)
        var traits = number.traits
        traits.schema = .any([.integer(range), .choice(["auto"])])
        return SettingType(
            traits,
            text: {
                if case .fixed(let count) = $0 { "\(count)" } else { "auto" }
            },
            read: { (value, file) throws(SettingError) in
                if value.stringValue == "auto" { return .automatic }
                if let text = value.stringValue, Int(text) == nil {
                    throw SettingError(
                        text: SettingError.invalid(value).text, expected: "\(number.traits.expected), or \"auto\"")
                }
                return .fixed(try number.read(value, file))
            })
    }
}

extension SettingType where Value == Double {
    /// `false` is 0 and `true` is 1.
    static let share = SettingType(
        SettingTraits(expected: "true, false, or a number from 0 to 1", schema: .any([.flag, .number(0...1)])),
        text: { $0 == 0 ? "false" : $0 == 1 ? "true" : $0.short },
        read: { (value, _) throws(SettingError) in
            if let flag = value.boolValue { return flag ? 1 : 0 }
            return try value.number(in: 0...1)
        })

    static func number(_ range: ClosedRange<Double>, of noun: String = "a number") -> SettingType {
        SettingType(
            SettingTraits(expected: "\(noun) \(range.words)", schema: .number(range)), text: { $0.short },
            read: { (value, _) throws(SettingError) in
                try value.number(in: range)
            })
    }

    /// A number above 0, or 0 with a meaning of its own.
    static func limit(
        _ range: ClosedRange<Double>, of noun: String = "a number", zero: String = "no limit"
    ) -> SettingType {
        SettingType(
            SettingTraits(expected: "\(noun) \(range.words), or 0 for \(zero)", schema: .any([.number(range), .zero])),
            text: { $0.short },
            read: { (value, _) throws(SettingError) in
                value.doubleValue == 0 ? 0 : try value.number(in: range)
            })
    }
}

extension SettingType where Value == Duration {
    static func seconds(_ range: ClosedRange<Double>) -> SettingType {
        SettingType(inSeconds: .number(range, of: "a number of seconds"))
    }

    /// Seconds, or 0 for never.
    static func limit(_ range: ClosedRange<Double>) -> SettingType {
        SettingType(inSeconds: .limit(range, of: "a number of seconds", zero: "never"))
    }

    private init(inSeconds type: SettingType<Double>) {
        self.init(
            type.traits, text: { type.text($0.inSeconds) },
            read: { (value, file) throws(SettingError) in
                .seconds(try type.read(value, file))
            })
    }
}

extension SettingType where Value == [Duration] {
    static func delays(_ range: ClosedRange<Double>) -> SettingType {
        SettingType(
            "an array of at least one number of seconds, each \(range.words)",
            schema: .array(.number(range), isEmptyAllowed: false, isUnique: false),
            text: { "[\($0.map(\.inSeconds.short).joined(separator: ", "))]" },
            { value in
                value.elements { try? $0.number(in: range) }.flatMap { $0.isEmpty ? nil : $0.map { .seconds($0) } }
            })
    }
}

extension SettingType where Value == [String] {
    /// A string, or an array of different ones.
    static let names = SettingType(
        "a non-empty string, or an array of at least one, without duplicates",
        schema: .any([.text, .array(.text, isEmptyAllowed: false, isUnique: true)])
    ) {
        if let name = $0.nonEmptyString { return [name] }
        return $0.elements(\.nonEmptyString).flatMap { $0.isEmpty || Set($0).count < $0.count ? nil : $0 }
    }

    /// A string, or an array of strings, which may be empty.
    static let words = SettingType(
        "a non-empty string, or an array of such strings",
        schema: .any([.text, .array(.text, isEmptyAllowed: true, isUnique: false)])
    ) {
        $0.nonEmptyString.map { [$0] } ?? $0.elements(\.nonEmptyString)
    }
}

extension SettingType where Value == [String] {
    /// Names and addresses without ports; none by default.
    static let hosts = SettingType(
        "an array of host names without ports or wildcards, such as [\"metrics.example.com\"]",
        schema: .array(.pattern("^[^*]+$"), isEmptyAllowed: true, isUnique: false),
        text: { "[\($0.map { "\"\($0)\"" }.joined(separator: ", "))]" },
        { value in value.elements { $0.stringValue?.bareHost.flatMap { $0.contains("*") ? nil : $0 } } })
}

extension SettingType where Value == [HostAndPort] {
    static let addresses = SettingType(
        "an array of at least one \"host:port\", without duplicates",
        schema: .array(.pattern("^[!-~]+:[0-9]+$"), isEmptyAllowed: false, isUnique: true),
        text: { "[\($0.map { "\"\($0.text)\"" }.joined(separator: ", "))]" },
        { value in
            guard let names = value.elements(\.stringValue), Set(names).count == names.count, !names.isEmpty else { return nil }
            return value.elements { $0.stringValue.flatMap { HostAndPort($0) } }
        })
}

extension SettingType where Value == [JSONMember] {
    /// App name to object of `apns_*` keys, which are read one by one.
    static let apps = SettingType(
        "an object of objects, such as {\"beta\": {\"apns_server\": \"sandbox\", …}}", schema: .apps, text: { _ in nil },
        { if case .object(let members) = $0 { members } else { nil } })
}

extension SettingType where Value == [JSONValue] {
    /// Objects that `SettingsReader` checks one by one.
    static func entries(_ content: String, _ schema: SettingSchema) -> SettingType {
        SettingType(
            "an array of objects with \(content), at most \(SettingsReader.mostEntries)", schema: schema,
            text: { String(decoding: JSONValue.array($0).bytes, as: UTF8.self) },
            { value in
                guard case .array(let entries) = value, entries.count <= SettingsReader.mostEntries else { return nil }
                return entries
            })
    }
}

extension SettingType where Value: Equatable {
    static func choice(_ choices: KeyValuePairs<String, Value>) -> SettingType {
        let names = choices.map { "\"\($0.key)\"" }
        return SettingType(
            names.dropLast().joined(separator: ", ") + " or \(names.last ?? "")", schema: .choice(choices.map(\.key)),
            text: { value in choices.first { $0.value == value }?.key },
            { value in choices.first { $0.key == value.stringValue }?.value })
    }
}

extension SettingError {
    /// A value that may contain a password.
    fileprivate static let hidden = SettingError(text: "invalid value (hidden: it may contain a password)")

    /// A URL where only an address is accepted.
    fileprivate static func urlElsewhere(_ value: JSONValue, _ expected: String) -> SettingError {
        SettingError(text: invalid(value).text, expected: "\(expected), or this URL as redis_url")
    }

    /// The content of a key file where its path is expected.
    fileprivate static let keyAsPath = SettingError(
        text: "the value is the key or the certificate itself (hidden)", expected: "the path of a file that contains it")

    fileprivate static func outOfRange(_ value: JSONValue) -> SettingError {
        SettingError(text: "\(value.shown) is out of range")
    }
}

extension JSONValue {
    fileprivate var nonEmptyString: String? { stringValue.flatMap { $0.isEmpty ? nil : $0 } }

    /// Digits with or without a minus sign, of any length.
    fileprivate var isInteger: Bool {
        if case .number(let digits) = self {
            digits.utf8.allSatisfy { $0 == UInt8(ascii: "-") || $0.isDigit }
        } else {
            false
        }
    }

    func number(in range: ClosedRange<Double>) throws(SettingError) -> Double {
        guard let number = doubleValue else { throw .invalid(self) }
        guard range.contains(number) else { throw .outOfRange(self) }
        return number
    }

    /// `nil` unless this is an array and each of its elements has a value.
    fileprivate func elements<Element>(_ read: (JSONValue) -> Element?) -> [Element]? {
        guard case .array(let values) = self else { return nil }
        let elements = values.compactMap(read)
        return elements.count == values.count ? elements : nil
    }

    /// The value as the file has it, shortened; what may contain a password is hidden.
    var shown: String {
        switch self {
        case .object(let members): members.isEmpty ? "{}" : "{…}"
        case .array(let elements): "[\(elements.map(\.shown).joined(separator: ", "))]".cut(to: 100)
        case .string(let text) where text.looksLikeKey: "(hidden: it may be a key)"
        case .string(let text) where text.mayHoldSecret: "(hidden: it may contain a password)"
        case .string(let text): "\"\(text.cut(to: 60))\""
        case .number(let digits): digits.cut(to: 30)
        case .bool(let flag): "\(flag)"
        case .null: "null"
        }
    }
}

extension String {
    /// Whether the text resembles the content of a key file: PEM, also damaged, or base64 without its frame. No path of a key
    /// file contains a line break.
    var looksLikeKey: Bool {
        if utf8.contains(where: { $0 == UInt8(ascii: "\n") || $0 == UInt8(ascii: "\r") }) { return true }
        if firstRange(of: "-----") != nil || firstRange(of: "PRIVATE KEY") != nil { return true }
        // In base64, a SEQUENCE of DER begins with M, and PEM with LS0tLS1.
        let others = "+/= \\\"'".utf8
        func isBase64(_ byte: UInt8) -> Bool { byte.isLetterOrDigit || others.contains(byte) }
        if hasPrefix("M") || hasPrefix("LS0tLS1"), utf8.count >= 64, utf8.allSatisfy(isBase64) { return true }
        // A line of the middle of a key.
        return utf8.split(separator: UInt8(ascii: "/")).contains { part in
            part.count >= 40 && part.allSatisfy(isBase64) && part.contains(where: \.isDigit)
                && part.contains(where: \.isUppercase) && part.contains(where: \.isLowercase)
        }
    }

    /// Whether the text is a reference to an environment variable and nothing else.
    var referencedVariable: String? {
        guard hasPrefix("${"), hasSuffix("}") else { return nil }
        let name = String(dropFirst(2).dropLast())
        return name.isVariableName ? name : nil
    }

    /// Whether the text may be the name of an environment variable.
    var isVariableName: Bool {
        guard let first = utf8.first, !first.isDigit else { return false }
        return utf8.allSatisfy { $0 == UInt8(ascii: "_") || $0.isLetterOrDigit }
    }

    /// Whether the text begins as `redis_url` does.
    fileprivate var isRedisURL: Bool {
        ["redis://", "rediss://", "unix://"].contains(where: lowercased().hasPrefix)
    }

    /// Whether the text resembles `user:password@host` or `redis://:password@host`.
    fileprivate var mayHoldSecret: Bool { contains("@") || firstRange(of: "://") != nil }

    fileprivate func cut(to most: Int) -> String { count > most ? prefix(most) + "…" : self }
}

extension PoolScale {
    /// `nil` also for a number that is out of range.
    fileprivate init?(_ text: String) {
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        switch (parts.first, parts.dropFirst().first) {
        case ("constant", nil): self = .constant
        case ("incremental", let step?):
            guard let step = Int(step), (1...100).contains(step) else { return nil }
            self = .incremental(step)
        case ("exponential", let factor?):
            guard let factor = Double(factor), factor > 1, factor <= 100 else { return nil }
            self = .exponential(factor)
        default: return nil
        }
    }

    fileprivate var settingText: String {
        switch self {
        case .constant: "constant"
        case .incremental(let step): "incremental:\(step)"
        case .exponential(let factor): "exponential:\(factor.short)"
        }
    }
}

extension ClosedRange<Double> {
    fileprivate var words: String { "from \(lowerBound.short) to \(upperBound.short)" }
}

extension Duration {
    var inSeconds: Double { self / .seconds(1) }
}

extension Double {
    /// The number without the `.0` of a whole one.
    var short: String { Int64(exactly: self).map { "\($0)" } ?? "\(self)" }
}

/// The value of `pool_size`.
enum PoolSize: Sendable, Equatable {
    case fixed(Int)
    case automatic
}

extension ChannelRule {
    /// The words after "expected" in a fault.
    fileprivate static let expected =
        "an object of patterns, such as {\"match-*\": {\"storage\": \"latest\", \"create\": true, \"delete_after_end\": 3600}}"
    /// Seconds: ten years.
    private static let longestDelay = 315_576_000.0

    fileprivate static func read(_ members: [JSONMember]) throws(SettingError) -> [ChannelRule] {
        var rules: [ChannelRule] = []
        for member in members where !member.isComment {
            guard (1...ChannelName.longest).contains(member.key.utf8.count) else {
                throw SettingError(
                    text: "the pattern \"\(member.key)\" has \(member.key.utf8.count) bytes",
                    expected: "1 to \(ChannelName.longest) bytes")
            }
            guard !rules.contains(where: { $0.pattern == member.key }) else {
                throw SettingError(text: "the pattern \"\(member.key)\" occurs twice", expected: "each pattern at most once")
            }
            rules.append(try rule(member))
        }
        return rules
    }

    private static func rule(_ member: JSONMember) throws(SettingError) -> ChannelRule {
        func fault(_ text: String, expected: String) -> SettingError {
            SettingError(text: "\"\(member.key)\": \(text)", expected: expected)
        }
        guard case .object(let members) = member.value else {
            throw fault("invalid value \(member.value.shown)", expected: "an object, such as {\"storage\": \"none\"}")
        }
        var rule = ChannelRule(pattern: member.key)
        for option in members where !option.isComment {
            switch option.key {
            case "storage":
                guard let storage = option.value.stringValue.flatMap(ChannelCall.Storage.init) else {
                    throw fault("storage: invalid value \(option.value.shown)", expected: "\"none\" or \"latest\"")
                }
                rule.storage = storage
            case "create":
                guard let creates = option.value.boolValue else {
                    throw fault("create: invalid value \(option.value.shown)", expected: "true or false")
                }
                rule.creates = creates
            case "delete_after_end":
                if option.value == .null { continue }
                guard let seconds = option.value.doubleValue, (0...longestDelay).contains(seconds) else {
                    throw fault(
                        "delete_after_end: invalid value \(option.value.shown)",
                        expected: "seconds from 0 to \(longestDelay.short), or null")
                }
                rule.deleteAfterEnd = .seconds(seconds)
            default: throw fault("unknown key \"\(option.key)\"", expected: "storage, create and delete_after_end")
            }
        }
        return rule
    }

    fileprivate static func text(_ rules: [ChannelRule]) -> String {
        JSONValue.object(
            rules.map { rule in
                let members: [(String, JSONValue)] = [
                    ("storage", .string(rule.storage.rawValue)), ("create", .bool(rule.creates)),
                    ("delete_after_end", rule.deleteAfterEnd.map { .number($0.inSeconds.short) } ?? .null),
                ]
                return JSONMember(
                    key: rule.pattern, value: .object(members.map { JSONMember(key: $0, value: $1, offset: 0) }), offset: 0)
            }
        ).line
    }
}

/// One member of `relay_headers`.
struct RelayHeader: Sendable, Equatable {
    /// The words after "expected" in a fault.
    static let expected = "an object of header names and values, such as {\"Authorization\": \"…\"}"
    /// Bytes of a value.
    private static let mostBytes = 8192
    /// Headers that the relay writes itself, and those that concern the connection (RFC 9110, 7.6.1).
    private static let reserved: Set<String> = [
        "host", "content-length", "content-type", "transfer-encoding", "connection", "keep-alive", "proxy-connection", "te",
        "trailer", "upgrade", "expect", "x-gapless-signature",
    ]
    private static let punctuation = Set("!#$%&'*+-.^_`|~".utf8)

    let name: String
    let value: Secret

    /// Reads the members of the object. A fault names no value.
    static func read(_ members: [JSONMember]) throws(SettingError) -> [RelayHeader] {
        var headers: [RelayHeader] = []
        var names: Set<String> = []
        for member in members {
            // A name that is none may be a value at the wrong place.
            guard !member.key.isEmpty, member.key.utf8.count <= 256, member.key.utf8.allSatisfy(isToken) else {
                throw SettingError(text: "a name is not the name of a header", expected: "letters, digits and hyphens")
            }
            let name = member.key.lowercased()
            if reserved.contains(name) {
                throw SettingError(text: "\(member.key) is set by the relay", expected: "other headers")
            }
            guard names.insert(name).inserted else {
                throw SettingError(text: "\(member.key) occurs twice", expected: "each header at most once")
            }
            guard let text = member.value.stringValue, (1...mostBytes).contains(text.utf8.count),
                text.utf8.allSatisfy({ 0x20...0x7E ~= $0 }), !text.hasPrefix(" "), !text.hasSuffix(" ")
            else {
                throw SettingError(
                    text: "invalid value of \(member.key) (hidden)",
                    expected: "1 to \(mostBytes) printable ASCII characters, without a space at an end")
            }
            headers.append(RelayHeader(name: member.key, value: Secret(text)))
        }
        return headers
    }

    /// A character of a token (RFC 9110, 5.6.2).
    private static func isToken(_ byte: UInt8) -> Bool { byte.isLetterOrDigit || punctuation.contains(byte) }
}
