import CNghttp2
import Glibc
@testable import PushPool
import Testing

/// nghttp2's own server side, as a peer in memory.
private final class Peer {
    struct Request {
        var fields: [(name: String, value: String, flags: UInt8)] = []
        var body: [UInt8] = []
        var isComplete = false
    }

    private var session: OpaquePointer?
    var requests: [Int32: Request] = [:]
    var frames: [UInt8] = []
    var resets: [UInt32] = []
    var settings: [Int32: UInt32] = [:]
    var windowUpdates: [Int32] = []

    init(maxConcurrentStreams: UInt32 = 100) {
        var callbacks: OpaquePointer?
        nghttp2_session_callbacks_new(&callbacks)
        defer { nghttp2_session_callbacks_del(callbacks) }
        nghttp2_session_callbacks_set_on_header_callback(callbacks) { _, frame, name, nameCount, value, valueCount, flags, me in
            let me = Unmanaged<Peer>.fromOpaque(me!).takeUnretainedValue()
            let name = String(decoding: UnsafeBufferPointer(start: name, count: nameCount), as: UTF8.self)
            let value = String(decoding: UnsafeBufferPointer(start: value, count: valueCount), as: UTF8.self)
            me.requests[frame!.pointee.hd.stream_id, default: Request()].fields.append((name, value, flags))
            return 0
        }
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks) { _, _, stream, bytes, count, me in
            let me = Unmanaged<Peer>.fromOpaque(me!).takeUnretainedValue()
            me.requests[stream]?.body += UnsafeBufferPointer(start: bytes, count: count)
            return 0
        }
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks) { _, frame, me in
            let me = Unmanaged<Peer>.fromOpaque(me!).takeUnretainedValue()
            let frame = frame!.pointee
            me.frames.append(frame.hd.type)
            if frame.hd.flags & 1 != 0 && frame.hd.type <= 1 { me.requests[frame.hd.stream_id]?.isComplete = true }
            if frame.hd.type == 3 { me.resets.append(frame.rst_stream.error_code) }
            if frame.hd.type == 8 && frame.hd.stream_id == 0 {
                me.windowUpdates.append(frame.window_update.window_size_increment)
            }
            if frame.hd.type == 4 && frame.hd.flags & 1 == 0 {
                for place in 0..<frame.settings.niv {
                    me.settings[frame.settings.iv[place].settings_id] = frame.settings.iv[place].value
                }
            }
            return 0
        }
        nghttp2_session_server_new(&session, callbacks, Unmanaged.passUnretained(self).toOpaque())
        setLimit(maxConcurrentStreams)
    }

    deinit { nghttp2_session_del(session) }

    func setLimit(_ limit: UInt32) {
        var entry = nghttp2_settings_entry(settings_id: 3, value: limit)
        nghttp2_submit_settings(session, 0, &entry, 1)
    }

    func answer(_ stream: Int32, _ fields: [(String, String)], body: [UInt8]? = nil, isEnd: Bool = true) {
        var names: [[UInt8]] = fields.map { Array($0.0.utf8) }
        var values: [[UInt8]] = fields.map { Array($0.1.utf8) }
        var list = fields.indices.map { place in
            names[place].withUnsafeMutableBufferPointer { name in
                values[place].withUnsafeMutableBufferPointer { value in
                    // Copied by nghttp2 below, while both arrays are alive.
                    nghttp2_nv(name: name.baseAddress, value: value.baseAddress, namelen: name.count, valuelen: value.count, flags: 0)
                }
            }
        }
        nghttp2_submit_headers(
            session, body == nil && isEnd ? 1 : 0, stream, nil, &list, list.count, nil)
        if let body {
            var provider = nghttp2_data_provider()
            let copy = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: body.count + 8)
            _ = copy.initialize(from: [0, 0, 0, 0, 0, 0, 0, 0] + body)
            copy.withMemoryRebound(to: Int.self) { $0[0] = body.count }
            provider.source.ptr = UnsafeMutableRawPointer(copy.baseAddress)
            provider.read_callback = { _, _, buffer, room, flags, source, _ in
                let raw = source!.pointee.ptr!
                let count = raw.load(as: Int.self)
                memcpy(buffer!, raw + 8, count)
                flags!.pointee |= NGHTTP2_DATA_FLAG_EOF.rawValue
                raw.deallocate()
                return count
            }
            withExtendedLifetime((names, values)) { _ = nghttp2_submit_data(session, 1, stream, &provider) }
        }
        withExtendedLifetime((names, values)) { exchangeOut() }
    }

    private var out: [UInt8] = []

    private func exchangeOut() {
        while true {
            var start: UnsafePointer<UInt8>?
            let count = nghttp2_session_mem_send(session, &start)
            if count <= 0 { return }
            out += UnsafeBufferPointer(start: start, count: count)
        }
    }

    func reset(_ stream: Int32, _ code: UInt32) { nghttp2_submit_rst_stream(session, 0, stream, code) }

    func goAway(last: Int32, code: UInt32 = 0, debug: String = "") {
        let bytes = Array(debug.utf8)
        nghttp2_submit_goaway(session, 0, last, code, bytes, bytes.count)
    }

    func receive(_ bytes: [UInt8]) { #expect(nghttp2_session_mem_recv(session, bytes, bytes.count) == bytes.count) }

    func takeOutput() -> [UInt8] {
        exchangeOut()
        defer { out = [] }
        return out
    }
}

