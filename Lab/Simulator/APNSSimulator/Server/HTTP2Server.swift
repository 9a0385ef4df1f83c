internal import CNghttp2

/// A server-side `nghttp2_session`: bytes in, requests and answers out. Has no socket.
///
/// nghttp2 ends a connection whose peer exceeds an acknowledged MAX_CONCURRENT_STREAMS, while APNs refuses the stream.
/// Therefore, nghttp2 receives each limit with the bit `unlimited`, `pump` removes that bit from the SETTINGS frame, and this
/// class enforces the limit.
@safe final class HTTP2Server {
    enum Event {
        /// A request is complete. Its stream may be closed already (`isOpen`).
        case request(slot: Int, stream: Int32)
        /// The client began a stream above the limit.
        case overLimit(stream: Int32)
        case ping(UInt64)
        /// A malformed request (RFC 9113, 8.1.1): wrong order, upper case or a repeated pseudo-header.
        case violation
    }

    struct Counts {
        var headerBytes = 0
        var priorityFrames = 0
        var limitViolations = 0
    }

    private static let unlimited: UInt32 = 1 << 31
    private static let settingsType: UInt8 = 4
    private static let maxConcurrentStreamsID: UInt8 = 3

    private let session: OpaquePointer
    private let inbox: UnsafeMutablePointer<Inbox>
    private let headers: UnsafeMutablePointer<nghttp2_nv>
    /// Sends answers in the smallest possible frames.
    var splitsFrames = false
    /// Complete frames that nghttp2 does not send. They follow its own frames.
    private var extraFrames: [UInt8] = []

    init(withholdsWindowUpdates: Bool) {
        unsafe inbox = .allocate(capacity: 1)
        unsafe inbox.initialize(to: Inbox())
        unsafe headers = .allocate(capacity: 6)
        unsafe headers.initialize(repeating: nghttp2_nv(), count: 6)
        var option: OpaquePointer?
        unsafe nghttp2_option_new(&option)
        defer { unsafe nghttp2_option_del(option) }
        unsafe nghttp2_option_set_no_auto_ping_ack(option, 1)
        // With the raised limits, nghttp2 would keep every closed stream for its priority tree.
        unsafe nghttp2_option_set_no_closed_streams(option, 1)
        unsafe nghttp2_option_set_no_auto_window_update(option, withholdsWindowUpdates ? 1 : 0)
        let callbacks = unsafe Inbox.makeCallbacks()
        defer { unsafe nghttp2_session_callbacks_del(callbacks) }
        var session: OpaquePointer?
        unsafe nghttp2_session_server_new2(&session, callbacks, inbox, option)
        guard let session = unsafe session else { preconditionFailure("nghttp2_session_server_new2 is out of memory") }
        unsafe self.session = session
    }

    deinit {
        unsafe nghttp2_session_del(session)
        unsafe headers.deallocate()
        unsafe inbox.deinitialize(count: 1)
        unsafe inbox.deallocate()
    }

    /// The limit for new streams.
    var streamLimit: Int {
        get { unsafe inbox.pointee.streamLimit }
        set { unsafe inbox.pointee.streamLimit = newValue }
    }

    /// Returns the counts since the last call.
    func takeCounts() -> Counts {
        defer { unsafe inbox.pointee.counts = Counts() }
        return unsafe inbox.pointee.counts
    }

    var openStreams: Int { unsafe inbox.pointee.openStreams }
    /// The highest stream id that the client began.
    var highestStream: Int32 { unsafe inbox.pointee.highestStream }
    /// Neither side has frames to send.
    var isOver: Bool { unsafe nghttp2_session_want_read(session) == 0 && nghttp2_session_want_write(session) == 0 }

    /// The request in a slot, accessed without a copy.
    subscript(slot: Int) -> Request {
        _read { yield unsafe inbox.pointee.requests[slot] }
        _modify { yield unsafe &inbox.pointee.requests[slot] }
    }

    /// Returns whether the slot still has this stream: a client may reset a complete request.
    func isOpen(slot: Int, stream: Int32) -> Bool { unsafe inbox.pointee.requests[slot].stream == stream }

