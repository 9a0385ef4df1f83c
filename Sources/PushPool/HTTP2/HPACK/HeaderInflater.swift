internal import CNghttp2

/// Decodes the header blocks of responses with nghttp2's HPACK decoder. Each connection has one, because the table lives as
/// long.
@safe struct HeaderInflater: ~Copyable {
    private let inflater: OpaquePointer
    /// The size of the current block's header list, counted as SETTINGS_MAX_HEADER_LIST_SIZE does (RFC 9113, 6.5.2).
    private var listBytes = 0

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
                return
            } else if place == fragment.count {
                return
            }
        }
    }
}
