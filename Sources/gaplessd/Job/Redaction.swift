internal import JSONBytes

/// The setting `log_redact`: hides device tokens, except their beginnings, and payloads from logs, pages and calls.
struct Redaction: Sendable, Equatable {
    /// Characters of a token that stay.
    static let tokenCharacters = 8

    var isOn: Bool

    /// Returns a token, or its beginning.
    func token(_ text: String) -> String { isOn ? String(text.prefix(Self.tokenCharacters)) : text }

    /// Returns bytes that may contain tokens and a payload, or `nil`: then only their number is shown.
    func content(_ bytes: [UInt8]) -> [UInt8]? { isOn ? nil : bytes }

    /// Returns a job for the log: without `data`, with the first 8 hex digits of each device token, and with `null` for a token
    /// that is not a string. For bytes that are not a JSON object it returns only their number.
    func job(_ bytes: [UInt8]) -> [UInt8] {
        if !isOn { return bytes }
        guard let object = JobObject(bytes) else { return Array(bytes.count.logged("byte").utf8) }
        let edits = object.members.compactMap { member in
            switch member.key {
            case .token: (member.value.range, Self.token(member.value, of: bytes))
            case .tokens: (member.value.range, Self.tokens(member.value, of: bytes))
            default: nil
            }
        }
        let cut = JobObject.replacing(edits, in: bytes)
        return JobObject(cut)?.removing { $0.key == .data } ?? []
    }

    private static func tokens(_ list: JSONSlice, of bytes: [UInt8]) -> [UInt8] {
        var cursor = JSONCursor(at: list.range.lowerBound)
        guard list.kind == .array, (try? cursor.enterArray(in: bytes.span)) != nil else { return Array("null".utf8) }
        var text = [UInt8(ascii: "[")]
        while (try? cursor.advanceToElement(in: bytes.span)) == true, let value = try? cursor.value(in: bytes.span) {
            if text.count > 1 { text.append(UInt8(ascii: ",")) }
            text += token(value, of: bytes)
        }
        return text + [UInt8(ascii: "]")]
    }

    private static func token(_ value: JSONSlice, of bytes: [UInt8]) -> [UInt8] {
        guard value.kind == .string else { return Array("null".utf8) }
        let quote = [UInt8(ascii: "\"")]
        let text = value.hasEscapes ? value.utf8(in: bytes.span)[...] : bytes[value.content]
        let digits = text.filter { !Job.isIgnoredInToken($0) }
        return quote + digits.prefix(tokenCharacters).prefix(while: isHex) + quote
    }
}
