internal import CNghttp2

/// What nghttp2 calls. Each notes what happened in the codec and returns; none calls back into nghttp2 but to look.
extension HTTP2Codec {
    static func withCallbacks<Result>(_ body: (OpaquePointer?) -> Result) -> Result {
        var callbacks: OpaquePointer?
        precondition(nghttp2_session_callbacks_new(&callbacks) == 0, "no memory")
        defer { nghttp2_session_callbacks_del(callbacks) }
        nghttp2_session_callbacks_set_before_frame_send_callback(callbacks, frameLeaves)
        nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, headersBegin)
        nghttp2_session_callbacks_set_on_header_callback(callbacks, headerCame)
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, dataCame)
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, frameCame)
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, streamClosed)
        nghttp2_session_callbacks_set_error_callback2(callbacks, complained)
        return body(callbacks)
    }

    /// The codec for the time of one callback: it outlives its session, so no reference is counted.
    @inline(__always)
    private static func with<Result>(_ context: UnsafeMutableRawPointer?, _ body: (HTTP2Codec) -> Result) -> Result? {
        guard let context else { return nil }
        return Unmanaged<HTTP2Codec>.fromOpaque(context)._withUnsafeGuaranteedRef(body)
    }

    /// The slot that a stream's user data names, or -1 for a stream that is none of ours.
    @inline(__always)
    private func slot(of stream: Int32, _ session: OpaquePointer?) -> Int {
        if slots.contains(headerSlot) && slots[headerSlot].stream == stream { return headerSlot }
        let slot = Int(bitPattern: nghttp2_session_get_stream_user_data(session, stream)) - 1
        return slots.contains(slot) ? slot : -1
    }

    private static let frameLeaves: nghttp2_before_frame_send_callback = { session, frame, context in
        guard let frame, frame.pointee.hd.type == UInt8(NGHTTP2_HEADERS.rawValue) else { return 0 }
        _ = with(context) { codec in
            let slot = codec.slot(of: frame.pointee.hd.stream_id, session)
            if slot >= 0 { codec.slots[slot].headersAt = codec.handedOut }
        }
        return 0
    }

    /// Fills one DATA frame from the job's own bytes.
    static let readBody: nghttp2_data_source_read_callback = { _, _, buffer, room, flags, source, context in
        guard let buffer, let flags, let source else { return Int(NGHTTP2_ERR_CALLBACK_FAILURE.rawValue) }
        let slot = Int(bitPattern: source.pointee.ptr) - 1
        let count = with(context) { codec in
            let next = codec.slots[slot].next
            let count = min(room, codec.slots[slot].end - next)
            codec.slots[slot].bytes.withUnsafeBufferPointer { bytes in
                if let base = bytes.baseAddress, count > 0 { buffer.update(from: base + next, count: count) }
            }
            codec.slots[slot].next = next + count
            if next + count == codec.slots[slot].end { flags.pointee |= NGHTTP2_DATA_FLAG_EOF.rawValue }
            return count
        }
        return count ?? Int(NGHTTP2_ERR_CALLBACK_FAILURE.rawValue)
    }

    private static let headersBegin: nghttp2_on_begin_headers_callback = { session, frame, context in
        guard let frame else { return 0 }
        _ = with(context) { codec in
            codec.headerSlot = codec.slot(of: frame.pointee.hd.stream_id, session)
        }
        return 0
    }

    private static let headerCame: nghttp2_on_header_callback = { _, _, name, nameCount, value, valueCount, _, context in
        guard let name, let value else { return 0 }
        _ = with(context) { codec in
            codec.note(
                UnsafeBufferPointer(start: name, count: nameCount), UnsafeBufferPointer(start: value, count: valueCount))
        }
        return 0
    }

    private func note(_ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>) {
        let slot = headerSlot
        if slot < 0 { return }
        switch name.count {
        case 7 where HTTP2Codec.isEqual(name, ":status"):
            // An interim answer (1xx) is followed by the final one (RFC 9110, 15.2).
            if slots[slot].status < 200 { slots[slot].status = HTTP2Codec.status(value) }
        case 7 where HTTP2Codec.isEqual(name, "apns-id"):
            noteID(value, slot)
        case 15 where HTTP2Codec.isEqual(name, "apns-request-id"): noteID(value, slot)
        case 11 where HTTP2Codec.isEqual(name, "retry-after"):
            let seconds = Int(String(decoding: value.prefix(20), as: UTF8.self))
            slots[slot].retryAfter = seconds.flatMap { $0 < 0 ? nil : min($0, 1_000_000) }
        default: return
        }
    }

    private func noteID(_ value: UnsafeBufferPointer<UInt8>, _ slot: Int) {
        if slots[slot].status == 200 && !isCollecting { return }
        slots[slot].apnsID = ResponseBody.text(Array(value.prefix(64)))
    }

    @inline(__always)
    private static func isEqual(_ name: UnsafeBufferPointer<UInt8>, _ text: StaticString) -> Bool {
        for place in 0..<name.count where name[place] != text.utf8Start[place] { return false }
        return true
    }

    /// Three digits, or 0 for what is none (RFC 9110, 15).
    private static func status(_ digits: UnsafeBufferPointer<UInt8>) -> Int {
        guard digits.count == 3 else { return 0 }
        var status = 0
        for digit in digits {
            guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(digit) else { return 0 }
            status = status * 10 + Int(digit - UInt8(ascii: "0"))
        }
        return status
    }

    private static let dataCame: nghttp2_on_data_chunk_recv_callback = { session, _, stream, bytes, count, context in
        guard let bytes else { return 0 }
        _ = with(context) { codec in
            let slot = codec.slot(of: stream, session)
            if slot < 0 { return }
            let room = ResponseBody.mostBytes - codec.slots[slot].body.count
            codec.slots[slot].body.append(contentsOf: UnsafeBufferPointer(start: bytes, count: min(room, count)))
        }
        return 0
    }

    private static let frameCame: nghttp2_on_frame_recv_callback = { session, frame, context in
        guard let frame else { return 0 }
        _ = with(context) { $0.frameCame(frame, session) }
        return 0
    }

    private func frameCame(_ frame: UnsafePointer<nghttp2_frame>, _ session: OpaquePointer?) {
        let header = frame.pointee.hd
        switch UInt32(header.type) {
        case NGHTTP2_HEADERS.rawValue, NGHTTP2_DATA.rawValue:
            guard header.flags & UInt8(NGHTTP2_FLAG_END_STREAM.rawValue) != 0 else { return }
            let slot = slot(of: header.stream_id, session)
            if slot >= 0 { answerEnded(slot, header.stream_id, session) }
        case NGHTTP2_SETTINGS.rawValue:
            guard header.flags & UInt8(NGHTTP2_FLAG_ACK.rawValue) == 0 else { return }
            let limit = nghttp2_session_get_remote_settings(session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS)
            events.pointee.append(.settings(maxConcurrentStreams: Int(limit)))
        case NGHTTP2_PING.rawValue:
            guard header.flags & UInt8(NGHTTP2_FLAG_ACK.rawValue) != 0 else { return }
            let number = withUnsafeBytes(of: frame.pointee.ping.opaque_data) { $0.loadUnaligned(as: UInt64.self) }
            events.pointee.append(.pingAnswered(UInt64(bigEndian: number)))
        case NGHTTP2_GOAWAY.rawValue:
            let goAway = frame.pointee.goaway
            let debug = UnsafeBufferPointer(start: goAway.opaque_data, count: goAway.opaque_data_len)
            let data = Array(debug.prefix(ResponseBody.mostBytes))
            events.pointee.append(.goAway(last: goAway.last_stream_id, code: goAway.error_code, debugData: data))
        default: return
        }
    }

    /// A server may answer before it has all of the request (RFC 9113, 8.1): the rest of that request is dropped.
    private func answerEnded(_ slot: Int, _ stream: StreamID, _ session: OpaquePointer?) {
        slots[slot].isAnswered = true
        if slots[slot].next < slots[slot].end { cancel(stream) }
    }

    private static let streamClosed: nghttp2_on_stream_close_callback = { session, stream, code, context in
        _ = with(context) { codec in
            let slot = codec.slot(of: stream, session)
            if slot >= 0 && codec.slots[slot].stream == stream { codec.close(slot, stream, code) }
        }
        return 0
    }

    private func close(_ slot: Int, _ stream: StreamID, _ code: UInt32) {
        let status = slots[slot].status
        let isComplete = status >= 200 && (slots[slot].isAnswered || code == NGHTTP2_NO_ERROR.rawValue)
        if isComplete && status == 200 {
            events.pointee.append(.delivered(slot: slot, stream: stream, apnsID: slots[slot].apnsID))
        } else if isComplete {
            let response = Response(
                status: status, apnsID: slots[slot].apnsID, retryAfter: slots[slot].retryAfter, body: slots[slot].body)
            events.pointee.append(.rejected(slot: slot, stream: stream, response))
        } else {
            // An answer without a status is a broken one (RFC 9113, 8.3.2).
            let code = code == NGHTTP2_NO_ERROR.rawValue ? NGHTTP2_PROTOCOL_ERROR.rawValue : code
            let wasSent = slots[slot].headersAt != .max
            events.pointee.append(.reset(slot: slot, stream: stream, code: code, wasSent: wasSent))
        }
        slots[slot].finish()
    }

    private static let complained: nghttp2_error_callback2 = { _, _, message, count, context in
        guard let message else { return 0 }
        _ = with(context) { codec in
            let text = UnsafeRawBufferPointer(start: message, count: min(count, ResponseBody.mostText))
            codec.fault = ResponseBody.text(Array(text))
        }
        return 0
    }
}