/// A codec and its peer, joined.
private final class Pair {
    let codec: HTTP2Codec
    let peer: Peer
    var events: [HTTP2Event] = []
    var bytes = 0

    init(maxConcurrentStreams: UInt32 = 100, collectsAPNSIDs: Bool = false, token: String? = nil) throws {
        codec = try HTTP2Codec(authority: "api.push.apple.com", slots: 100, collectsAPNSIDs: collectsAPNSIDs)
        peer = Peer(maxConcurrentStreams: maxConcurrentStreams)
        codec.setToken(token.map { Array($0.utf8) })
        try exchange()
        events = []
    }

    func output() throws -> [UInt8] {
        var buffer = OutBuffer()
        while try codec.takeOutput(into: &buffer, most: 1 << 30) {}
        return buffer.withFirst(buffer.count) { Array($0) }
    }

    func feed(_ bytes: [UInt8]) throws {
        try codec.receive(bytes.span)
        var batch: [HTTP2Event] = []
        codec.takeEvents(into: &batch)
        events += batch
    }

    func exchange() throws {
        while true {
            let there = try output()
            bytes += there.count
            if !there.isEmpty { peer.receive(there) }
            let back = peer.takeOutput()
            try feed(back)
            if there.isEmpty && back.isEmpty { return }
        }
    }
}

private func rejected(_ slot: Int, _ stream: StreamID, _ response: Response) -> HTTP2Event {
    .rejected(slot: slot, stream: stream, response)
}

@Suite("A request on the wire")
struct RequestTests {
    @Test func `it carries every header in Apple's order and the payload's own bytes`() throws {
        let pair = try Pair(token: "a.b.c")
        let push = notification(
            1, token: "00fc", payload: #"{"aps":{ "alert":"é" }}"#, expiration: 1_700_000_000,
            apnsID: "123e4567-e89b-12d3-a456-426655440000", collapseID: "goals")
        #expect(pair.codec.submit(push, slot: 0) == 1)
        try pair.exchange()
        let request = try #require(pair.peer.requests[1])
        let expected = [
            ":method: POST", ":scheme: https", ":authority: api.push.apple.com", ":path: /3/device/00fc",
            "authorization: bearer a.b.c", "apns-topic: com.example.app", "apns-push-type: alert", "apns-priority: 10",
            "apns-expiration: 1700000000", "apns-id: 123e4567-e89b-12d3-a456-426655440000", "apns-collapse-id: goals",
        ]
        #expect(request.fields.map { "\($0.name): \($0.value)" } == expected)
        #expect(request.body == Array(#"{"aps":{ "alert":"é" }}"#.utf8))
        #expect(request.isComplete)
    }

    @Test func `what a notification does not say is left out`() throws {
        let pair = try Pair()
        _ = pair.codec.submit(notification(1, headers: SharedHeaders(topic: nil, pushType: "mdm", priority: 1)), slot: 0)
        try pair.exchange()
        let names = try #require(pair.peer.requests[1]).fields.map(\.name)
        #expect(names == [":method", ":scheme", ":authority", ":path", "apns-push-type", "apns-priority"])
    }

    @Test(arguments: [0, 1, -1, 1_700_000_000, .max, .min] as [Int64])
    func `an expiration is written as it is`(expiration: Int64) throws {
        let pair = try Pair()
        _ = pair.codec.submit(notification(1, expiration: expiration), slot: 0)
        try pair.exchange()
        #expect(pair.peer.requests[1]?.fields.last?.value == String(expiration))
    }

