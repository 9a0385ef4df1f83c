import ArgumentParser
import Glibc
import JSONBytes

/// What the push is made of.
struct PushOptions: ParsableArguments {
    @Option(parsing: .unconditional, help: ArgumentHelp("Device token, hex digits.", valueName: "T"))
    var token: String?

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp(
            "In its place a broadcast channel, base64; with --data, since a broadcast is more than a text.", valueName: "ID"))
    var channel: String?

    @Option(parsing: .unconditional, help: ArgumentHelp("A payload that shows this text.", valueName: "TEXT"))
    var alert: String?

    @Option(parsing: .unconditional, help: ArgumentHelp("The whole payload.", valueName: "JSON"))
    var data: String?

    @Option(parsing: .unconditional, help: "apns-topic; that of the settings or the certificate unless given.")
    var topic: String?

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp("apns-push-type; worked out from the payload unless given.", valueName: "type"))
    var pushType: String?

    @Option(parsing: .unconditional, help: "apns-priority: 1, 5 or 10.")
    var priority: Int?

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp("Seconds that APNs keeps it for a device that is away; 0: it tries once.", valueName: "seconds"))
    var expiry: Int64?

    @Option(parsing: .unconditional, help: ArgumentHelp("The same as a Unix time.", valueName: "time"))
    var expiresAt: Int64?

    @Option(
        name: .customLong("collapse-id"), parsing: .unconditional,
        help: ArgumentHelp("apns-collapse-id, at most 64 bytes.", valueName: "id"))
    var collapseID: String?

    @Option(
        name: .customLong("apns-id"), parsing: .unconditional,
        help: ArgumentHelp("apns-id, a UUID; APNs makes one unless given.", valueName: "uuid"))
    var apnsID: String?

    @Option(parsing: .unconditional, help: ArgumentHelp("Which of the settings' apps.", valueName: "name"))
    var app: String?

    func validate() throws {
        if token != nil && channel != nil { throw ValidationError("Only one of --token and --channel may be given.") }
        if token == nil && channel == nil { throw ValidationError("Either --token or --channel is needed.") }
        if channel != nil && alert != nil { throw ValidationError("--alert is for a device: a broadcast is given by --data.") }
        if alert != nil && data != nil { throw ValidationError("Only one of --alert and --data may be given.") }
        if alert == nil && data == nil { throw ValidationError("Either --alert or --data is needed.") }
        if let data {
            // By itself, so that nothing but a value can come of it.
            let bytes = Array(data.utf8)
            var cursor = JSONCursor()
            do {
                _ = try cursor.value(in: bytes.span)
                try cursor.finish(in: bytes.span)
            } catch {
                throw ValidationError("--data is no JSON: \(error.description).")
            }
        }
    }

    /// As a producer would write it.
    var job: [UInt8] {
        let strings = [
            ("token", token), ("channel", channel), ("topic", topic), ("push_type", pushType), ("collapse_id", collapseID),
            ("apns_id", apnsID),
            ("app", app),
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
