import JSONBytes
import PushPool
import RedisQueue

/// Whether a value is of its key's kind and within its bounds.
extension SettingsKey.Kind {
    /// What is wrong with it, or `nil`.
    func problem(with value: JSONValue) -> String? {
        if isRight(value) { return nil }
        guard let text = value.stringValue, !text.isEmpty else {
            return "is \(self == .secret || self == .proxy ? value.kindName : value.shown)"
        }
        switch self {
        case .proxy: return "is a string that \(HTTPProxy.lack(in: text))"
        case .host: return Self.portProblem(text) ?? "is \(value.shown)"
        case .secret: return "is a string"
        default: return "is \(value.shown)"
        }
    }

    /// A host with its port, as other programs have it in one.
    private static func portProblem(_ text: String) -> String? {
        guard !text.mayHoldSecret, let address = HostAndPort(text) else { return nil }
        return
            "is \"\(text)\": the host is \"\(address.host)\", and the port belongs in redis_port, which would be \(address.port)"
    }

    private func isRight(_ value: JSONValue) -> Bool {
        switch self {
        case .word: value.stringValue?.isWord ?? false
        case .host: value.stringValue.map { $0.bareHost != nil } ?? false
        case .text: value.stringValue.map { !$0.isEmpty } ?? false
        // A PKCS#12 file may well have the empty password.
        case .secret: value.stringValue != nil
        // A NUL would cut the path short where the system reads it.
        case .path: value.stringValue.map { !$0.isEmpty && !$0.utf8.contains(0) } ?? false
        case .appleID:
            value.stringValue.map { $0.utf8.count == 10 && $0.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber) } } ?? false
        case .apnsServer: value.stringValue.map { APNSServer($0) != nil } ?? false
        case .proxy: value.stringValue.map { HTTPProxy(url: $0) != nil } ?? false
        case .listenAddress: value.stringValue.map { $0 == "off" || HostAndPort(listening: $0) != nil } ?? false
        case .poolScale: value.stringValue.map { PoolScale($0) != nil } ?? false
        case .netAddress: value.stringValue.map { QueueSettings.Server(netAddress: $0) != nil } ?? false
        case .integer(let range): value.integerValue.map { range.contains(Int($0)) } ?? false
        case .fraction(let range), .seconds(let range): value.doubleValue.map(range.contains) ?? false
        case .limit(let range): value.doubleValue.map { $0 == 0 || range.contains($0) } ?? false
        case .delays(let range): isRight(value) { $0.doubleValue.map(range.contains) ?? false }
        case .flag: value.boolValue != nil
        case .choice(let choices): value.stringValue.map(choices.contains) ?? false
        case .names: value.stringValue.map { !$0.isEmpty } ?? areDifferentNames(value)
        case .words: value.stringValue.map { !$0.isEmpty } ?? areStrings(value)
        case .addresses:
            isRight(value) { $0.stringValue.map { HostAndPort($0) != nil } ?? false } && areDifferentNames(value)
        case .apps: isApps(value)
        }
    }

    private func isRight(_ value: JSONValue, each: (JSONValue) -> Bool) -> Bool {
        guard case .array(let elements) = value else { return false }
        return !elements.isEmpty && elements.allSatisfy(each)
    }

    private func areStrings(_ value: JSONValue) -> Bool {
        guard case .array(let elements) = value else { return false }
        return elements.allSatisfy { $0.stringValue.map { !$0.isEmpty } ?? false }
    }

    private func areDifferentNames(_ value: JSONValue) -> Bool {
        guard case .array(let elements) = value else { return false }
        let names = elements.compactMap(\.stringValue).filter { !$0.isEmpty }
        return !names.isEmpty && names.count == elements.count && Set(names).count == names.count
    }

    /// What stands in it is told app by app.
    private func isApps(_ value: JSONValue) -> Bool { if case .object = value { true } else { false } }
}

extension JSONValue {
    var kindName: String {
        switch self {
        case .object: "an object"
        case .array: "an array"
        case .string(""): "an empty string"
        case .string: "a string"
        case .number: "a number"
        case .bool: "true or false"
        case .null: "null"
        }
    }

    /// What stands in the file, cut where it is long.
    var shown: String {
        switch self {
        case .string(""), .object, .null: kindName
        case .string(let text) where text.mayHoldSecret:
            "a string with \"@\" or \"://\" in it, which is not shown, since it may hold a password"
        case .string(let text): "\"\(text.cut(to: 60))\", a string"
        case .number(let digits): digits.cut(to: 30)
        case .bool(let flag): "\(flag)"
        case .array(let elements):
            "an array"
                + (elements.isEmpty ? " without elements" : " of \(elements.map(\.shown).joined(separator: ", "))".cut(to: 100))
        }
    }
}

extension JSONMember {
    /// Its name begins with `_` or `//`.
    var isComment: Bool { key.hasPrefix("_") || key.hasPrefix("//") }
}

extension String {
    /// What has the form `user:password@host` or `redis://:password@host`, rightly or wrongly.
    var mayHoldSecret: Bool { contains("@") || firstRange(of: "://") != nil }

    /// As the key of a fault, where an empty one would name the whole file.
    var orQuotes: String { isEmpty ? "\"\"" : self }
}

extension PoolScale {
    /// As the settings have it; nothing where a number is out of its bounds.
    init?(_ text: String) {
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
}

extension String {
    fileprivate func cut(to most: Int) -> String { count > most ? prefix(most) + "…" : self }
}