    @Test func `a thousand digits of token and the largest payload arrive`() throws {
        let pair = try Pair()
        let token = String(repeating: "0f", count: 500)
        let payload = #"{"a":"\#(String(repeating: "x", count: 5000))"}"#
        let push = notification(
            1, token: token, payload: payload, expiration: .min, apnsID: String(repeating: "i", count: 36),
            collapseID: String(repeating: "c", count: 64))
        _ = pair.codec.submit(push, slot: 0)
        try pair.exchange()
        #expect(pair.peer.requests[1]?.fields[3].value == "/3/device/" + token)
        #expect(pair.peer.requests[1]?.body == Array(payload.utf8))
    }

    @Test func `we enable no push, ask for a large window and send no PRIORITY`() throws {
        let pair = try Pair()
        #expect(pair.peer.settings == [2: 0])
        #expect(pair.peer.windowUpdates == [(1 << 20) - 65535])
        _ = pair.codec.submit(notification(1), slot: 0)
        try pair.exchange()
        #expect(!pair.peer.frames.contains(2))
    }

    @Test func `what changes with every push enters the HPACK table once`() throws {
        let pair = try Pair()
        var sizes: [Int] = []
        for round in 0..<20 {
            let before = pair.bytes
            let id = "123e4567-e89b-12d3-a456-4266554400\(10 + round)"
            let slot = 0
            let stream = try #require(
                pair.codec.submit(notification(1, payload: "{}", expiration: 1_700_000_000 + Int64(round), apnsID: id), slot: slot))
            try pair.exchange()
            sizes.append(pair.bytes - before)
            pair.peer.answer(stream, [(":status", "200")])
            try pair.exchange()
        }
        // apns.md 2.1 measured 99.5 bytes a push in certificate mode, with a payload's frame beside it here.
        #expect(sizes[0] > sizes[1] + 50)
        #expect(Set(sizes[1...].map { $0 / 8 }).count <= 2, "\(sizes)")
        let request = try #require(pair.peer.requests[3])
        let neverIndexed = request.fields.filter { $0.flags & 1 != 0 }.map(\.name)
        #expect(neverIndexed == ["apns-expiration", "apns-id"])
    }

    @Test func `a new token is used from the next request on`() throws {
        let pair = try Pair(token: "old")
        _ = pair.codec.submit(notification(1), slot: 0)
        pair.codec.setToken(Array("new".utf8))
        _ = pair.codec.submit(notification(2), slot: 1)
        try pair.exchange()
        #expect(pair.peer.requests[1]?.fields[4].value == "bearer old")
        #expect(pair.peer.requests[3]?.fields[4].value == "bearer new")
    }

    @Test func `hundreds of kinds of header are sent right`() throws {
        let pair = try Pair()
        for round in 0..<300 {
            let headers = SharedHeaders(topic: "topic\(round)", pushType: "alert", priority: 5)
            let stream = try #require(pair.codec.submit(notification(1, headers: headers), slot: 0))
            try pair.exchange()
            #expect(pair.peer.requests[stream]?.fields[4].value == "topic\(round)")
            pair.peer.answer(stream, [(":status", "200")])
            try pair.exchange()
        }
    }
}

@Suite("An answer off the wire")
struct AnswerTests {
    private func answer(
        _ fields: [(String, String)], body: [UInt8]? = nil, collecting: Bool = false
    ) throws -> [HTTP2Event] {
        let pair = try Pair(collectsAPNSIDs: collecting)
        _ = pair.codec.submit(notification(1), slot: 0)
        try pair.exchange()
        pair.peer.answer(1, fields, body: body)
        try pair.exchange()
        return pair.events
    }

    @Test func `200, with and without its id`() throws {
        let fields = [(":status", "200"), ("apns-id", "ABC")]
        #expect(try answer(fields) == [.delivered(slot: 0, stream: 1, apnsID: nil)])
        #expect(try answer(fields, collecting: true) == [.delivered(slot: 0, stream: 1, apnsID: "ABC")])
    }

    @Test func `another status with all that comes along`() throws {
        let fields = [(":status", "503"), ("apns-id", "ABC"), ("retry-after", "120"), ("content-type", "application/json")]
        let response = Response(status: 503, apnsID: "ABC", retryAfter: 120, body: Array("{}".utf8))
        #expect(try answer(fields, body: Array("{}".utf8)) == [rejected(0, 1, response)])
    }

    @Test(arguments: [("-1", nil), ("soon", nil), ("99999999999", 1_000_000), ("0", 0)] as [(String, Int?)])
    func `retry-after is seconds or nothing`(value: String, expected: Int?) throws {
        let events = try answer([(":status", "500"), ("retry-after", value)])
        #expect(events == [rejected(0, 1, Response(status: 500, retryAfter: expected))])
    }

