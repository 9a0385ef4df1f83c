/// Takes the choices of a target from the bytes of a fuzzer. Used up, it yields zeros.
struct FuzzInput {
    private(set) var rest: ArraySlice<UInt8>

    init(_ bytes: [UInt8]) { rest = bytes[...] }

    var isEmpty: Bool { rest.isEmpty }

    mutating func byte() -> UInt8 { rest.popFirst() ?? 0 }

    /// The next bytes, as many as there are up to `count`.
    mutating func bytes(_ count: Int) -> [UInt8] {
        defer { rest = rest.dropFirst(count) }
        return Array(rest.prefix(count))
    }

    /// The rest in pieces, whose size the first byte chooses.
    mutating func pieces() -> [[UInt8]] {
        let size = [Int.max, 1, 2, 3, 9, 50, 1000, 16_384][Int(byte()) % 8]
        var pieces: [[UInt8]] = []
        while !isEmpty { pieces.append(bytes(size)) }
        return pieces
    }

    /// A number of 64 bits in decimal up to the next line end, clamped to the range of `Int64`; 0 for another text.
    mutating func number() -> Int64 {
        let line = rest.prefix { $0 != UInt8(ascii: "\n") }
        rest = rest.dropFirst(line.count + 1)
        let text = String(decoding: line, as: UTF8.self)
        return Int64(text) ?? (Double(text).map { $0 < 0 ? .min : .max } ?? 0)
    }
}
