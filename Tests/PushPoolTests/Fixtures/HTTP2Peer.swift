import CNghttp2
import Glibc
import Harness
import Testing

@testable import PushPool

/// nghttp2's own server side, as a peer in memory.
final class HTTP2Peer {
    struct Request {
        var fields: [(name: String, value: String)] = []
        var body: [UInt8] = []
        var isComplete = false

        var lines: [String] { fields.map { "\($0.name): \($0.value)" } }
    }

    /// SETTINGS by their number (RFC 9113, 6.5.2).
    typealias Settings = [(Int32, UInt32)]

    private var session: OpaquePointer?
    private var out: [UInt8] = []
    var requests: [StreamID: Request] = [:]
    var frames: [UInt8] = []
    var resets: [StreamID: UInt32] = [:]
    var goAways: [UInt32] = []
    var settings: [Int32: UInt32] = [:]
    var windowUpdates: [Int32] = []
    /// Bytes that each HEADERS and DATA frame is padded with.
    var padding = { 0 }
    /// DATA is acknowledged with WINDOW_UPDATE when this is called, not by itself.
    private var unconsumed: [(stream: Int32, count: Int)] = []

    init(settings: Settings = [(3, 100)], updatesWindows: Bool = true) {
        var callbacks: OpaquePointer?
        nghttp2_session_callbacks_new(&callbacks)
        defer { nghttp2_session_callbacks_del(callbacks) }
        setCallbacks(callbacks)
        var options: OpaquePointer?
        nghttp2_option_new(&options)
        defer { nghttp2_option_del(options) }
        if !updatesWindows { nghttp2_option_set_no_auto_window_update(options, 1) }
        nghttp2_session_server_new2(&session, callbacks, Unmanaged.passUnretained(self).toOpaque(), options)
        set(settings)
    }

    deinit { nghttp2_session_del(session) }