    @Test func `a body beyond 4 KiB is cut`() throws {
        let events = try answer([(":status", "400")], body: [UInt8](repeating: 65, count: 9000))
        #expect(events == [rejected(0, 1, Response(status: 400, body: [UInt8](repeating: 65, count: 4096)))])
    }

    @Test(arguments: ["20", "2000", "abc", "", "100"]) func `a status that is none is a broken answer`(status: String) throws {
        #expect(try answer([(":status", status)]) == [.reset(slot: 0, stream: 1, code: 1, wasSent: true)])
    }

    @Test func `an interim answer is followed by the final one`() throws {
        let pair = try Pair()
        _ = pair.codec.submit(notification(1), slot: 0)
        try pair.exchange()
        pair.peer.answer(1, [(":status", "103")], isEnd: false)
        pair.peer.answer(1, [(":status", "200")])
        try pair.exchange()
        #expect(pair.events == [.delivered(slot: 0, stream: 1, apnsID: nil)])
    }

    @Test func `slots serve one request after the other`() throws {
        let pair = try Pair()
        for round in 0..<50 {
            let stream = try #require(pair.codec.submit(notification(UInt64(round)), slot: 0))
            try pair.exchange()
            pair.peer.answer(stream, round % 2 == 0 ? [(":status", "200")] : [(":status", "410"), ("apns-id", "\(round)")])
            try pair.exchange()
            #expect(
                pair.events.last
                    == (round % 2 == 0
                        ? .delivered(slot: 0, stream: stream, apnsID: nil)
                        : rejected(0, stream, Response(status: 410, apnsID: "\(round)"))))
        }
    }

    @Test func `resets, with what was sent`() throws {
        let pair = try Pair()
        _ = pair.codec.submit(notification(1), slot: 0)
        try pair.exchange()
        pair.peer.reset(1, 7)
        try pair.exchange()
        #expect(pair.events == [.reset(slot: 0, stream: 1, code: 7, wasSent: true)])
    }

    @Test func `a cancelled request gives its slot back, sent or not`() throws {
        let pair = try Pair()
        _ = pair.codec.submit(notification(1), slot: 0)
        try pair.exchange()
        pair.codec.cancel(1)
        _ = pair.codec.submit(notification(2), slot: 1)
        pair.codec.cancel(3)
        try pair.exchange()
        #expect(pair.events.contains(.reset(slot: 0, stream: 1, code: 8, wasSent: true)))
        #expect(pair.events.contains(.reset(slot: 1, stream: 3, code: 8, wasSent: false)))
        #expect(pair.peer.requests[3] == nil)
    }
}

@Suite("A connection's own frames")
struct ConnectionFrameTests {
    @Test func `SETTINGS tell the limit, first and later`() throws {
        let codec = try HTTP2Codec(authority: "a", slots: 1, collectsAPNSIDs: false)
        let peer = Peer(maxConcurrentStreams: 1)
        try codec.receive(peer.takeOutput().span)
        peer.setLimit(1000)
        try codec.receive(peer.takeOutput().span)
        var events: [HTTP2Event] = []
        codec.takeEvents(into: &events)
        #expect(events == [.settings(maxConcurrentStreams: 1), .settings(maxConcurrentStreams: 1000)])
    }

    @Test func `SETTINGS without a limit are no limit`() throws {
        let codec = try HTTP2Codec(authority: "a", slots: 1, collectsAPNSIDs: false)
        try codec.receive([0, 0, 0, 4, 0, 0, 0, 0, 0].span)
        var events: [HTTP2Event] = []
        codec.takeEvents(into: &events)
        guard case .settings(let limit) = events.first else {
            Issue.record("\(events)")
            return
        }
        #expect(limit >= 100)
    }

    @Test func `a PING comes back with its number`() throws {
        let pair = try Pair()
        pair.codec.ping(0x0102_0304_0506_0708)
        try pair.exchange()
        #expect(pair.events == [.pingAnswered(0x0102_0304_0506_0708)])
    }

    @Test func `GOAWAY comes with code and debug data, before what it closes`() throws {
        let pair = try Pair()
        _ = pair.codec.submit(notification(1), slot: 0)
        _ = pair.codec.submit(notification(2), slot: 1)
        try pair.exchange()
        pair.peer.goAway(last: 1, code: 2, debug: "because")
        try pair.exchange()
        #expect(pair.events.first == .goAway(last: 1, code: 2, debugData: Array("because".utf8)))
        #expect(pair.events.dropFirst() == [.reset(slot: 1, stream: 3, code: 7, wasSent: true)])
    }

