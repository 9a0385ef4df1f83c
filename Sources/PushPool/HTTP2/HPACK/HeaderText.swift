/// The name and the value of a header field that a block spells out (RFC 7541, 5.2). It is used again for each field.
struct HeaderText {
    /// Enough for a name and a value of 254 bytes each, whose length takes two bytes, if all codes have 5 bits.
    private(set) var bytes = InlineArray<1024, UInt8>(repeating: 0)
    private(set) var count = 0
    /// A copy: each access to a global constant would check whether it has a value.
    private let codes = HuffmanCode.table

    mutating func removeAll() { count = 0 }

    /// Appends the string at this place of a block. Returns `false` for an error, and for a string that is long or has a
    /// character with a long code.
    mutating func append(from block: Span<UInt8>, at place: inout Int) -> Bool {
        guard place < block.count else { return false }
        let isHuffman = block[place] & 0x80 != 0
        guard let length = block.integer(at: &place, prefix: 7), length <= block.count - place else { return false }
        let text = block.extracting(place..<place + length)
        place += length
        if isHuffman { return append(huffman: text) }
        for place in text.indices {
            bytes[count] = text[place]
            count += 1
        }
        return true
    }

    /// Ones follow the last code up to the end of its byte (RFC 7541, 5.2). With one more byte of ones, they are the only bits
    /// after which the text has ended but no code has.
    private mutating func append(huffman text: Span<UInt8>) -> Bool {
        /// The bits that are read and not yet decoded, from the highest bit.
        var bits: UInt64 = 0
        var bitCount: UInt64 = 0
        var end = count
        var place = 0
        while place <= text.count {
            if text.count - place >= 4 {
                bits |= UInt64(text.number(at: place)) &<< (32 &- bitCount)
                bitCount &+= 32
                place &+= 4
            } else {
                bits |= UInt64(place < text.count ? text[place] : 0xFF) &<< (56 &- bitCount)
                bitCount &+= 8
                place &+= 1
            }
            while bitCount >= 8 {
                let code = codes[Int(bits &>> 56)]
                if code.length == 0 {
                    count = end
                    return place > text.count
                }
                bytes[end] = code.symbol
                end &+= 1
                bits &<<= UInt64(code.length)
                bitCount &-= UInt64(code.length)
            }
        }
        return false
    }
}

extension Span<UInt8> {
    /// Reads an integer that starts with the last bits of a byte and takes at most one more (RFC 7541, 5.1). Returns `nil` for a
    /// larger one, and at the end of the block.
    func integer(at place: inout Int, prefix bits: Int) -> Int? {
        guard place < count else { return nil }
        let most = 1 << bits - 1
        let first = Int(self[place]) & most
        place += 1
        if first < most { return first }
        guard place < count, self[place] < 0x80 else { return nil }
        place += 1
        return most + Int(self[place - 1])
    }
}