    private func setCallbacks(_ callbacks: OpaquePointer?) {
        nghttp2_session_callbacks_set_on_header_callback(callbacks) { _, frame, name, nameCount, value, valueCount, _, me in
            let me = Unmanaged<HTTP2Peer>.fromOpaque(me!).takeUnretainedValue()
            let name = String(decoding: UnsafeBufferPointer(start: name, count: nameCount), as: UTF8.self)
            let value = String(decoding: UnsafeBufferPointer(start: value, count: valueCount), as: UTF8.self)
            me.requests[StreamID(frame!.pointee.hd.stream_id), default: Request()].fields.append((name, value))
            return 0
        }
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks) { _, _, stream, bytes, count, me in
            let me = Unmanaged<HTTP2Peer>.fromOpaque(me!).takeUnretainedValue()
            me.requests[StreamID(stream)]?.body += UnsafeBufferPointer(start: bytes, count: count)
            me.unconsumed.append((stream, count))
            return 0
        }
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks) { _, frame, me in
            Unmanaged<HTTP2Peer>.fromOpaque(me!).takeUnretainedValue().note(frame!.pointee)
            return 0
        }
        nghttp2_session_callbacks_set_select_padding_callback(callbacks) { _, frame, most, me in
            let me = Unmanaged<HTTP2Peer>.fromOpaque(me!).takeUnretainedValue()
            return min(most, frame!.pointee.hd.length + me.padding())
        }
    }

    private func note(_ frame: nghttp2_frame) {
        frames.append(frame.hd.type)
        switch frame.hd.type {
        case 0, 1: if frame.hd.flags & 1 != 0 { requests[StreamID(frame.hd.stream_id)]?.isComplete = true }
        case 3: resets[StreamID(frame.hd.stream_id)] = frame.rst_stream.error_code
        case 4 where frame.hd.flags & 1 == 0:
            for place in 0..<frame.settings.niv {
                settings[frame.settings.iv[place].settings_id] = frame.settings.iv[place].value
            }
        case 7: goAways.append(frame.goaway.error_code)
        case 8 where frame.hd.stream_id == 0: windowUpdates.append(frame.window_update.window_size_increment)
        default: break
        }
    }

    // MARK: What it says

    func set(_ settings: Settings) {
        let entries = settings.map { nghttp2_settings_entry(settings_id: $0.0, value: $0.1) }
        nghttp2_submit_settings(session, 0, entries, entries.count)
    }

    /// HEADERS, and DATA where there is a body.
    func answer(
        _ stream: StreamID, _ fields: [(String, String)], body: [UInt8]? = nil, isEnd: Bool = true,
        trailers: [(String, String)] = []
    ) {
        HTTP2Peer.withFields(fields) { list, count in
            if body == nil && trailers.isEmpty {
                _ = nghttp2_submit_headers(session, isEnd ? 1 : 0, stream.number, nil, list, count, nil)
            } else {
                var provider = HTTP2Peer.provider(for: body ?? [], hasTrailers: !trailers.isEmpty)
                nghttp2_submit_response(session, stream.number, list, count, &provider)
            }
        }
        if !trailers.isEmpty {
            // nghttp2 prefers HEADERS to DATA: the body first.
            takeFrames()
            HTTP2Peer.withFields(trailers) { _ = nghttp2_submit_trailer(session, stream.number, $0, $1) }
        }
        takeFrames()
    }

    private static func withFields(_ fields: [(String, String)], _ body: (UnsafePointer<nghttp2_nv>?, Int) -> Void) {
        let names = fields.map { strdup($0.0) }
        let values = fields.map { strdup($0.1) }
        let list = fields.indices.map { place in
            nghttp2_nv(
                name: UnsafeMutableRawPointer(names[place]!).assumingMemoryBound(to: UInt8.self),
                value: UnsafeMutableRawPointer(values[place]!).assumingMemoryBound(to: UInt8.self),
                namelen: fields[place].0.utf8.count, valuelen: fields[place].1.utf8.count, flags: 0)
        }
        body(list, list.count)
        for text in names + values { free(text) }
    }

    /// The rest of a body, read by nghttp2; freed with its last byte.
    private final class Rest {
        var bytes: ArraySlice<UInt8>
        let hasTrailers: Bool
        init(_ bytes: [UInt8], hasTrailers: Bool) {
            self.bytes = bytes[...]
            self.hasTrailers = hasTrailers
        }
    }

    private static func provider(for body: [UInt8], hasTrailers: Bool) -> nghttp2_data_provider {
        var provider = nghttp2_data_provider()
        provider.source.ptr = Unmanaged.passRetained(Rest(body, hasTrailers: hasTrailers)).toOpaque()
        provider.read_callback = { _, _, buffer, room, flags, source, _ in
            let rest = Unmanaged<Rest>.fromOpaque(source!.pointee.ptr).takeUnretainedValue()
            let part = Array(rest.bytes.prefix(room))
            memcpy(buffer!, part, part.count)
            rest.bytes = rest.bytes.dropFirst(part.count)
            if rest.bytes.isEmpty {
                flags!.pointee |= NGHTTP2_DATA_FLAG_EOF.rawValue
                if rest.hasTrailers { flags!.pointee |= NGHTTP2_DATA_FLAG_NO_END_STREAM.rawValue }
                Unmanaged<Rest>.fromOpaque(source!.pointee.ptr).release()
            }
            return part.count
        }
        return provider
    }

    func reset(_ stream: StreamID, _ code: UInt32) { nghttp2_submit_rst_stream(session, 0, stream.number, code) }

    func ping() { nghttp2_submit_ping(session, 0, [1, 2, 3, 4, 5, 6, 7, 8]) }

    func goAway(last: Int32, code: UInt32 = 0, debug: String = "") {
        let bytes = Array(debug.utf8)
        nghttp2_submit_goaway(session, 0, last, code, bytes, bytes.count)
    }

    /// WINDOW_UPDATE for DATA that has come: `most` bytes of it.
    func consume(_ most: Int) {
        var room = most
        while room > 0, let (stream, count) = unconsumed.first {
            let part = min(room, count)
            nghttp2_session_consume(session, stream, part)
            room -= part
            if part == count { unconsumed.removeFirst() } else { unconsumed[0].count -= part }
        }
    }

    // MARK: Bytes

    func receive(_ bytes: [UInt8]) { #expect(nghttp2_session_mem_recv(session, bytes, bytes.count) == bytes.count) }

    private func takeFrames() {
        while true {
            var start: UnsafePointer<UInt8>?
            let count = nghttp2_session_mem_send(session, &start)
            if count <= 0 { return }
            out += UnsafeBufferPointer(start: start, count: count)
        }
    }

    func takeOutput() -> [UInt8] {
        takeFrames()
        defer { out = [] }
        return out
    }
}

