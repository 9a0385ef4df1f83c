internal import JSONBytes

/// The body of a response other than 2xx: `{"reason": "…", "timestamp": n}` from APNs, or any text from a proxy.
struct ResponseBody: Equatable {
    /// The JSON's `reason`; the first 200 bytes as text if the body is not such JSON; "" if it is empty.
    var reason = ""
    /// Milliseconds since 1970.
    var timestamp: Int64?

    /// Bytes of a body that are kept: APNs sends fewer than 100.
    static let mostBytes = 4096
    /// Bytes of a text that are kept.
    static let mostText = 200

    init(_ body: [UInt8]) {
        let object = try? JSONValue.parse(body)
        reason = ResponseBody.text(object?["reason"]?.stringValue.map { Array($0.utf8) } ?? body)
        timestamp = object?["timestamp"]?.integerValue
    }

    /// Returns the beginning of a text as one printable line.
    static func text(_ text: [UInt8]) -> String {
        let text = String(decoding: text.prefix(mostText), as: UTF8.self)
        return String(String.UnicodeScalarView(text.unicodeScalars.map { $0.isUnprintable ? " " : $0 }))
    }
}
