// Writes the daemon's records.
extension [UInt8] {
    /// Appends `text` as a JSON string with quotes and only the necessary escapes, so that it is read back byte for byte.
    public mutating func appendJSONString(_ text: String) {
        appendJSONString(utf8: Array(text.utf8))
    }

    /// Appends bytes that are valid UTF-8 (see `isValidUTF8`) as a JSON string; they are not checked again.
    public mutating func appendJSONString(utf8 bytes: [UInt8]) {
        append(ASCII.quote)
        let span = bytes.span
        var (plainFrom, at) = (0, 0)
        while true {
            at = Grammar.afterPlain(span, at)
            if at >= bytes.count { break }
            let byte = bytes[at]
            if byte < 0x80 {
                append(contentsOf: bytes[plainFrom..<at])
                appendEscape(of: byte)
                plainFrom = at + 1
            }
            at += 1
        }
        append(contentsOf: bytes[plainFrom...])
        append(ASCII.quote)
    }

    private mutating func appendEscape(of byte: UInt8) {
        append(ASCII.backslash)
        switch byte {
        case ASCII.quote, ASCII.backslash: append(byte)
        case 0x08: append(UInt8(ascii: "b"))
        case 0x09: append(UInt8(ascii: "t"))
        case 0x0A: append(UInt8(ascii: "n"))
        case 0x0C: append(UInt8(ascii: "f"))
        case 0x0D: append(UInt8(ascii: "r"))
        default:
            append(contentsOf: "u00".utf8)
            appendHex(byte)
        }
    }
}

/// Whether the bytes are valid UTF-8 (The Unicode Standard, table 3-7).
public func isValidUTF8(_ bytes: [UInt8]) -> Bool {
    let span = bytes.span
    var at = 0
    while true {
        at = Grammar.afterPlain(span, at)
        if at >= bytes.count { return true }
        if bytes[at] < 0x80 {
            at += 1
        } else {
            let length = Grammar.wideScalarLength(span, at)
            if length == 0 { return false }
            at += length
        }
    }
}
