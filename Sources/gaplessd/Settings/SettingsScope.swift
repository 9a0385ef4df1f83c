import JSONBytes

/// What stood in one object of the file, the top level or one of `apps`, and was right by itself.
///
/// Paths are resolved and secrets read from their files, so that what is left are look-ups.
struct SettingsScope: Sendable {
    /// Before a key of this object, in a fault.
    let prefix: String
    /// Keys that stand here, rightly or wrongly.
    private(set) var present: Set<String> = []
    private(set) var values: [String: JSONValue] = [:]

    init(prefix: String) { self.prefix = prefix }

    mutating func note(_ key: String) { present.insert(key) }
    mutating func accept(_ key: String, _ value: JSONValue) { values[key] = value }

    /// Takes over what an app does not set itself.
    func inheriting(from top: SettingsScope) -> SettingsScope {
        var scope = self
        for key in SettingsTable.keys where key.isInherited && present.isDisjoint(with: [key.name, key.fileName]) {
            scope.values[key.name] = top.values[key.name]
            if top.present.contains(key.name) { scope.present.insert(key.name) }
        }
        return scope
    }

    /// What stands there, else the default. The default also stands in for a value at which a fault was found, so that
    /// reading can go on to find the others.
    private func value(_ key: String) -> JSONValue? {
        values[key] ?? SettingsTable.byName[key]?.fallbackValue
    }

    func text(_ key: String) -> String? { value(key)?.stringValue }
    func secret(_ key: String) -> Secret? { value(key)?.stringValue.map(Secret.init) }
    func flag(_ key: String) -> Bool { value(key)?.boolValue ?? false }
    func integer(_ key: String) -> Int { Int(value(key)?.integerValue ?? 0) }
    func fraction(_ key: String) -> Double { value(key)?.doubleValue ?? 0 }
    func seconds(_ key: String) -> Duration { .seconds(fraction(key)) }

    func delays(_ key: String) -> [Duration] {
        guard case .array(let delays) = value(key) else { return [] }
        return delays.compactMap(\.doubleValue).map { .seconds($0) }
    }

    func names(_ key: String) -> [String] {
        switch value(key) {
        case .string(let name): [name]
        case .array(let names): names.compactMap(\.stringValue)
        default: []
        }
    }
}
