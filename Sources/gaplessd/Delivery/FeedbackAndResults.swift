internal import JSONBytes
import PushPool
import RedisQueue

/// A response of APNs that rejects a token: one element of the list `feedback`. `RetryTable` says which responses do (a 410, for
/// example), and `Settler.feedback` makes the record.
struct FeedbackRecord: Sendable, Equatable {
    var token: String
    var topic: String?
    var reason: String
    var status: Int
    /// Milliseconds since 1970, from a 410.
    var timestamp: Int64?
    /// The JSON of an integer or a string.
    var identifier: [UInt8]?
    var verdict: TokenVerdict
    /// `campaign` of the job. The record omits an absent one.
    var campaign: String?

    func record() -> [UInt8] {
        var object = RecordWriter(capacity: 512)
        object.add("token", text: token)
        object.add("topic", text: topic)
        object.add("reason", text: reason)
        object.add("status", number: Int64(status))
        object.add("timestamp", number: timestamp)
        object.add("identifier", json: identifier)
        object.add("verdict", text: verdict.rawValue)
        if let campaign { object.add("campaign", text: campaign) }
        return object.finish()
    }
}

/// A final outcome: one entry of the stream of results. All fields are text; an unknown value is empty.
struct ResultEntry: Sendable, Equatable {
    /// The JSON of an integer or a string; the stream contains a string without its quotes and escapes.
    var identifier: [UInt8]?
    var token: String?
    /// 200 for a delivered push; `nil` without a response of APNs.
    var status: Int?
    var reason: String?
    var apnsID: String?
    /// The number of sends.
    var attempts: Int
    /// Unix seconds.
    var at: Int64
    /// The name of the app; empty for the top level.
    var app: String?
    var topic: String?
    var pushType: String?
    /// The id of a broadcast, which is also `token`.
    var channel: String?
    /// Of a 410: milliseconds since 1970.
    var timestamp: Int64?
    var trace: String?
    var worker: String?
    /// `apns-unique-id`, which only the sandbox sends.
    var uniqueID: String?
    /// The name of the channel, if the job names it.
    var channelName: String?
    /// Unix milliseconds of the claim, of the last request and of its response.
    var claimedAt: Int64?
    var sentAt: Int64?
    var respondedAt: Int64?
    /// `campaign` of the job. The entry omits an absent one.
    var campaign: String?

    /// Returns field, value, field, value … in the order of XADD.
    func fields() -> Arguments {
        var fields = Arguments(reservingBytes: 1024)
        fields.append("identifier")
        fields.append(identifierText())
        fields.add("token", token)
        fields.add("status", status.map(Int64.init))
        fields.add("reason", reason)
        fields.add("apns_id", apnsID)
        fields.add("attempts", Int64(attempts))
        fields.add("at", at)
        fields.add("app", app)
        fields.add("topic", topic)
        fields.add("push_type", pushType)
        fields.add("channel", channel)
        fields.add("timestamp", timestamp)
        fields.add("trace", trace)
        fields.add("worker", worker)
        fields.add("claimed_at", claimedAt)
        fields.add("sent_at", sentAt)
        fields.add("responded_at", respondedAt)
        if let uniqueID { fields.add("apns_unique_id", uniqueID) }
        if let channelName { fields.add("channel_name", channelName) }
        if let campaign { fields.add("campaign", campaign) }
        return fields
    }

    private func identifierText() -> [UInt8] {
        guard let identifier, identifier.first == UInt8(ascii: "\"") else { return identifier ?? [] }
        var cursor = JSONCursor()
        return (try? cursor.value(in: identifier.span))?.utf8(in: identifier.span) ?? identifier
    }
}

extension Arguments {
    fileprivate mutating func add(_ field: String, _ value: String?) {
        append(field)
        append(value ?? "")
    }

    fileprivate mutating func add(_ field: String, _ value: Int64?) {
        append(field)
        if let value { append(Int(value)) } else { append("") }
    }
}

/// Writes one JSON object, member by member.
struct RecordWriter {
    private var bytes: [UInt8] = []

    init(capacity: Int) { bytes.reserveCapacity(capacity) }

    mutating func add(_ key: String, text: String?) {
        add(key)
        if let text { bytes.appendJSONString(text) } else { addNull() }
    }

    mutating func add(_ key: String, number: Int64?) {
        add(key)
        if let number { bytes.append(contentsOf: "\(number)".utf8) } else { addNull() }
    }

    /// Adds a value that is already JSON.
    mutating func add(_ key: String, json: [UInt8]?) {
        add(key)
        if let json { bytes += json } else { addNull() }
    }

    mutating func add(_ key: String, utf8: [UInt8]) {
        add(key)
        bytes.appendJSONString(utf8: utf8)
    }

    consuming func finish() -> [UInt8] {
        bytes.append(UInt8(ascii: "}"))
        return bytes
    }

    private mutating func add(_ key: String) {
        bytes.append(contentsOf: (bytes.isEmpty ? "{\"" : ", \"").utf8)
        bytes.append(contentsOf: key.utf8)
        bytes.append(contentsOf: "\": ".utf8)
    }

    private mutating func addNull() { bytes.append(contentsOf: "null".utf8) }
}
