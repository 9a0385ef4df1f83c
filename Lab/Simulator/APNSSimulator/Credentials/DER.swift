/// The DER encoding (X.690) of topic lists and ECDSA signatures. Independent of the product's code, which it tests.
enum DER {
    static let integer: UInt8 = 0x02
    static let utf8String: UInt8 = 0x0C
    static let sequence: UInt8 = 0x30

    static func encode(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
        switch content.count {
        case ..<128: [tag, UInt8(content.count)] + content
        case ..<256: [tag, 0x81, UInt8(content.count)] + content
        default: [tag, 0x82, UInt8(content.count >> 8 & 0xFF), UInt8(content.count & 0xFF)] + content
        }
    }

    /// Removes the first element; `nil` if the bytes are not a complete element.
    static func take(_ rest: inout ArraySlice<UInt8>) -> (tag: UInt8, content: ArraySlice<UInt8>)? {
        guard let tag = rest.popFirst(), let first = rest.popFirst() else { return nil }
        var length = Int(first)
        if first >= 0x80 {
            let size = Int(first & 0x7F)
            guard (1...2).contains(size), rest.count >= size else { return nil }
            length = rest.prefix(size).reduce(0) { $0 << 8 | Int($1) }
            rest = rest.dropFirst(size)
        }
        guard rest.count >= length else { return nil }
        defer { rest = rest.dropFirst(length) }
        return (tag, rest.prefix(length))
    }
}