    @Test func `requests that GOAWAY overtakes inside HTTP/2 give their slots back unsent`() throws {
        let pair = try Pair()
        pair.peer.goAway(last: 0)
        let goAway = pair.peer.takeOutput()
        _ = pair.codec.submit(notification(1), slot: 0)
        try pair.feed(goAway)
        _ = try pair.output()
        try pair.feed([])
        let isUnsent = pair.events.contains { if case .reset(slot: 0, stream: 1, code: _, wasSent: false) = $0 { true } else { false } }
        #expect(isUnsent, "\(pair.events)")
    }

    @Test func `how far a request got is known to the byte`() throws {
        let pair = try Pair()
        let before = pair.codec.handedOut
        _ = pair.codec.submit(notification(1), slot: 0)
        _ = pair.codec.submit(notification(2), slot: 1)
        #expect(!pair.codec.isWritten(slot: 0, written: .max - 1))
        _ = try pair.output()
        #expect(!pair.codec.isWritten(slot: 0, written: before))
        #expect(pair.codec.isWritten(slot: 0, written: before + 1))
        #expect(!pair.codec.isWritten(slot: 1, written: before + 1))
        #expect(pair.codec.isWritten(slot: 1, written: pair.codec.handedOut))
        #expect(!pair.codec.isWritten(slot: 77, written: .max))
    }

    @Test func `a peer that breaks HTTP/2 ends it, with words`() throws {
        let pair = try Pair()
        try pair.feed([0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0])
        _ = try pair.output()
        #expect(pair.codec.isOver)
    }

    @Test func `a GOAWAY in the place of SETTINGS is heard, in pieces too`() throws {
        let codec = try HTTP2Codec(authority: "a", slots: 1, collectsAPNSIDs: false)
        let frame: [UInt8] = [0, 0, 10, 7, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 2, 72, 105]
        for byte in frame { try codec.receive([byte].span) }
        var events: [HTTP2Event] = []
        codec.takeEvents(into: &events)
        #expect(events == [.goAway(last: 3, code: 2, debugData: [72, 105])])
    }

    @Test(arguments: 0..<100) func `no bytes whatever stop it`(round: Int) throws {
        var generator = Seeded(seed: UInt64(round))
        let pair = try Pair()
        for slot in 0..<5 { _ = pair.codec.submit(notification(UInt64(slot)), slot: slot) }
        try pair.exchange()
        for _ in 0..<20 {
            let count = Int.random(in: 0...60, using: &generator)
            var bytes: [UInt8] = [0, 0, UInt8(count), UInt8.random(in: 0...10, using: &generator)]
            bytes += [UInt8.random(in: 0...255, using: &generator), 0, 0, 0, UInt8.random(in: 0...12, using: &generator)]
            bytes += (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
            do { try pair.feed(bytes) } catch { break }
            _ = try? pair.output()
        }
        #expect(pair.events.count <= 200, "seed \(round)")
    }
}

@Suite("nghttp2's memory")
struct FrameMemoryTests {
    @Test(arguments: 0..<10) func `blocks keep their content and are used again`(round: Int) throws {
        var generator = Seeded(seed: UInt64(round))
        let memory = FrameMemory()
        var blocks: [(UnsafeMutableRawPointer, Int, UInt8)] = []
        for _ in 0..<2000 {
            switch Int.random(in: 0..<3, using: &generator) {
            case 0:
                let count = Int.random(in: 0...2000, using: &generator)
                let block = try #require(memory.allocate(count))
                let mark = UInt8.random(in: 0...255, using: &generator)
                memset(block, Int32(mark), count)
                blocks.append((block, count, mark))
            case 1:
                guard !blocks.isEmpty else { break }
                let (block, count, mark) = blocks.remove(at: Int.random(in: 0..<blocks.count, using: &generator))
                let bytes = UnsafeRawBufferPointer(start: block, count: count)
                #expect(bytes.allSatisfy { $0 == mark })
                memory.giveBack(block)
            default:
                guard let (block, count, mark) = blocks.popLast() else { break }
                let more = Int.random(in: 0...3000, using: &generator)
                let other = try #require(memory.resize(block, more))
                let bytes = UnsafeRawBufferPointer(start: other, count: min(count, more))
                #expect(bytes.allSatisfy { $0 == mark })
                memset(other, Int32(mark), more)
                blocks.append((other, more, mark))
            }
        }
        for (block, _, _) in blocks { memory.giveBack(block) }
        let block = memory.allocate(100)
        block.map(memory.giveBack)
        #expect(memory.allocate(90) == block)
        block.map(memory.giveBack)
    }
}
