internal import JSONBytes

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

    /// Returns field, value, field, value … in the order of XADD.
    func fields() -> [[UInt8]] {
        let values: [(String, [UInt8])] = [
            ("identifier", identifierText()),
            ("token", Array((token ?? "").utf8)),
            ("status", Array((status.map { "\($0)" } ?? "").utf8)),
            ("reason", Array((reason ?? "").utf8)),
            ("apns_id", Array((apnsID ?? "").utf8)),
            ("attempts", Array("\(attempts)".utf8)),
            ("at", Array("\(at)".utf8)),
        ]
        return values.flatMap { [Array($0.utf8), $1] }
    }

    private func identifierText() -> [UInt8] {
        guard let identifier, identifier.first == UInt8(ascii: "\"") else { return identifier ?? [] }
        var cursor = JSONCursor()
        return (try? cursor.value(in: identifier.span))?.utf8(in: identifier.span) ?? identifier
    }
}