    /// Returns the slot of an open stream.
    func slot(of stream: Int32) -> Int? { unsafe Inbox.slot(session, stream) }

    /// Reads bytes and stores their events, oldest first, in `events`. Returns `false` if the bytes are not HTTP/2.
    func receive(_ bytes: UnsafeRawBufferPointer, _ events: inout [Event]) -> Bool {
        let input = unsafe bytes.assumingMemoryBound(to: UInt8.self)
        let consumed = unsafe nghttp2_session_mem_recv(session, input.baseAddress, input.count)
        unsafe swap(&events, &inbox.pointee.events)
        return consumed >= 0
    }

    /// Sends the SETTINGS of APNs, in its order. A later change contains only `streams`.
    func submitSettings(streams: UInt32, isFirst: Bool, initialWindow: UInt32? = nil) {
        unsafe inbox.pointee.announce(limit: Int(streams))
        let limit = nghttp2_settings_entry(
            settings_id: Int32(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS.rawValue), value: streams | HTTP2Server.unlimited)
        let rest = [
            nghttp2_settings_entry(settings_id: Int32(NGHTTP2_SETTINGS_HEADER_TABLE_SIZE.rawValue), value: 4096), limit,
            nghttp2_settings_entry(settings_id: Int32(NGHTTP2_SETTINGS_MAX_FRAME_SIZE.rawValue), value: 16384),
            nghttp2_settings_entry(settings_id: Int32(NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE.rawValue), value: 8000),
        ]
        let window = initialWindow.map {
            nghttp2_settings_entry(settings_id: Int32(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE.rawValue), value: $0)
        }
        let entries = isFirst ? rest + (window.map { [$0] } ?? []) : [limit]
        unsafe nghttp2_submit_settings(session, 0, entries, entries.count)
    }

    /// Sends SETTINGS with another INITIAL_WINDOW_SIZE, which also changes the windows of open streams (RFC 9113, 6.9.2).
    func submitWindow(_ size: UInt32) {
        let entry = nghttp2_settings_entry(settings_id: Int32(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE.rawValue), value: size)
        unsafe nghttp2_submit_settings(session, 0, [entry], 1)
    }

    /// Answers 200; the HEADERS end the stream.
    func accept(slot: Int, uniqueID: [UInt8]?) {
        unsafe HTTP2Server.withBytes("200") { unsafe submit(slot, status: $0, uniqueID, hasBody: false) }
    }

    /// Answers another status with a JSON body.
    func refuse(slot: Int, status: Int, body: [UInt8], uniqueID: [UInt8]?, retryAfter: Int?) {
        unsafe inbox.pointee.answers[slot] = body
        let seconds = retryAfter.map { Array(String($0).utf8) } ?? []
        unsafe Array(String(status).utf8).withUnsafeBufferPointer {
            unsafe submit(slot, status: $0, uniqueID, extra: ("retry-after", seconds), hasBody: true)
        }
    }

    /// Answers a channel management request.
    func reply(slot: Int, _ reply: Channels.Reply) {
        unsafe inbox.pointee.answers[slot] = reply.body
        unsafe Array(String(reply.status).utf8).withUnsafeBufferPointer {
            unsafe submit(slot, status: $0, nil, extra: ("apns-channel-id", reply.channelID ?? []), hasBody: !reply.body.isEmpty)
        }
    }

    func reset(stream: Int32, code: UInt32) {
        unsafe nghttp2_submit_rst_stream(session, 0, stream, code)
    }

    /// Sends a second RST_STREAM for a closed stream, which nghttp2 does not send.
    func resetAgain(stream: Int32, code: UInt32) {
        extraFrames += [0, 0, 4, UInt8(NGHTTP2_RST_STREAM.rawValue), 0]
        for number in [UInt32(bitPattern: stream), code] {
            unsafe withUnsafeBytes(of: number.bigEndian) { unsafe extraFrames += $0 }
        }
    }

