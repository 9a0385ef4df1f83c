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
    /// `apns-id`. Returns `false` for every other block and for an error. nghttp2 then reads the block from its start and notes
    /// the first fields again, which changes nothing, because the last of equal fields counts.
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
        guard text.append(from: block, at: &place) else { return nil }
        unsafe response.note(name.span, text.bytes.span.extracting(..<text.count))
        return unsafe entry.namelen + text.count
    }
}
