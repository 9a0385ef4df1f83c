import JSONBytes

/// The JSON Schema of a job, with a property for each `JobKey`. Unknown keys are allowed.
struct JobSchema {
    var json: JSONValue {
        let properties = JobKey.allCases.map { JSONMember("\($0.name)", $0.schema) }
        return .members([
            "$schema": .string("https://json-schema.org/draft/2020-12/schema"), "title": .string("Push job of gaplessd"),
            "type": .string("object"), "properties": .object(properties), "required": .array([.string("data")]),
            "anyOf": .array([Self.given("token", "string"), Self.given("tokens", "array"), Self.broadcast]),
            "not": .members(["allOf": .array([Self.given("token", "string"), Self.given("tokens", "array")])]),
        ])
    }

    /// A job without a token. The channel of any other job is ignored.
    private static let broadcast = given(
        "channel",
        .members([
            "type": .string("string"), "pattern": .string("^[0-9A-Za-z+/=]+$"), "maxLength": .integer(JobReader.longestChannel),
        ]))

    /// The key has a value that is not `null`.
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
        case .token: Self.text("Device token.", pattern: "^[0-9A-Fa-f]+$", most: JobReader.longestToken)
        case .tokens:
            .members([
                "description": .string("Device tokens for the same content, instead of token."),
                "type": .strings(["array", "null"]), "minItems": .integer(1), "maxItems": .integer(JobReader.mostTokens),
                "items": .members([
                    "type": .string("string"), "pattern": .string("^[0-9A-Fa-f]+$"),
                    "maxLength": .integer(JobReader.longestToken),
                ]),
            ])
        case .data: .members(["description": .string("The payload."), "type": .string("object")])
        case .identifier:
            .members([
                "description": .string("Returned in logs, results and dead letters."),
                "type": .strings(["integer", "string", "null"]), "minimum": .integer(Int64.min), "maximum": .integer(UInt64.max),
            ])
        case .expiry:
            Self.seconds("Seconds for which APNs stores an undelivered push. A fraction is dropped.", from: 0)
        case .expiresAt: Self.seconds("Unix time instead of expiry. A fraction is dropped.", from: Int64.min)
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
            .members([
                "description": .string("Unix time before which the job is not sent."), "type": .strings(["number", "null"]),
                "minimum": .number("\(-JobReader.farthestTime)"), "maximum": .number("\(JobReader.farthestTime)"),
            ])
        case .channel:
            .members(["description": .string("Broadcast channel, instead of a token; ignored beside one.")])
        case .trace:
            Self.text("Returned in structured logs, results and dead letters.", pattern: "^", most: JobReader.longestTrace)
        case .retrying, .deadline, .doubtful, .firstAPNSID: .members(["description": .string("Mark of the daemon.")])
        }
    }

    /// No control character, and no space at either end.
    private static let header = #"^(?! )[^\u0000-\u001F\u007F-\u009F]+(?<! )$"#

    private static func text(_ help: String, pattern: String, most: Int) -> JSONValue {
        .members([
            "description": .string(help), "type": .strings(["string", "null"]), "pattern": .string(pattern),
            "maxLength": .integer(most),
        ])
    }

    private static func seconds(_ help: String, from least: Int64) -> JSONValue {
        .members([
            "description": .string(help), "type": .strings(["number", "null"]), "minimum": .integer(least),
            "maximum": .integer(Int64.max),
        ])
    }
}

extension JSONValue {
    fileprivate static func strings(_ texts: [String]) -> JSONValue { .array(texts.map { .string($0) }) }
}
