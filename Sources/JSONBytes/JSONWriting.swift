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
        if let letter = letterOfEscape(of: byte) {
            append(letter)
        } else {
            append(contentsOf: "u00".utf8)
            appendHex(byte)
        }
    }
}

/// The byte after the backslash of an escape of two bytes; `nil` for a byte whose escape has six.
private func letterOfEscape(of byte: UInt8) -> UInt8? {
    switch byte {
    case ASCII.quote, ASCII.backslash: byte
    case 0x08: UInt8(ascii: "b")
    case 0x09: UInt8(ascii: "t")
    case 0x0A: UInt8(ascii: "n")
    case 0x0C: UInt8(ascii: "f")
    case 0x0D: UInt8(ascii: "r")
    default: nil
    }
}

/// The number of bytes that `appendJSONString` writes as six: control characters that occur nowhere in JSON.
public func countLongEscapes(_ bytes: [UInt8]) -> Int {
    var count = 0
    for byte in bytes where byte < 0x20 && letterOfEscape(of: byte) == nil { count += 1 }
    return count
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
