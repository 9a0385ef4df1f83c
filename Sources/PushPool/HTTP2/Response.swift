import Glibc
internal import JSONBytes
internal import Platform

/// A complete response with a status other than 2xx.
struct Response: Equatable {
    var status: Int
    var apnsID: String?
    var uniqueID: String?
    /// The seconds of `retry-after`, 0 to a million.
    var retryAfter: Int?
    /// At most `ResponseBody.mostBytes`.
    var body: [UInt8] = []

    /// The response in the terms of the notification's owner.
    var rejection: Rejection {
        let said = ResponseBody(body)
        var rejection = Rejection(
            status: status, reason: said.reason, apnsID: apnsID, timestamp: said.timestamp,
            retryAfter: retryAfter.map { .seconds($0) })
        rejection.uniqueID = uniqueID
        return rejection
    }
}

/// The body of a response other than 2xx: `{"reason": "…", "timestamp": n}` from APNs, or any text from a proxy.
struct ResponseBody: Equatable {
    /// The JSON's `reason`; the first 200 bytes as text if the body is not such JSON; "" if it is empty.
    var reason = ""
    /// Milliseconds since 1970.
    var timestamp: Int64?

    /// Bytes of a body that are kept: APNs sends fewer than 100.
    static let mostBytes = 4096
    /// Bytes of the body of a channel call that are kept: a list has at most 10,000 channels, whose ids have 24 characters
    /// ("Sending channel management requests to APNs").
    static let mostChannelBytes = 2 << 20
    /// Bytes of a text that are kept.
    static let mostText = 200

    init(_ body: [UInt8]) {
        let object = try? JSONValue.parse(body)
        reason = ResponseBody.text(object?["reason"]?.stringValue.map { Array($0.utf8) } ?? body)
        timestamp = object?["timestamp"]?.integerValue
    }

    /// Returns the beginning of a text as one printable line.
    static func text(_ text: [UInt8], most: Int = mostText) -> String {
        // Nearly all of them. The way below costs 20,000 instructions for an id.
        if text.allSatisfy({ (0x20..<0x7F).contains($0) }) { return String(decoding: text.prefix(most), as: UTF8.self) }
        let text = String(decoding: text.prefix(most), as: UTF8.self)
        return String(String.UnicodeScalarView(text.unicodeScalars.map { $0.isUnprintable ? " " : $0 }))
    }
}

/// The response on one stream as far as it has arrived.
struct IncomingResponse {
    /// The parts of a response with status 2xx that are kept.
    enum Detail {
        case nothing, ids
        /// Also the body, for a channel call.
        case whole
    }

    /// The headers of a response that few owners ask for, behind a pointer.
    private final class IDs {
        var apns: String?
        var unique: String?
        var channel: String?
    }

    /// The status of the final header block, or of an interim one (1xx) before it; 0 for an invalid status.
    private(set) var status = 0
    private var ids: IDs?
    /// The seconds of `retry-after`, 0 to a million; of a date (RFC 9110, 10.2.3) the seconds until then.
    private(set) var retryAfter: Int?
    /// At most `ResponseBody.mostBytes`, or `ResponseBody.mostChannelBytes` of a channel call.
    private(set) var body: [UInt8] = []
    /// The current block follows the final one and is ignored.
    private var isTrailer = false
    var detail: Detail

    init(collectsAPNSID: Bool) { detail = collectsAPNSID ? .ids : .nothing }

    var apnsID: String? { ids?.apns }
    var uniqueID: String? { ids?.unique }

    /// Of a response with status 2xx; `nil` without details.
    var acceptance: Acceptance? {
        if detail == .nothing || ids == nil && body.isEmpty { return nil }
        return Acceptance(apnsID: ids?.apns, uniqueID: ids?.unique, channelID: ids?.channel, body: detail == .whole ? body : [])
    }

    /// A header block starts. An interim response is followed by the final one (RFC 9110, 15.2).
    mutating func beginBlock() {
        isTrailer = status >= 200
        if !isTrailer { status = 0 }
    }

    mutating func note(_ name: Span<UInt8>, _ value: Span<UInt8>) {
        if isTrailer { return }
        switch name.count {
        case 7 where IncomingResponse.isEqual(name, ":status"): status = IncomingResponse.status(value)
        case 7 where IncomingResponse.isEqual(name, "apns-id"): keep()?.apns = IncomingResponse.id(value)
        case 14 where IncomingResponse.isEqual(name, "apns-unique-id"): keep()?.unique = IncomingResponse.id(value)
        case 15 where IncomingResponse.isEqual(name, "apns-request-id"): keep()?.apns = IncomingResponse.id(value)
        case 15 where IncomingResponse.isEqual(name, "apns-channel-id"):
            keep()?.channel = IncomingResponse.id(value, most: Self.mostChannelID)
        case 11 where IncomingResponse.isEqual(name, "retry-after"):
            retryAfter = IncomingResponse.seconds(String(decoding: IncomingResponse.copy(value, most: 40), as: UTF8.self))
        default: return
        }
    }

    /// Whether `note` does nothing with the value of this field, which nearly all responses have. The status comes first
    /// (RFC 9113, 8.3).
    func ignores(_ name: Span<UInt8>) -> Bool {
        name.count == 7 && detail == .nothing && (200..<300).contains(status) && IncomingResponse.isEqual(name, "apns-id")
    }

    private static func seconds(_ text: String) -> Int? {
        // A number beyond 64 bits has digits only.
        let isNumber = !text.isEmpty && text.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
        let count = Int(text) ?? (isNumber ? .max : nil) ?? UTCDate.unixSeconds(http: text).map { max(0, Int($0) - time(nil)) }
        return count.flatMap { $0 < 0 ? nil : min($0, 1_000_000) }
    }

    /// Characters of a channel id: Apple states no limit.
    private static let mostChannelID = 1000

    /// Where to put an id; `nil` if it is not kept.
    private mutating func keep() -> IDs? {
        if detail == .nothing && (200..<300).contains(status) { return nil }
        let ids = ids ?? IDs()
        self.ids = ids
        return ids
    }

    private static func id(_ value: Span<UInt8>, most: Int = 64) -> String {
        ResponseBody.text(copy(value, most: most), most: most)
    }

    /// Appends DATA; bytes beyond the limit are dropped.
    mutating func append(_ data: Span<UInt8>) {
        let room = (detail == .whole ? ResponseBody.mostChannelBytes : ResponseBody.mostBytes) - body.count
        for place in 0..<min(room, data.count) { body.append(data[place]) }
    }

    private static func isEqual(_ name: Span<UInt8>, _ text: StaticString) -> Bool {
        for place in name.indices where unsafe name[place] != text.utf8Start[place] { return false }
        return true
    }

    private static func copy(_ value: Span<UInt8>, most: Int) -> [UInt8] {
        (0..<min(most, value.count)).map { value[$0] }
    }

    /// Reads three digits, or returns 0 for another text (RFC 9110, 15).
    private static func status(_ digits: Span<UInt8>) -> Int {
        guard digits.count == 3 else { return 0 }
        var status = 0
        for place in digits.indices {
            guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(digits[place]) else { return 0 }
            status = status * 10 + Int(digits[place] - UInt8(ascii: "0"))
        }
        return status
    }
}
