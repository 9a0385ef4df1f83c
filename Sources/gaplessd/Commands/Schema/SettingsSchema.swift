import JSONBytes

/// The JSON Schema of a settings file, made from `SettingsTable`.
struct SettingsSchema {
    /// `$schema`, and keys that start with `_` or `//`.
    private static let comments = JSONValue.members([
        "^_": .bool(true), "^//": .bool(true), "^\\$schema$": .bool(true),
    ])
    private static let credentials = ["apns_auth_key_path", "apns_cert_path", "apns_p12_path"]

    var json: JSONValue {
        var members = Self.object(SettingsTable.keys)
        members.insert(JSONMember("$schema", .string("https://json-schema.org/draft/2020-12/schema")), at: 0)
        members.insert(JSONMember("title", .string("Settings of gaplessd")), at: 1)
        members.append(
            JSONMember(
                "required", .array(SettingsTable.keys.filter { $0.isRequired && $0.scope == .daemon }.map { .string($0.name) })))
        members.append(JSONMember("anyOf", .array((Self.credentials + ["apps"]).map(Self.required))))
        let app = JSONValue.object(Self.object(SettingsTable.keys.filter { $0.scope != .daemon }))
        members.append(JSONMember("$defs", .members(["app": app])))
        return .object(members)
    }

    private static func object(_ settings: [Setting]) -> [JSONMember] {
        var properties: [JSONMember] = []
        for setting in settings {
            properties.append(JSONMember(setting.name, property(setting)))
            if let file = setting.fileName {
                let help = JSONValue.string("File that contains only the value of \(setting.name).")
                properties.append(
                    JSONMember(file, .members(["description": help, "type": .string("string"), "minLength": .one])))
            }
        }
        let excluded = settings.compactMap { setting in
            setting.fileName.map { file in
                JSONValue.members(["not": .members(["required": .array([.string(setting.name), .string(file)])])])
            }
        }
        return [
            JSONMember("type", .string("object")), JSONMember("properties", .object(properties)),
            JSONMember("patternProperties", comments), JSONMember("additionalProperties", .bool(false)),
            JSONMember("allOf", .array(excluded)),
        ]
    }

    private static func property(_ setting: Setting) -> JSONValue {
        var members = [JSONMember("description", .string(setting.help))]
        if let text = setting.defaultText { members.append(JSONMember("default", setting.value(text))) }
        return .object(members + Self.members(of: setting.traits.schema))
    }

    private static func members(of schema: SettingSchema) -> [JSONMember] {
        func type(_ name: String) -> JSONMember { JSONMember("type", .string(name)) }
        switch schema {
        case .text: return [type("string"), JSONMember("minLength", .one)]
        case .anyText: return [type("string")]
        case .pattern(let pattern): return [type("string"), JSONMember("pattern", .string(pattern))]
        case .choice(let names): return [JSONMember("enum", .array(names.map { .string($0) }))]
        case .flag: return [type("boolean")]
        case .integer(let range):
            return [
                type("integer"), JSONMember("minimum", .integer(range.lowerBound)),
                JSONMember("maximum", .integer(range.upperBound)),
            ]
        case .number(let range):
            return [
                type("number"), JSONMember("minimum", .number(range.lowerBound.short)),
                JSONMember("maximum", .number(range.upperBound.short)),
            ]
        case .zero: return [JSONMember("const", .integer(0))]
        case .array(let element, let isEmptyAllowed, let isUnique):
            return [
                type("array"), JSONMember("items", .object(members(of: element))),
                JSONMember("minItems", .integer(isEmptyAllowed ? 0 : 1)), JSONMember("uniqueItems", .bool(isUnique)),
            ]
        case .apps:
            return [
                type("object"), JSONMember("patternProperties", comments),
                JSONMember("additionalProperties", .members(["$ref": .string("#/$defs/app")])),
            ]
        case .headers:
            return [
                type("object"), JSONMember("propertyNames", .members(["pattern": .string("^[-!#$%&'*+.^_`|~0-9A-Za-z]+$")])),
                JSONMember("additionalProperties", .object(members(of: .pattern("^[!-~]([ -~]*[!-~])?$")))),
            ]
        case .any(let schemas): return [JSONMember("anyOf", .array(schemas.map { .object(members(of: $0)) }))]
        }
    }

    private static func required(_ key: String) -> JSONValue { .members(["required": .array([.string(key)])]) }
}

extension JSONValue {
    fileprivate static let one = JSONValue.integer(1)
}
