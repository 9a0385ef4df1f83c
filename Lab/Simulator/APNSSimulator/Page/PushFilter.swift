/// Selects pushes by the query of a request: `q`, a text in any case, and `kind`.
struct PushFilter: Sendable, Equatable {
    var text = ""
    var kind: LockScreenCard.Kind?

    init(query: String = "") {
        for pair in query.split(separator: "&") {
            let sides = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let value = Self.decoded(sides.count > 1 ? sides[1] : "")
            switch sides[0] {
            case "q": text = value
            case "kind": kind = LockScreenCard.Kind(rawValue: value)
            default: break
            }
        }
    }

    func admits(_ push: RecentPush, _ card: LockScreenCard) -> Bool {
        if let kind, kind != card.kind { return false }
        if text.isEmpty { return true }
        let texts = [card.title, card.subtitle, card.body, push.token, push.verdict.label]
        let wanted = text.lowercased()
        return (texts + card.marks + push.headers.map(\.value)).contains { $0.lowercased().contains(wanted) }
    }

    /// Decodes the value of a form field (WHATWG URL, application/x-www-form-urlencoded).
    private static func decoded(_ value: Substring) -> String {
        var bytes: [UInt8] = []
        var rest = Array(value.utf8)[...]
        while let byte = rest.popFirst() {
            let digits = String(decoding: rest.prefix(2), as: UTF8.self)
            let isEscape = byte == UInt8(ascii: "%") && digits.utf8.count == 2 && digits.utf8.allSatisfy(\.isHexDigit)
            if isEscape, let code = UInt8(digits, radix: 16) {
                bytes.append(code)
                rest = rest.dropFirst(2)
            } else {
                bytes.append(byte == UInt8(ascii: "+") ? UInt8(ascii: " ") : byte)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