    func acknowledgePing(_ opaque: UInt64) {
        unsafe withUnsafeBytes(of: opaque) { raw in
            _ = unsafe nghttp2_submit_ping(
                session, UInt8(NGHTTP2_FLAG_ACK.rawValue), raw.baseAddress?.assumingMemoryBound(to: UInt8.self))
        }
    }

    /// Sends GOAWAY and discards the streams above `last`.
    func goAway(last: Int32, code: UInt32, debugData: [UInt8]) {
        unsafe nghttp2_submit_goaway(session, 0, last, code, debugData, debugData.count)
    }

    /// Sends the graceful notice: GOAWAY with NO_ERROR and 2^31-1.
    func giveNotice() { unsafe nghttp2_submit_shutdown_notice(session) }

    /// Sends GOAWAY with PROTOCOL_ERROR and ends the session.
    func terminate() {
        unsafe nghttp2_session_terminate_session(session, UInt32(NGHTTP2_PROTOCOL_ERROR.rawValue))
    }

    /// Appends all pending frames.
    func pump(into output: inout [UInt8]) {
        while true {
            var data: UnsafePointer<UInt8>?
            let count = unsafe nghttp2_session_mem_send(session, &data)
            guard count > 0, let data = unsafe data else { break }
            let start = output.count
            let bytes = unsafe UnsafeBufferPointer(start: data, count: count)
            if splitsFrames {
                FrameSplitter.append(unsafe Array(bytes), to: &output)
            } else {
                unsafe output.append(contentsOf: bytes)
            }
            if unsafe count > 9 && data[3] == HTTP2Server.settingsType { HTTP2Server.restoreLimit(&output, from: start) }
        }
        if !extraFrames.isEmpty {
            output += extraFrames
            extraFrames = []
        }
    }

    /// Removes the bit `unlimited` from a SETTINGS frame: a head of 9 bytes and entries of a 16-bit id and a 32-bit value
    /// (RFC 9113, 6.5.1). nghttp2 returns one frame per call.
    private static func restoreLimit(_ output: inout [UInt8], from start: Int) {
        for entry in stride(from: start + 9, to: output.count - 5, by: 6) where output[entry + 1] == maxConcurrentStreamsID {
            output[entry + 2] &= 0x7F
        }
    }

    /// Sends the headers of APNs in its order. nghttp2 copies the values.
    private func submit(
        _ slot: Int, status: UnsafeBufferPointer<UInt8>, _ uniqueID: [UInt8]?,
        extra: (name: StaticString, value: [UInt8]) = ("retry-after", []), hasBody: Bool
    ) {
        // The first answer adds the names to the client's HPACK table. The values are unique and stay out of it.
        let isVolatile = unsafe inbox.pointee.hasAnswered
        unsafe inbox.pointee.hasAnswered = true
        let stream = unsafe inbox.pointee.requests[slot].stream
        let idField = unsafe inbox.pointee.requests[slot].idField
        let place = unsafe inbox.pointee.requests[slot].range(of: idField) ?? 0..<0
        unsafe inbox.pointee.requests[slot].bytes.withUnsafeBufferPointer { bytes in
            unsafe (uniqueID ?? []).withUnsafeBufferPointer { uniqueID in
                unsafe headers[0] = HTTP2Server.field(":status", status, isVolatile: false)
                let id = unsafe UnsafeBufferPointer(rebasing: bytes[place])
                unsafe headers[1] = HTTP2Server.field(
                    idField == .apnsID ? "apns-id" : "apns-request-id", id, isVolatile: isVolatile)
                var count = 2
                if !uniqueID.isEmpty {
                    unsafe headers[count] = HTTP2Server.field("apns-unique-id", uniqueID, isVolatile: isVolatile)
                    count += 1
                }
                unsafe extra.value.withUnsafeBufferPointer { value in
                    if !value.isEmpty {
                        unsafe headers[count] = HTTP2Server.field(extra.name, value, isVolatile: true)
                        count += 1
                    }
                    submit(slot, stream, headers: count, hasBody: hasBody)
                }
            }
        }
    }

