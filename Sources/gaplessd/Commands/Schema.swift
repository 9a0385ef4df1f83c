import ArgumentParser
import JSONBytes
import PushPool

/// `gaplessd schema`: prints a JSON Schema for editors and for checks of producers.
struct Schema: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "schema",
        abstract: "Prints the JSON Schema (2020-12) of the settings file or of a job.",
        discussion: """
            An editor that knows the schema completes and checks keys; '$schema' is allowed in a settings file. A schema \
            cannot express every rule: 'check' and 'enqueue' apply them all.

            Exit status: 0 success, 64 wrong usage.
            """)

    enum Subject: String, CaseIterable, ExpressibleByArgument {
        case settings, job
    }

    @Argument(help: "'settings' or 'job'.")
    var subject: Subject

    @Flag(help: "Print JSON, as without this option.") var json = false

    func run() throws {
        let schema =
            switch subject {
            case .settings: SettingsSchema().json
            case .job: JobSchema().json
            }
        StandardStreams.print(schema.indented())
    }
}

/// The JSON Schema of a job, with a property for each `JobKey`. Unknown keys are allowed.
struct JobSchema {
    var json: JSONValue {
        let properties = JobKey.allCases.map { JSONMember("\($0.name)", $0.schema) }
        return .members([
            "$schema": .string("https://json-schema.org/draft/2020-12/schema"), "title": .string("Push job of gaplessd"),
            "type": .string("object"), "properties": .object(properties), "required": .array([.string("data")]),
            "anyOf": .array([
                Self.given("token", "string"), Self.given("tokens", "array"), Self.broadcast,
                Self.given("channel_name", "string"), Self.given("tokens_from", "string"),
            ]),
            "allOf": .array(excluded),
        ])
    }

    /// The pairs of members of which a job has at most one.
    private var excluded: [JSONValue] {
        [("token", "tokens"), ("token", "tokens_from"), ("tokens", "tokens_from"), ("replaces", "tokens_from")].map { pair in
            .members(["not": .members(["allOf": .array([Self.isGiven(pair.0), Self.isGiven(pair.1)])])])
        }
    }

    /// A job without a token. The channel of any other job is ignored.
    private static let broadcast = given(
        "channel",
        .members([
            "type": .string("string"), "pattern": .string("^[0-9A-Za-z+/=]+$"), "maxLength": .integer(JobReader.longestChannel),
        ]))

    /// The key has a value that is not `null`.
    private static func isGiven(_ key: String) -> JSONValue {
        given(key, .members(["not": .members(["type": .string("null")])]))
    }

    /// The key has a value of this type.
    private static func given(_ key: String, _ type: String) -> JSONValue {
        given(key, .members(["type": .string(type)]))
    }

    private static func given(_ key: String, _ schema: JSONValue) -> JSONValue {
        .members(["required": .array([.string(key)]), "properties": .members(["\(key)": schema])])
    }
}

extension JobKey {
    fileprivate var schema: JSONValue {
        switch self {
        case .token: Self.text("Device token.", pattern: Self.digits, most: JobReader.longestRawToken)
        case .tokens:
            Self.property(
                "Device tokens for the same content, instead of token.", ["array", "null"],
                [
                    "minItems": .integer(1), "maxItems": .integer(JobReader.mostTokens),
                    "items": .members([
                        "type": .string("string"), "pattern": .string(Self.digits),
                        "maxLength": .integer(JobReader.longestRawToken),
                    ]),
                ])
        case .data: .members(["description": .string("The payload."), "type": .string("object")])
        case .identifier:
            Self.property(
                "Returned in logs, results and dead letters.", ["integer", "string", "null"],
                ["minimum": .integer(Int64.min), "maximum": .integer(UInt64.max)])
        case .expiry:
            Self.number("Seconds for which APNs stores an undelivered push. A fraction is dropped.", from: .integer(0))
        case .expiresAt: Self.number("Unix time instead of expiry. A fraction is dropped.", from: .integer(Int64.min))
        case .app: Self.text("Name of one of the apps of the settings.", pattern: Self.header, most: JobReader.longestName)
        case .topic: Self.text("apns-topic.", pattern: Self.header, most: JobReader.longestName)
        case .pushType: Self.text("apns-push-type.", pattern: Self.header, most: JobReader.longestName)
        case .priority:
            .members([
                "description": .string("apns-priority."),
                "enum": .array([.integer(1), .integer(5), .integer(10), .null]),
            ])
        case .collapseID: Self.text("apns-collapse-id.", pattern: Self.header, most: JobReader.longestCollapseID)
        case .apnsID:
            Self.text(
                "apns-id, a UUID.", pattern: "^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$", most: 36)
        case .notBefore:
            Self.number(
                "Unix time before which the job is not sent.", from: .number("\(-JobReader.farthestTime)"),
                to: .number("\(JobReader.farthestTime)"))
        case .channel:
            .members(["description": .string("Broadcast channel, instead of a token; ignored beside one.")])
        case .channelName:
            Self.text("Name of a broadcast channel, instead of channel.", pattern: Self.header, most: ChannelName.longest)
        case .trace:
            Self.text("Returned in structured logs, results and dead letters.", pattern: "^", most: JobReader.longestTrace)
        case .replaces:
            Self.property(
                "Name of the state: of several jobs for one token or channel, the newest is sent.", ["string", "null"],
                ["minLength": .integer(1), "maxLength": .integer(JobReader.longestReplaces)])
        case .campaign: Self.text("Name of the campaign.", pattern: Self.header, most: JobReader.longestCampaign)
        case .tokensFrom:
            Self.text("Key with the tokens of a campaign, instead of token.", pattern: Self.header, most: JobReader.longestName)
        case .over:
            Self.number(
                "With tokens_from: seconds over which the pushes are spread evenly.", from: .integer(0),
                to: .number("\(JobReader.longestOver)"))
        case .stopAt:
            Self.number(
                "With tokens_from: share of final failures in the last 1,000 pushes at which it stops; 0 is never.",
                from: .integer(0), to: .integer(1))
        case .retrying, .deadline, .doubtful, .firstAPNSID, .campaignMark, .rank, .channelMark:
            .members(["description": .string("Mark of the daemon.")])
        }
    }

