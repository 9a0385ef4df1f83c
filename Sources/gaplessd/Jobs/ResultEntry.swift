internal import JSONBytes

/// A final outcome: one entry of the stream of results, whose fields are all text. What is unknown is an empty text.
struct ResultEntry: Sendable, Equatable {
    /// Raw JSON, an integer or a string; in the stream a string stands without its quotes and escapes.
    var identifier: [UInt8]?
    var token: String?
    /// 200 for a delivered push; `nil` where APNs never answered.
    var status: Int?
    var reason: String?
    var apnsID: String?
    /// How often it was sent.
    var attempts: Int
    /// Unix seconds.
    var at: Int64

    /// Field, value, field, value … as XADD takes them.
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
