internal import CNghttp2

/// The target of nghttp2's callbacks: requests in reusable slots, and events. `HTTP2Server` allocates it and C borrows it. The
/// user data of a stream is the number of its slot.
///
/// A struct behind a pointer: as a class, reference counts and exclusivity checks cost half as much as nghttp2 itself.
struct Inbox {
    var requests: [Request] = []
    /// Bodies of the answers being sent, by slot.
    var answers: [[UInt8]] = []
    private var answerOffsets: [Int] = []
    private var freeSlots: [Int] = []
    var events: [HTTP2Server.Event] = []
    var streamLimit = 0
    /// Unacknowledged limits, oldest first. Every SETTINGS frame of the server has one.
    private var unacknowledgedLimits: [Int] = []
    /// The last limit that the client acknowledged.
    private var acknowledgedLimit = Int.max
    /// Counts since the last `takeCounts`.
    var counts = HTTP2Server.Counts()
    private(set) var openStreams = 0
    private(set) var highestStream: Int32 = 0
    /// The slot of the current header block. The frames of a block are contiguous (RFC 9113, 4.3).
    private var current = 0
    var hasAnswered = false

    private mutating func takeSlot(for stream: Int32) -> Int {
        let slot: Int
        if let free = freeSlots.popLast() {
            slot = free
        } else {
            slot = requests.count
            requests.append(Request())
            answers.append([])
            answerOffsets.append(0)
        }
        requests[slot].begin(stream: stream)
        answerOffsets[slot] = 0
        return slot
    }

    private mutating func release(_ slot: Int) {
        if !answers[slot].isEmpty { answers[slot] = [] }
        requests[slot].end()
        freeSlots.append(slot)
    }

    mutating func announce(limit: Int) {
        streamLimit = limit
        unacknowledgedLimits.append(limit)
    }

    private mutating func acknowledge() {
        if !unacknowledgedLimits.isEmpty { acknowledgedLimit = unacknowledgedLimits.removeFirst() }
    }

    /// Returns the slot of a stream. The user data is the slot plus one, because 0 is the default.
    static func slot(_ session: OpaquePointer?, _ stream: Int32) -> Int? {
        guard let data = unsafe nghttp2_session_get_stream_user_data(session, stream) else { return nil }
        return Int(bitPattern: data) - 1
    }

    private mutating func begin(stream: Int32) {
        openStreams += 1
        highestStream = max(highestStream, stream)
        current = takeSlot(for: stream)
        if openStreams > acknowledgedLimit { counts.limitViolations += 1 }
        if openStreams > streamLimit {
            requests[current].refuse()
            events.append(.overLimit(stream: stream))
        }
    }

    private mutating func close(slot: Int) {
        openStreams -= 1
        release(slot)
    }

