internal import CNghttp2

/// Decodes the header blocks of responses. Each connection has one, because the dynamic table lives as long.
///
/// The table is nghttp2's, which decodes each block that may change it. A server that keeps the ids of its responses out of the
/// table sends few such blocks; `readStaticBlock` decodes the others.
@safe struct HeaderInflater: ~Copyable {
    private let inflater: OpaquePointer
    /// The size of the current block's header list, counted as SETTINGS_MAX_HEADER_LIST_SIZE does (RFC 9113, 6.5.2).
    private var listBytes = 0
    /// Whether nghttp2 has read a part of the current block.
    private var isInBlock = false
    private var text = HeaderText()

    /// A few bytes of a block can name the same large entry repeatedly.
    static let mostListBytes = 64 << 10

    init() {
        var inflater: OpaquePointer?
        // The only possible failure is a lack of memory, which traps everywhere in Swift.
        guard unsafe nghttp2_hd_inflate_new(&inflater) == 0, let inflater = unsafe inflater else {
            preconditionFailure("no memory for an HPACK decoder")
        }
        unsafe self.inflater = unsafe inflater
    }

    deinit { unsafe nghttp2_hd_inflate_del(inflater) }

    /// Decodes the next bytes of a block and passes each field to the response.
    mutating func inflate(_ fragment: Span<UInt8>, isLast: Bool, into response: inout IncomingResponse) throws(HTTP2Error) {
        if isLast && !isInBlock && readStaticBlock(fragment, into: &response) { return }
        isInBlock = true
        var place = 0
        while true {
            var field = unsafe nghttp2_nv()
            var flags: CInt = 0
            let rest = fragment.extracting(place...)
            let count = unsafe rest.withUnsafeBufferPointer { bytes in
                unsafe nghttp2_hd_inflate_hd2(inflater, &field, &flags, bytes.baseAddress, bytes.count, isLast ? 1 : 0)
            }
            guard count >= 0 else { throw HTTP2Error(.compressionError, "a header block that HPACK cannot read") }
            place += count
            if flags & CInt(NGHTTP2_HD_INFLATE_EMIT.rawValue) != 0 {
                unsafe listBytes += field.namelen + field.valuelen + HPACKTable.entryOverhead
                guard listBytes <= Self.mostListBytes else {
                    throw HTTP2Error(.enhanceYourCalm, "an endless header list")
                }
                let name = unsafe UnsafeBufferPointer(start: field.name, count: field.namelen)
                unsafe response.note(name.span, UnsafeBufferPointer(start: field.value, count: field.valuelen).span)
            } else if flags & CInt(NGHTTP2_HD_INFLATE_FINAL.rawValue) != 0 {
                unsafe nghttp2_hd_inflate_end_headers(inflater)
                listBytes = 0
                isInBlock = false
                return
            } else if place == fragment.count {
                return
            }
        }
    }

    /// Reads a block that leaves the dynamic table as it is: in 1,370 instructions instead of nghttp2's 2,220, measured with an
    /// `apns-id` that is kept. The `apns-id` of an acceptance that is not kept is skipped, which saves 1,000 more:
    /// its Huffman code is not checked.
    ///
    /// Returns `false` for every other block and for an error. nghttp2 then reads the block from its start and notes the first
    /// fields again, which changes nothing, because the last of equal fields counts.
    mutating func readStaticBlock(_ block: Span<UInt8>, into response: inout IncomingResponse) -> Bool {
        var place = 0
        var listBytes = 0
        while place < block.count {
            guard let size = readStaticField(block, at: &place, into: &response) else { return false }
            listBytes += size + HPACKTable.entryOverhead
            if listBytes > Self.mostListBytes { return false }
        }
        return true
    }

    /// Reads an indexed field, or a literal without indexing or never indexed (RFC 7541, 6.1, 6.2.2, 6.2.3). Returns the size of
    /// its name and value.
    private mutating func readStaticField(
        _ block: Span<UInt8>, at place: inout Int, into response: inout IncomingResponse
    ) -> Int? {
        let isIndexed = block[place] & 0x80 != 0
        let isLiteral = block[place] & 0xE0 == 0
        guard isIndexed || isLiteral, let index = block.integer(at: &place, prefix: isIndexed ? 7 : 4) else { return nil }
        text.removeAll()
        if isLiteral && index == 0 {
            guard text.append(from: block, at: &place) else { return nil }
            let nameCount = text.count
            if response.ignores(text.bytes.span.extracting(..<nameCount)) {
                return block.skipText(at: &place).map { nameCount + $0 }
            }
            guard text.append(from: block, at: &place) else { return nil }
            response.note(text.bytes.span.extracting(..<nameCount), text.bytes.span.extracting(nameCount..<text.count))
            return text.count
        }
        guard let entry = unsafe nghttp2_hd_inflate_get_table_entry(inflater, index)?.pointee else { return nil }
        let name = unsafe UnsafeBufferPointer(start: entry.name, count: entry.namelen)
        if isIndexed {
            unsafe response.note(name.span, UnsafeBufferPointer(start: entry.value, count: entry.valuelen).span)
            return unsafe entry.namelen + entry.valuelen
        }
        if unsafe response.ignores(name.span) { return block.skipText(at: &place).map { unsafe entry.namelen + $0 } }
        guard text.append(from: block, at: &place) else { return nil }
        unsafe response.note(name.span, text.bytes.span.extracting(..<text.count))
        return unsafe entry.namelen + text.count
    }
}

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

    /// Skips a string. Returns the most characters that it can have (a code has 5 bits at least), or `nil` as `integer` does.
    func skipText(at place: inout Int) -> Int? {
        guard let length = integer(at: &place, prefix: 7), length <= count - place else { return nil }
        place += length
        return length * 8 / 5
    }
}

/// The short codes of HPACK's Huffman code (RFC 7541, appendix B): those of 5 to 8 bits, which letters, digits and the usual
/// punctuation have.
struct HuffmanCode {
    private(set) var symbol: UInt8 = 0
    /// The length of the code in bits; 0 for the start of a longer code.
    private(set) var length: UInt8 = 0

    /// The codes by the first 8 bits of a text. The code is canonical: a shorter code is less than a longer one, and codes of
    /// the same length are consecutive numbers. Therefore, two values are left for all longer codes.
    static let table: InlineArray<256, HuffmanCode> = {
        let symbols: [(length: UInt8, StaticString)] = [
            (5, "012aceiost"), (6, " %-./3456789=A_bdfghlmnpru"), (7, ":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz"), (8, "&*,;XZ"),
        ]
        var table = InlineArray<256, HuffmanCode>(repeating: HuffmanCode())
        var place = 0
        for (length, symbols) in symbols {
            for symbol in symbols.description.utf8 {
                for _ in 0..<1 << (8 - length) {
                    table[place] = HuffmanCode(symbol: symbol, length: length)
                    place += 1
                }
            }
        }
        return table
    }()
}
