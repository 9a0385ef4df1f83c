/// The two numbers of a P-256 signature, 32 bytes each.
struct ECDSASignature {
    private let numbers: [[UInt8]]

    /// - Parameter jose: r || s (RFC 7518, 3.4).
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
        DER.encode(
            DER.sequence,
            numbers.flatMap { number in
                let digits = number.drop { $0 == 0 }
                // A leading 1 bit makes the number negative. Zero has one digit.
                let isClear = digits.first.map { $0 < 0x80 } ?? false
                return DER.encode(DER.integer, (isClear ? [] : [0]) + digits)
            })
    }
}