    static func makeCallbacks() -> OpaquePointer? {
        var callbacks: OpaquePointer?
        unsafe nghttp2_session_callbacks_new(&callbacks)
        unsafe nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, beginHeaders)
        unsafe nghttp2_session_callbacks_set_on_header_callback(callbacks, header)
        unsafe nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, data)
        unsafe nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, frame)
        unsafe nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, invalidFrame)
        unsafe nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, streamClose)
        return unsafe callbacks
    }

    private static let beginHeaders: nghttp2_on_begin_headers_callback = { session, frame, context in
        guard let inbox = unsafe context?.assumingMemoryBound(to: Inbox.self), let stream = unsafe frame?.pointee.hd.stream_id
        else { return 0 }
        if let slot = unsafe slot(session, stream) {  // trailers
            unsafe inbox.pointee.current = slot
            return 0
        }
        unsafe inbox.pointee.begin(stream: stream)
        unsafe nghttp2_session_set_stream_user_data(
            session, stream, UnsafeMutableRawPointer(bitPattern: inbox.pointee.current + 1))
        return 0
    }

    private static let header: nghttp2_on_header_callback = { _, _, name, nameLength, value, valueLength, _, context in
        guard let inbox = unsafe context?.assumingMemoryBound(to: Inbox.self) else { return 0 }
        unsafe inbox.pointee.requests[inbox.pointee.current].add(
            name: UnsafeBufferPointer(start: name, count: nameLength).span,
            value: UnsafeBufferPointer(start: value, count: valueLength).span)
        return 0
    }

    private static let data: nghttp2_on_data_chunk_recv_callback = { session, _, stream, bytes, count, context in
        guard let inbox = unsafe context?.assumingMemoryBound(to: Inbox.self), let slot = unsafe slot(session, stream) else {
            return 0
        }
        unsafe inbox.pointee.requests[slot].add(body: UnsafeBufferPointer(start: bytes, count: count).span)
        return 0
    }

    private static let frame: nghttp2_on_frame_recv_callback = { session, frame, context in
        guard let inbox = unsafe context?.assumingMemoryBound(to: Inbox.self), let header = unsafe frame?.pointee.hd else {
            return 0
        }
        switch UInt32(header.type) {
        case NGHTTP2_HEADERS.rawValue, NGHTTP2_DATA.rawValue:
            if UInt32(header.type) == NGHTTP2_HEADERS.rawValue { unsafe inbox.pointee.count(headers: header) }
            guard UInt32(header.flags) & NGHTTP2_FLAG_END_STREAM.rawValue != 0,
                let slot = unsafe slot(session, header.stream_id), unsafe !inbox.pointee.requests[slot].isRefused
            else { return 0 }
            unsafe inbox.pointee.events.append(.request(slot: slot, stream: header.stream_id))
        case NGHTTP2_PING.rawValue where UInt32(header.flags) & NGHTTP2_FLAG_ACK.rawValue == 0:
            guard let ping = unsafe frame?.pointee.ping else { return 0 }
            let opaque = unsafe withUnsafeBytes(of: ping.opaque_data) { unsafe $0.loadUnaligned(as: UInt64.self) }
            unsafe inbox.pointee.events.append(.ping(opaque))
        case NGHTTP2_SETTINGS.rawValue where UInt32(header.flags) & NGHTTP2_FLAG_ACK.rawValue != 0:
            unsafe inbox.pointee.acknowledge()
        case NGHTTP2_PRIORITY.rawValue: unsafe inbox.pointee.counts.priorityFrames += 1
        default: break
        }
        return 0
    }

    /// Counts a header block; nghttp2 reports the length of HEADERS with its CONTINUATION frames.
    private mutating func count(headers: nghttp2_frame_hd) {
        counts.headerBytes += headers.length
        if UInt32(headers.flags) & NGHTTP2_FLAG_PRIORITY.rawValue != 0 { counts.priorityFrames += 1 }
    }

    private static let invalidFrame: nghttp2_on_invalid_frame_recv_callback = { _, _, code, context in
        if code == NGHTTP2_ERR_HTTP_HEADER.rawValue || code == NGHTTP2_ERR_HTTP_MESSAGING.rawValue {
            unsafe context?.assumingMemoryBound(to: Inbox.self).pointee.events.append(.violation)
        }
        return 0
    }

    private static let streamClose: nghttp2_on_stream_close_callback = { session, stream, _, context in
        guard let inbox = unsafe context?.assumingMemoryBound(to: Inbox.self), let slot = unsafe slot(session, stream) else {
            return 0
        }
        unsafe inbox.pointee.close(slot: slot)
        return 0
    }

    /// Returns the body of an answer, or the part of it that fits into a frame.
    static let readAnswer: nghttp2_data_source_read_callback = { _, _, buffer, room, flags, source, context in
        guard let inbox = unsafe context?.assumingMemoryBound(to: Inbox.self), let buffer = unsafe buffer,
            let source = unsafe source
        else { return 0 }
        let (count, isEnd) = unsafe inbox.pointee.copyAnswer(of: Int(source.pointee.fd), to: buffer, room: room)
        if isEnd { unsafe flags?.pointee |= NGHTTP2_DATA_FLAG_EOF.rawValue }
        return count
    }

    private mutating func copyAnswer(of slot: Int, to buffer: UnsafeMutablePointer<UInt8>, room: Int) -> (Int, isEnd: Bool) {
        let rest = answers[slot][answerOffsets[slot]...].prefix(room)
        unsafe rest.withUnsafeBufferPointer { bytes in
            if let first = bytes.baseAddress { unsafe buffer.update(from: first, count: bytes.count) }
        }
        answerOffsets[slot] += rest.count
        return (rest.count, answerOffsets[slot] == answers[slot].count)
    }
}