    /// Hex digits, with blanks and brackets among them.
    private static let digits = "^[ \\t\\r\\n<>]*([0-9A-Fa-f][ \\t\\r\\n<>]*){1,\(JobReader.longestToken)}$"

    /// No control character, and no space at either end.
    private static let header = #"^(?! )[^\u0000-\u001F\u007F-\u009F]+(?<! )$"#

    private static func text(_ help: String, pattern: String, most: Int) -> JSONValue {
        property(help, ["string", "null"], ["pattern": .string(pattern), "maxLength": .integer(most)])
    }

    private static func number(
        _ help: String, from least: JSONValue, to most: JSONValue = .integer(Int64.max)
    ) -> JSONValue {
        property(help, ["number", "null"], ["minimum": least, "maximum": most])
    }

    private static func property(
        _ help: String, _ types: [String], _ rest: KeyValuePairs<String, JSONValue>
    ) -> JSONValue {
        let head = [JSONMember("description", .string(help)), JSONMember("type", .strings(types))]
        return .object(head + rest.map { JSONMember($0.key, $0.value) })
    }
}

extension JSONValue {
    fileprivate static func strings(_ texts: [String]) -> JSONValue { .array(texts.map { .string($0) }) }
}

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
        members.append(JSONMember("anyOf", .array((Self.credentials + ["apps", "apps_dir"]).map(Self.required))))
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
            if let variable = setting.variableName {
                let help = JSONValue.string("Environment variable that contains only the value of \(setting.name).")
                let pattern = JSONValue.string("^(\\$\\{[A-Za-z_][A-Za-z0-9_]*\\}|[A-Za-z_][A-Za-z0-9_]*)$")
                properties.append(
                    JSONMember(variable, .members(["description": help, "type": .string("string"), "pattern": pattern])))
            }
        }
        let excluded = settings.flatMap { setting in
            let names = [setting.name, setting.fileName, setting.variableName].compactMap(\.self)
            let pairs = names.indices.flatMap { first in names[(first + 1)...].map { [names[first], $0] } }
            return pairs.map { pair in
                JSONValue.members(["not": .members(["required": .array(pair.map { .string($0) })])])
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
        case .channels:
            let rule = JSONValue.members([
                "type": .string("object"),
                "properties": .members([
                    "storage": .object(members(of: .choice(ChannelCall.Storage.allCases.map(\.rawValue)))),
                    "create": .object(members(of: .flag)),
                    "delete_after_end": .members(["type": .strings(["number", "null"]), "minimum": .integer(0)]),
                ]), "patternProperties": comments, "additionalProperties": .bool(false),
            ])
            return [
                type("object"), JSONMember("patternProperties", comments), JSONMember("additionalProperties", rule),
            ]
        case .rules:
            let numbers = SettingSchema.array(.number(SettingsReader.delays), isEmptyAllowed: false, isUnique: false)
            return entries(
                [
                    ("status", .integer(SettingsReader.statuses)), ("reason", .text),
                    ("action", .choice(["retry", "dead", "hold"])),
                    ("delays", numbers),
                ], required: ["action"])
        case .matches:
            let values = [
                JSONMember("type", .string("array")), JSONMember("minItems", .one),
                JSONMember("items", .members(["type": .array(["string", "number", "boolean", "null"].map(JSONValue.string))])),
            ]
            return entries([("path", .text)], others: [JSONMember("equals", .object(values))], required: ["path", "equals"])
        case .any(let schemas): return [JSONMember("anyOf", .array(schemas.map { .object(members(of: $0)) }))]
        }
    }

    /// An array of objects with these members.
    private static func entries(
        _ members: [(String, SettingSchema)], others: [JSONMember] = [], required: [String]
    ) -> [JSONMember] {
        let properties = members.map { JSONMember($0, .object(Self.members(of: $1))) } + others
        return [
            JSONMember("type", .string("array")), JSONMember("maxItems", .integer(SettingsReader.mostEntries)),
            JSONMember(
                "items",
                .members([
                    "type": .string("object"), "properties": .object(properties), "patternProperties": comments,
                    "additionalProperties": .bool(false), "required": .array(required.map(JSONValue.string)),
                ])),
        ]
    }

    private static func required(_ key: String) -> JSONValue { .members(["required": .array([.string(key)])]) }
}

extension JSONValue {
    fileprivate static let one = JSONValue.integer(1)
}
