import JSONBytes
import PushPool

/// Checks of the arrays of objects, `retry_rules` and `filter_match`: every fault of every entry.
extension SettingsReader {
    /// Entries of one array.
    static let mostEntries = 1000
    /// The responses that are no acceptance.
    static let statuses = 300...599
    /// Seconds before a resend.
    static let delays = 0...2_592_000.0

    mutating func retryRules(_ top: SettingsDraft) -> [ResponseRule] {
        top.retryRules.enumerated().compactMap { rule($1, at: "retry_rules[\($0)]") }
    }

    private mutating func rule(_ value: JSONValue, at place: String) -> ResponseRule? {
        guard let entry = entry(value, at: place, keys: ["status", "reason", "action", "delays"]) else { return nil }
        let before = findings.faults.count
        var rule = ResponseRule(status: nil, reason: nil, action: .dead)
        if let value = entry["status"] { rule.status = status(value, at: "\(place).status") }
        if let value = entry["reason"] { rule.reason = text(value, at: "\(place).reason") }
        if entry["status"] == nil && entry["reason"] == nil {
            findings.fault(place, "matches every response", expected: "status, reason, or both")
        }
        var waits: [Duration] = []
        if let value = entry["delays"] { waits = read(value, as: .delays(Self.delays), at: "\(place).delays") ?? [] }
        if let action = action(entry["action"], delays: waits, at: place) { rule.action = action }
        if entry["delays"] != nil, let action = entry["action"]?.stringValue, ["dead", "hold"].contains(action) {
            findings.fault("\(place).delays", "has no effect with \"\(action)\"", expected: "no delays, or the action \"retry\"")
        }
        return findings.faults.count == before ? rule : nil
    }

    mutating func filterMatches(_ top: SettingsDraft) -> [PayloadMatch] {
        top.filterMatches.enumerated().compactMap { match($1, at: "filter_match[\($0)]") }
    }

    private mutating func match(_ value: JSONValue, at place: String) -> PayloadMatch? {
        guard let entry = entry(value, at: place, keys: ["path", "equals"]) else { return nil }
        let path = required("path", of: entry, at: place).flatMap { self.path($0, at: "\(place).path") }
        let values = required("equals", of: entry, at: place).flatMap { self.values($0, at: "\(place).equals") }
        guard let path, let values else { return nil }
        return PayloadMatch(path: path, values: values)
    }

    /// The members of an entry, without comments; `nil` unless it is an object.
    private mutating func entry(_ value: JSONValue, at place: String, keys: [String]) -> [String: JSONValue]? {
        guard case .object(let members) = value else {
            findings.fault(place, "invalid value \(value.shown)", expected: "an object")
            return nil
        }
        var entry: [String: JSONValue] = [:]
        for member in members where !member.isComment {
            let key = "\(place).\(member.key.orQuotes)"
            if !keys.contains(member.key) {
                findings.fault(key, "unknown key", expected: keys.joined(separator: ", "))
            } else if entry.updateValue(member.value, forKey: member.key) != nil {
                findings.fault(key, "duplicate key", expected: "each key at most once")
            }
        }
        return entry
    }

    private mutating func required(_ key: String, of entry: [String: JSONValue], at place: String) -> JSONValue? {
        if entry[key] == nil { findings.fault("\(place).\(key)", "required key is missing", expected: "path and equals") }
        return entry[key]
    }

    private mutating func text(_ value: JSONValue, at key: String) -> String? {
        if let text = value.stringValue, !text.isEmpty { return text }
        findings.fault(key, "invalid value \(value.shown)", expected: "a non-empty string")
        return nil
    }

    private mutating func status(_ value: JSONValue, at key: String) -> Int? {
        if let status = value.integerValue.flatMap({ Int(exactly: $0) }), Self.statuses.contains(status) { return status }
        let problem = value.doubleValue == nil ? "invalid value \(value.shown)" : "\(value.shown) is out of range"
        findings.fault(
            key, problem, expected: "an integer from \(Self.statuses.lowerBound) to \(Self.statuses.upperBound)")
        return nil
    }

    private mutating func action(_ value: JSONValue?, delays: [Duration], at place: String) -> ResponseRule.Action? {
        switch value?.stringValue {
        case "retry": return .retry(delays: delays)
        case "dead": return .dead
        case "hold": return .hold
        default:
            let problem = value.map { "invalid value \($0.shown)" } ?? "required key is missing"
            findings.fault("\(place).action", problem, expected: "\"retry\", \"dead\" or \"hold\"")
            return nil
        }
    }

    private mutating func path(_ value: JSONValue, at key: String) -> String? {
        guard let path = text(value, at: key) else { return nil }
        if !path.split(separator: ".", omittingEmptySubsequences: false).contains("") { return path }
        findings.fault(key, "invalid value \(value.shown)", expected: "keys with dots between them, such as \"aps.category\"")
        return nil
    }

    private mutating func values(_ value: JSONValue, at key: String) -> [PayloadMatch.Value]? {
        if case .array(let elements) = value, !elements.isEmpty {
            let values = elements.compactMap(PayloadMatch.Value.init)
            if values.count == elements.count { return values }
        }
        findings.fault(
            key, "invalid value \(value.shown)",
            expected: "an array of at least one string, number, true, false or null")
        return nil
    }
}

extension PayloadMatch.Value {
    fileprivate init?(_ value: JSONValue) {
        switch value {
        case .string(let text): self = .string(Array(text.utf8))
        case .number(let digits):
            guard let number = PayloadMatch.number(digits) else { return nil }
            self = number
        case .bool(let flag): self = .bool(flag)
        case .null: self = .null
        case .object, .array: return nil
        }
    }
}