    /// Sends the first `count` headers, and the body of the answer.
    private func submit(_ slot: Int, _ stream: Int32, headers count: Int, hasBody: Bool) {
        guard hasBody else {
            unsafe nghttp2_submit_response(session, stream, headers, count, nil)
            return
        }
        unsafe HTTP2Server.withBytes("application/json") {
            unsafe headers[count] = HTTP2Server.field("content-type", $0, isVolatile: false)
            var provider = unsafe nghttp2_data_provider()
            unsafe provider.source.fd = CInt(slot)
            unsafe provider.read_callback = Inbox.readAnswer
            unsafe nghttp2_submit_response(session, stream, headers, count + 1, &provider)
        }
    }

    private static func withBytes(_ text: StaticString, _ body: (UnsafeBufferPointer<UInt8>) -> Void) {
        unsafe body(UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    private static func field(
        _ name: StaticString, _ value: UnsafeBufferPointer<UInt8>, isVolatile: Bool
    ) -> nghttp2_nv {
        let flags = NGHTTP2_NV_FLAG_NO_COPY_NAME.rawValue | (isVolatile ? NGHTTP2_NV_FLAG_NO_INDEX.rawValue : 0)
        return unsafe nghttp2_nv(
            name: UnsafeMutablePointer(mutating: name.utf8Start), value: UnsafeMutablePointer(mutating: value.baseAddress),
            namelen: name.utf8CodeUnitCount, valuelen: value.count, flags: UInt8(flags))
    }
}

/// Splits frames: DATA into frames of one byte, HEADERS into a frame of one byte and four CONTINUATION frames. Clients must
/// accept this (RFC 9113, 4.3 and 6.10). Many accept at most eight CONTINUATION frames, since CVE-2024-27316.
enum FrameSplitter {
    private enum Kind {
        static let data: UInt8 = 0, headers: UInt8 = 1, continuation: UInt8 = 9
    }

    private enum Flag {
        static let endStream: UInt8 = 1, endHeaders: UInt8 = 4
    }

    private static let continuations = 4

    private static let headLength = 9

    /// - Parameter bytes: complete frames without padding and priority.
    static func append(_ bytes: [UInt8], to output: inout [UInt8]) {
        var rest = bytes[...]
        while rest.count >= headLength {
            let head = rest.startIndex
            let length = Int(rest[head]) << 16 | Int(rest[head + 1]) << 8 | Int(rest[head + 2])
            let frame = rest.prefix(headLength + length)
            switch frame[head + 3] {
            case Kind.data where length > 1: cut(frame, into: 1, last: Flag.endStream, next: Kind.data, to: &output)
            case Kind.headers where length > 1:
                let piece = (length - 1 + continuations - 1) / continuations
                cut(frame, into: piece, last: Flag.endHeaders, next: Kind.continuation, to: &output)
            default: output.append(contentsOf: frame)
            }
            rest = rest.dropFirst(frame.count)
        }
        output.append(contentsOf: rest)
    }

    /// Splits a frame into a piece of one byte and pieces of `size` bytes.
    ///
    /// - Parameter last: the flag of the last piece. The other flags stay on the first.
    private static func cut(
        _ frame: ArraySlice<UInt8>, into size: Int, last: UInt8, next: UInt8, to output: inout [UInt8]
    ) {
        let head = frame.startIndex
        let flags = frame[head + 4]
        var rest = frame.dropFirst(headLength)
        var isFirst = true
        while !rest.isEmpty {
            let piece = rest.prefix(isFirst ? 1 : size)
            rest = rest.dropFirst(piece.count)
            output += [UInt8(piece.count >> 16 & 255), UInt8(piece.count >> 8 & 255), UInt8(piece.count & 255)]
            output.append(isFirst ? frame[head + 3] : next)
            output.append((isFirst ? flags & ~last : 0) | (rest.isEmpty ? flags & last : 0))
            output.append(contentsOf: frame[head + 5..<head + headLength])
            output.append(contentsOf: piece)
            isFirst = false
        }
    }
}
