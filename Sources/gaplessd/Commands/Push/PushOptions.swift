import ArgumentParser
import Glibc
import JSONBytes

/// The options of `send` that define the push.
struct PushOptions: ParsableArguments {
    @Option(parsing: .unconditional, help: ArgumentHelp("Device token, in hex.", valueName: "T"))
    var token: String?

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp(
            "Broadcast channel, in base64. Replaces --token and requires --data.", valueName: "ID"))
    var channel: String?

    @Option(parsing: .unconditional, help: ArgumentHelp("Text of an alert; makes the payload.", valueName: "TEXT"))
    var alert: String?

    @Option(parsing: .unconditional, help: ArgumentHelp("The complete payload.", valueName: "JSON"))
    var data: String?

    @Option(parsing: .unconditional, help: "apns-topic. Default: the topic of the settings or the certificate.")
    var topic: String?

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp("apns-push-type. Default: derived from the payload.", valueName: "type"))
    var pushType: String?

    @Option(parsing: .unconditional, help: "apns-priority: 1, 5 or 10.")
    var priority: Int?

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp(
            "Seconds that APNs stores the push for an offline device. 0: one delivery attempt.", valueName: "seconds"))
    var expiry: Int64?

    @Option(parsing: .unconditional, help: ArgumentHelp("The same limit as a Unix time.", valueName: "time"))
    var expiresAt: Int64?

    @Option(
        name: .customLong("collapse-id"), parsing: .unconditional,
        help: ArgumentHelp("apns-collapse-id, at most 64 bytes.", valueName: "id"))
    var collapseID: String?

    @Option(
        name: .customLong("apns-id"), parsing: .unconditional,
        help: ArgumentHelp("apns-id, a UUID. Default: created by APNs.", valueName: "uuid"))
    var apnsID: String?

    @Option(parsing: .unconditional, help: ArgumentHelp("Name of an app in the settings.", valueName: "name"))
    var app: String?

    func validate() throws {
        if token != nil && channel != nil { throw ValidationError("--token and --channel exclude each other.") }
        if token == nil && channel == nil { throw ValidationError("--token or --channel is required.") }
        if channel != nil && alert != nil { throw ValidationError("--channel requires --data; --alert is for a device token.") }
        if alert != nil && data != nil { throw ValidationError("--alert and --data exclude each other.") }
        if alert == nil && data == nil { throw ValidationError("--alert or --data is required.") }
        if let data {
            // The text must be a single value, because it is inserted into the job.
            let bytes = Array(data.utf8)
            var cursor = JSONCursor()
            do {
                _ = try cursor.value(in: bytes.span)
                try cursor.finish(in: bytes.span)
            } catch {
                throw ValidationError("--data is not valid JSON: \(error.description).")
            }
        }
    }

    /// The job that a producer would push.
    var job: [UInt8] {
        let strings = [
            ("token", token), ("channel", channel), ("topic", topic), ("push_type", pushType), ("collapse_id", collapseID),
            ("apns_id", apnsID), ("app", app),
        ]
        let numbers = [("priority", priority.map(Int64.init)), ("expiry", expiry), ("expires_at", expiresAt)]
        var members = strings.compactMap { name, text in text.map { (name, JSONValue.string($0).bytes) } }
        members += numbers.compactMap { name, number in number.map { (name, Array("\($0)".utf8)) } }
        members.append(("data", data.map { Array($0.utf8) } ?? Self.payload(alert ?? "")))
        let texts = members.map { Array("\"\($0)\": ".utf8) + $1 }
        return Array("{".utf8) + texts.joined(separator: Array(", ".utf8)) + Array("}".utf8)
    }

    private static func payload(_ alert: String) -> [UInt8] {
        JSONValue.members(["aps": .members(["alert": .string(alert)])]).bytes
    }
}