/// A codec that is fed by hand: a reference to it, as `#expect` copies what it looks at.
class CodecBox {
    var codec: HTTP2Codec

    init(authority: String = "api.push.apple.com", slots: Int = 100, collectsAPNSIDs: Bool = false) throws {
        codec = HTTP2Codec(authority: authority, slots: slots, collectsAPNSIDs: collectsAPNSIDs)
    }

    func submit(_ notification: PushPool.Notification, slot: Int) -> StreamID? { codec.submit(notification, slot: slot) }
    func isWritten(slot: Int) -> Bool { codec.isWritten(slot: slot) }
    func hasUnwrittenRequests() -> Bool { codec.hasUnwrittenRequests() }
    var isOver: Bool { codec.isOver }
    var fault: String { codec.fault }

    func receive(_ bytes: [UInt8]) { codec.receive(bytes.span) }

    /// Everything that wants to be written, which then counts as written.
    func output() -> [UInt8] {
        let bytes = codec.out.withFirst(.max) { Array($0) }
        codec.out.consume(bytes.count)
        return bytes
    }

    func drainEvents() -> [HTTP2Event] {
        var batch: [HTTP2Event] = []
        codec.takeEvents(into: &batch)
        return batch
    }
}

/// A codec and its peer, joined.
final class CodecPair: CodecBox {
    let peer: HTTP2Peer
    var events: [HTTP2Event] = []
    /// Bytes the codec has written.
    var bytes = 0
    /// How the peer's bytes are cut before the codec gets them.
    var cut = { (rest: Int) in rest }

    init(
        settings: HTTP2Peer.Settings = [(3, 100)], updatesWindows: Bool = true, slots: Int = 100,
        collectsAPNSIDs: Bool = false, token: String? = nil
    ) throws {
        peer = HTTP2Peer(settings: settings, updatesWindows: updatesWindows)
        try super.init(slots: slots, collectsAPNSIDs: collectsAPNSIDs)
        codec.setToken(token.map { Array($0.utf8) })
        exchange()
        events = []
    }

    /// A pair with one request, on stream 1 in slot 0.
    static func withRequest(collectsAPNSIDs: Bool = false) throws -> CodecPair {
        let pair = try CodecPair(collectsAPNSIDs: collectsAPNSIDs)
        _ = pair.submit(notification(1), slot: 0)
        pair.exchange()
        return pair
    }

    /// Passes an answer of the peer to the codec.
    func answer(_ stream: StreamID, _ fields: [(String, String)], body: [UInt8]? = nil, trailers: [(String, String)] = []) {
        peer.answer(stream, fields, body: body, trailers: trailers)
        exchange()
    }

    func feed(_ bytes: [UInt8]) {
        var place = 0
        while place < bytes.count {
            let count = max(1, min(cut(bytes.count - place), bytes.count - place))
            receive(Array(bytes[place..<(place + count)]))
            place += count
        }
        events += drainEvents()
    }

    func exchange() {
        while true {
            let there = output()
            bytes += there.count
            if !there.isEmpty { peer.receive(there) }
            let back = peer.takeOutput()
            feed(back)
            if there.isEmpty && back.isEmpty { return }
        }
    }
}

/// A frame as its bytes.
func frame(_ type: UInt8, flags: UInt8 = 0, stream: UInt32 = 0, _ payload: [UInt8] = []) -> [UInt8] {
    bytes(UInt32(payload.count)).dropFirst() + [type, flags] + bytes(stream) + payload
}

/// Four bytes, the highest first.
func bytes(_ number: UInt32) -> [UInt8] { withUnsafeBytes(of: number.bigEndian) { Array($0) } }

func randomBytes(_ counts: ClosedRange<Int>, _ generator: inout SeededGenerator) -> [UInt8] {
    (0..<Int.random(in: counts, using: &generator)).map { _ in UInt8.random(in: 0...255, using: &generator) }
}

/// SETTINGS as a server sends them.
func settings(_ values: [(UInt8, UInt32)] = []) -> [UInt8] { frame(4, values.flatMap { [0, $0.0] + bytes($0.1) }) }

extension StreamID {
    init(_ number: Int) { self.init(Int32(number)) }

    static let max = StreamID(Int32.max)
    static func += (left: inout StreamID, right: Int32) { left = StreamID(left.number + right) }
}
