internal import CNghttp2

/// Reads the header blocks of answers: nghttp2's HPACK decoder. One for a connection, for its table lives as long.
@safe struct HeaderInflater: ~Copyable {
    private let inflater: OpaquePointer
    /// Bytes of names and values in the block being read, as SETTINGS_MAX_HEADER_LIST_SIZE counts them (RFC 9113, 6.5.2).
    private var listBytes = 0

    /// A few bytes of a block can name the same large entry again and again.
    static let mostListBytes = 64 << 10

    init() {
        var inflater: OpaquePointer?
        // The only failure is a lack of memory, at which every allocation in Swift traps as well.
        guard unsafe nghttp2_hd_inflate_new(&inflater) == 0, let inflater = unsafe inflater else {
            preconditionFailure("no memory for an HPACK decoder")
        }
        unsafe self.inflater = unsafe inflater
    }

    deinit { unsafe nghttp2_hd_inflate_del(inflater) }

    /// Takes in the next bytes of a block and tells the answer about each field in it.
    mutating func inflate(_ fragment: Span<UInt8>, isLast: Bool, into response: inout IncomingResponse) throws(HTTP2Error) {
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
                    throw HTTP2Error(.enhanceYourCalm, "a header list without end")
                }
                let name = unsafe UnsafeBufferPointer(start: field.name, count: field.namelen)
                unsafe response.note(name.span, UnsafeBufferPointer(start: field.value, count: field.valuelen).span)
            } else if flags & CInt(NGHTTP2_HD_INFLATE_FINAL.rawValue) != 0 {
                unsafe nghttp2_hd_inflate_end_headers(inflater)
                listBytes = 0
                return
            } else if place == fragment.count {
                return
            }
        }
    }
}
