internal import JSONBytes

/// What an answer other than 200 says in its body: `{"reason": "…", "timestamp": n}`, or whatever a proxy put there.
struct ResponseBody: Equatable {
    /// The JSON's `reason`; the first 200 bytes as text where the body is no such JSON; "" where there is none.
    var reason = ""
    /// Milliseconds since 1970.
    var timestamp: Int64?

    /// Bytes of a body that are kept: APNs sends less than 100.
    static let mostBytes = 4096
    /// Bytes of a body that is no JSON which go into a reason.
    static let mostText = 200

    init(_ body: [UInt8]) {
        var scanner = Scanner(bytes: body)
        if let found = scanner.object() {
            reason = found.reason ?? ResponseBody.text(body)
            timestamp = found.timestamp
        } else {
            reason = ResponseBody.text(body)
        }
    }

    /// The beginning of a body as one printable line.
    static func text(_ body: [UInt8]) -> String {
        let text = String(decoding: body.prefix(mostText), as: UTF8.self)
        return String(String.UnicodeScalarView(text.unicodeScalars.map { $0.isUnprintable ? " " : $0 }))
    }
}

/// Finds two members of one flat object. Anything else in the object is skipped, however it is made.
private struct Scanner {
    let bytes: [UInt8]
    var at = 0

    init(bytes: [UInt8]) { self.bytes = bytes }

    /// The members that matter, or `nil` where this is no object or breaks off.
    mutating func object() -> (reason: String?, timestamp: Int64?)? {
        var found: (reason: String?, timestamp: Int64?) = (nil, nil)
        guard take(UInt8(ascii: "{")) else { return nil }
        if take(UInt8(ascii: "}")) { return found }
        while true {
            guard let key = string(), take(UInt8(ascii: ":")) else { return nil }
            skipSpace()
            switch (key, peek) {
            case ("reason", UInt8(ascii: "\"")):
                guard let text = string() else { return nil }
                found.reason = ResponseBody.text(Array(text.utf8))
            case ("timestamp", _):
                let start = at
                guard skipValue() else { return nil }
                found.timestamp = integer(start..<at)
            default:
                guard skipValue() else { return nil }
            }
            if take(UInt8(ascii: ",")) { continue }
            return take(UInt8(ascii: "}")) ? found : nil
        }
    }

    private var peek: UInt8? { at < bytes.count ? bytes[at] : nil }

    private mutating func skipSpace() {
        while let byte = peek, byte == 0x20 || (0x09...0x0D).contains(byte) { at += 1 }
    }

    private mutating func take(_ byte: UInt8) -> Bool {
        skipSpace()
        guard peek == byte else { return false }
        at += 1
        return true
    }

    /// A string without its quotes; escapes other than `\uXXXX` stand for their character.
    private mutating func string() -> String? {
        guard take(UInt8(ascii: "\"")) else { return nil }
        var text: [UInt8] = []
        while let byte = peek {
            at += 1
            if byte == UInt8(ascii: "\"") { return String(decoding: text, as: UTF8.self) }
            guard byte == UInt8(ascii: "\\") else {
                text.append(byte)
                continue
            }
            guard let escaped = peek else { return nil }
            at += 1
            switch escaped {
            case UInt8(ascii: "u"):
                let end = min(at + 4, bytes.count)
                let digits = String(decoding: bytes[at..<end], as: UTF8.self)
                at = end
                let scalar = UInt32(digits, radix: 16).flatMap(Unicode.Scalar.init) ?? "\u{FFFD}"
                text.append(contentsOf: String(Character(scalar)).utf8)
            case UInt8(ascii: "n"), UInt8(ascii: "r"), UInt8(ascii: "t"), UInt8(ascii: "b"), UInt8(ascii: "f"):
                text.append(0x20)
            default: text.append(escaped)
            }
        }
        return nil
    }

    /// Steps over one value, nested ones included, by counting brackets outside of strings.
    private mutating func skipValue() -> Bool {
        var depth = 0
        let start = at
        while let byte = peek {
            switch byte {
            case UInt8(ascii: "\""):
                guard string() != nil else { return false }
                continue
            case UInt8(ascii: "{"), UInt8(ascii: "["): depth += 1
            case UInt8(ascii: ","):
                if depth == 0 { return at > start }
            case UInt8(ascii: "}"), UInt8(ascii: "]"):
                if depth == 0 { return at > start }
                depth -= 1
            default: break
            }
            at += 1
        }
        return false
    }

    private func integer(_ range: Range<Int>) -> Int64? {
        let digits = bytes[range].filter { $0 != 0x20 && !(0x09...0x0D).contains($0) }
        return Int64(String(decoding: digits, as: UTF8.self))
    }
}
