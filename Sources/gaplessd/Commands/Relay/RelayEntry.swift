import JSONBytes
import RedisQueue

/// One entry of the results stream.
struct RelayEntry: Equatable {
    /// The fields whose text is a number.
    private static let numbers: Set<String> = [
        "status", "attempts", "at", "timestamp", "claimed_at", "sent_at", "responded_at",
    ]

    /// Its id in the stream.
    var id: String
    var fields: [(name: String, value: String)]

    static func == (left: Self, right: Self) -> Bool {
        left.id == right.id && left.fields.elementsEqual(right.fields) { $0.name == $1.name && $0.value == $1.value }
    }

    init(id: String, fields: [(name: String, value: String)]) { (self.id, self.fields) = (id, fields) }

    /// Reads `[id, [field, value, …]]`; `nil` for an entry that was deleted from the stream.
    init?(_ reply: RedisReply) {
        guard let parts = reply.items, parts.count == 2, let id = parts[0].text, let texts = parts[1].items else { return nil }
        let words = texts.map { $0.text ?? "" }
        self.init(id: id, fields: stride(from: 0, to: words.count - 1, by: 2).map { (words[$0], words[$0 + 1]) })
    }

    /// An object with the id of the entry and its fields. An empty value is `null`. Others may have written any field: a number
    /// that JSON does not allow is a string, and of fields with the same name the last one counts.
    var json: JSONValue {
        var names: Set<String> = ["id"]
        let last = fields.reversed().filter { names.insert($0.name).inserted }.reversed()
        let members = last.map { field -> JSONMember in
            let isNumber = Self.numbers.contains(field.name) && Self.isInteger(field.value)
            let value: JSONValue = field.value.isEmpty ? .null : isNumber ? .number(field.value) : .string(field.value)
            return JSONMember(field.name, value)
        }
        return .object([JSONMember("id", .string(id))] + members)
    }

    /// Whether the text is an integer in the grammar of JSON (RFC 8259, 6) with at most 64 bits. `Int64` also reads `+1` and
    /// `007`.
    private static func isInteger(_ text: String) -> Bool { Int64(text).map { "\($0)" == text } ?? false }

    /// The body of a request: a JSON array.
    static func body(_ entries: [RelayEntry]) -> [UInt8] { JSONValue.array(entries.map(\.json)).bytes }
}
