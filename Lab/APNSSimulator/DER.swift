/// The few DER forms that certificates of APNs and ECDSA signatures need (X.690).
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

    /// Takes one element off the front; `nil` when the bytes are not one, or claim to be longer than they are.
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

/// The topics of a certificate as extension 1.2.840.113635.100.6.3.6 lists them: a sequence of pairs, each a topic
/// (UTF8String) and a sequence of the services it is for.
enum TopicList {
    static func encode(_ topics: [(name: String, service: String)]) -> [UInt8] {
        let pairs = topics.flatMap { topic in
            DER.encode(DER.utf8String, Array(topic.name.utf8))
                + DER.encode(DER.sequence, DER.encode(DER.utf8String, Array(topic.service.utf8)))
        }
        return DER.encode(DER.sequence, pairs)
    }

    /// The topics alone; what cannot be read is left out.
    static func decode(_ bytes: [UInt8]) -> [[UInt8]] {
        var outer = bytes[...]
        guard let list = DER.take(&outer), list.tag == DER.sequence else { return [] }
        var rest = list.content
        var topics: [[UInt8]] = []
        while let element = DER.take(&rest) {
            if element.tag == DER.utf8String { topics.append(Array(element.content)) }
        }
        return topics
    }
}

/// The two numbers of a P-256 signature, 32 bytes each.
struct ECDSASignature {
    private let numbers: [[UInt8]]

    /// r || s.
    init?(jose: [UInt8]) {
        guard jose.count == 64 else { return nil }
        numbers = [Array(jose[..<32]), Array(jose[32...])]
    }

    init?(der: [UInt8]) {
        var outer = der[...]
        guard let pair = DER.take(&outer), pair.tag == DER.sequence, outer.isEmpty else { return nil }
        var rest = pair.content
        var numbers: [[UInt8]] = []
        while let element = DER.take(&rest) {
            let digits = element.content.drop { $0 == 0 }
            guard element.tag == DER.integer, digits.count <= 32 else { return nil }
            numbers.append(Array(repeating: 0, count: 32 - digits.count) + digits)
        }
        guard numbers.count == 2, rest.isEmpty else { return nil }
        self.numbers = numbers
    }

    var jose: [UInt8] { numbers[0] + numbers[1] }

    var der: [UInt8] {
        DER.encode(DER.sequence, numbers.flatMap { number in
            let digits = number.drop { $0 == 0 }
            // A leading one-bit would make the number negative; zero has one digit.
            let isClear = digits.first.map { $0 < 0x80 } ?? false
            return DER.encode(DER.integer, (isClear ? [] : [0]) + digits)
        })
    }
}
