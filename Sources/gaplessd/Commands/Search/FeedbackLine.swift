import JSONBytes

/// Formats an entry of the feedback list.
enum FeedbackLine {
    /// `410 Unregistered  dead  token 071c…  topic com.example.app  ID 154`.
    ///
    /// - Parameter redacts: `log_redact`.
    static func text(_ entry: [UInt8], redacts: Bool) -> String {
        guard let record = try? JSONValue.parse(entry), case .object = record else {
            return "unreadable, \(entry.count.counted("byte"))"
        }
        func text(_ key: String) -> String? {
            switch record[key] {
            case .string(let text): text
            case .number(let digits): digits
            default: nil
            }
        }
        let token = text("token").map { redacts ? String($0.prefix(8)) : $0 }
        let status = [text("status"), text("reason")].compactMap(\.self).joined(separator: " ")
        let parts: [String?] = [
            status, text("verdict"), token.map { "token \($0)" }, text("topic").map { "topic \($0)" },
            text("identifier").map { "ID \($0)" },
        ]
        return parts.compactMap(\.self).joined(separator: "  ").printable
    }

    /// Returns the entry on one line. An entry that is not JSON becomes base64, so that every line is JSON.
    static func json(_ entry: [UInt8]) -> String {
        if (try? JSONValue.parse(entry)) != nil, isValidUTF8(entry) {
            return String(decoding: Job.onOneLine(entry), as: UTF8.self)
        }
        let encoded = String(decoding: Base64.encode(entry), as: UTF8.self)
        return JSONValue.members(["unreadable_base64": .string(encoded)]).line
    }
}
