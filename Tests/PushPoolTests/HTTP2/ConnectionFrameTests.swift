import Testing

@testable import PushPool

/// A codec that a peer's bytes are given to by hand.
private func codec(streams: UInt8 = 0) throws -> CodecBox {
    let codec = try CodecBox(slots: 100)
    codec.receive(settings([(3, 100)]))
    for slot in 0..<Int(streams) { _ = codec.submit(notification(UInt64(slot)), slot: slot) }
    _ = codec.output()
    _ = codec.drainEvents()
    return codec
}

@Suite("A connection's own frames")
struct ConnectionFrameTests {
    @Test func `SETTINGS tell the limit, first and later, and are acknowledged`() throws {
        let codec = try CodecBox(slots: 1)
        _ = codec.output()
        codec.receive((settings([(3, 1)]) + settings([(3, 1000)]) + settings([(4, 5), (0x99, 7)])))
        let expected = [1, 1000, 1000].map { HTTP2Event.settings(maxConcurrentStreams: $0) }
        #expect(codec.drainEvents() == expected)
        #expect(codec.output() == frame(4, flags: 1) + frame(4, flags: 1) + frame(4, flags: 1))
        codec.receive(frame(4, flags: 1))
        #expect(codec.drainEvents() == [] && !codec.isOver)
    }

    @Test func `SETTINGS without a limit are no limit`() throws {
        let codec = try CodecBox(slots: 1)
        codec.receive(settings())
        #expect(codec.drainEvents() == [.settings(maxConcurrentStreams: Int(UInt32.max))])
    }

    @Test func `nothing is opened before the first SETTINGS, and what a lowered limit shuts out comes back unsent`() throws {
        let codec = try CodecBox(slots: 9)
        _ = codec.output()
        for slot in 0..<3 { #expect(codec.submit(notification(1), slot: slot) == StreamID(2 * slot + 1)) }
        #expect(codec.output() == [])
        codec.receive(settings([(3, 1)]))
        let refused = [2, 1].map { HTTP2Event.reset(slot: $0, stream: StreamID(2 * $0 + 1), code: 7, wasSent: false) }
        #expect(codec.drainEvents() == [.settings(maxConcurrentStreams: 1)] + refused)
        let output = codec.output()
        #expect(output.dropFirst(9)[12] == 1, "HEADERS after the ACK")
        codec.receive(settings([(3, 0)]))
        #expect(codec.submit(notification(1), slot: 1) == 7)
        #expect(codec.output() == frame(4, flags: 1))
        codec.codec.cancel(7)
        #expect(codec.output() == [], "a stream the peer has never seen is not reset")
        #expect(codec.drainEvents().last == .reset(slot: 1, stream: 7, code: 8, wasSent: false))
        // One stream is open and one waits: a limit of one shuts the second out.
        #expect(codec.submit(notification(1), slot: 1) == 9)
        codec.receive(settings([(3, 1)]))
        #expect(codec.drainEvents().last == .reset(slot: 1, stream: 9, code: 7, wasSent: false))
        codec.receive(settings([(3, 2)]))
        _ = codec.output()
        #expect(codec.submit(notification(1), slot: 1) == 11)
        #expect(codec.output().count > 9)
    }

    @Test func `a PING comes back with its number, and the peer's is answered`() throws {
        let pair = try CodecPair()
        pair.codec.ping(0x0102_0304_0506_0708)
        pair.peer.ping()
        pair.exchange()
        #expect(pair.events == [.pingAnswered(0x0102_0304_0506_0708)])
        pair.feed(frame(6, [9, 8, 7, 6, 5, 4, 3, 2]))
        #expect(pair.output() == frame(6, flags: 1, [9, 8, 7, 6, 5, 4, 3, 2]))
    }

    @Test func `GOAWAY comes with code and debug data, before what it closes`() throws {
        let pair = try CodecPair()
        _ = pair.submit(notification(1), slot: 0)
        _ = pair.submit(notification(2), slot: 1)
        pair.exchange()
        pair.peer.goAway(last: 1, code: 2, debug: "because")
        pair.exchange()
        #expect(pair.events.first == .goAway(last: 1, code: 2, debugData: Array("because".utf8)))
        #expect(pair.events.dropFirst() == [.reset(slot: 1, stream: 3, code: 7, wasSent: true)])
        #expect(pair.submit(notification(3), slot: 2) == nil)
        pair.answer(1, [(":status", "200")])
        #expect(pair.events.last == .delivered(slot: 0, stream: 1, apnsID: nil))
    }

    @Test func `a second GOAWAY closes more, and one with a higher id takes nothing back`() throws {
        let codec = try codec(streams: 4)
        codec.receive(frame(7, bytes(0x7FFF_FFFF) + bytes(0)))
        #expect(codec.drainEvents() == [.goAway(last: .max, code: 0, debugData: [])])
        codec.receive(frame(7, bytes(3) + bytes(0)))
        let closed = [2, 3].map { HTTP2Event.reset(slot: $0, stream: StreamID(2 * $0 + 1), code: 7, wasSent: true) }
        #expect(codec.drainEvents() == [.goAway(last: 3, code: 0, debugData: [])] + closed)
        codec.receive(frame(7, bytes(99) + bytes(0)))
        #expect(codec.drainEvents() == [.goAway(last: 99, code: 0, debugData: [])])
        #expect(!codec.isOver)
    }

    @Test func `GOAWAY gives back what waits inside HTTP/2, unsent`() throws {
        let codec = try codec(streams: 1)
        codec.receive(settings([(3, 1)]))
        _ = codec.submit(notification(2), slot: 1)
        _ = codec.drainEvents()
        codec.receive(frame(7, bytes(0x7FFF_FFFF) + bytes(0)))
        #expect(codec.drainEvents().last == .reset(slot: 1, stream: 3, code: 7, wasSent: false))
    }

    @Test func `how far a request got is known to the byte`() throws {
        let pair = try CodecPair()
        _ = pair.submit(notification(1), slot: 0)
        let second = pair.codec.out.count
        _ = pair.submit(notification(2), slot: 1)
        #expect(!pair.isWritten(slot: 0))
        pair.codec.out.consume(1)
        #expect(pair.isWritten(slot: 0))
        pair.codec.out.consume(second - 1)
        #expect(!pair.isWritten(slot: 1))
        pair.codec.out.consume(1)
        #expect(pair.isWritten(slot: 1))
        #expect(!pair.isWritten(slot: 77))
    }

    @Test func `a GOAWAY in the place of SETTINGS is heard, in pieces too`() throws {
        let codec = try CodecBox(slots: 1)
        for byte in frame(7, bytes(3) + bytes(2) + [72, 105]) { codec.receive([byte]) }
        #expect(codec.drainEvents() == [.goAway(last: 3, code: 2, debugData: [72, 105])])
        #expect(!codec.isOver)
    }

    @Test func `the client sends GOAWAY once and starts no stream after it`() throws {
        let codec = try codec()
        codec.codec.sendGoAway()
        codec.codec.sendGoAway()
        #expect(codec.output() == frame(7, bytes(0) + bytes(0)))
        #expect(codec.submit(notification(1), slot: 0) == nil)
    }
}

@Suite("A peer that breaks HTTP/2")
struct ProtocolErrorTests {
    /// Bytes that violate HTTP/2 with one stream open, and the code of our GOAWAY.
    struct Breach: CustomTestStringConvertible, Sendable {
        var testDescription: String
        var code: UInt32
        var bytes: [UInt8]

        init(_ what: String, _ code: UInt32, _ bytes: [UInt8]) { (testDescription, self.code, self.bytes) = (what, code, bytes) }
    }

    static let breaches: [Breach] = [
        Breach("DATA on stream 0", 1, frame(0, stream: 0, [1])),
        Breach("DATA on an idle stream", 1, frame(0, stream: 3, [1])),
        Breach("DATA on a stream of the server", 1, frame(0, stream: 2, [1])),
        Breach("padding longer than DATA", 1, frame(0, flags: 8, stream: 1, [5, 0, 0, 0, 0])),
        Breach("padding without its length", 6, frame(0, flags: 8, stream: 1)),
        Breach("HEADERS on stream 0", 1, frame(1, flags: 4, stream: 0, [0x88])),
        Breach("HEADERS on an idle stream", 1, frame(1, flags: 4, stream: 3, [0x88])),
        Breach("HEADERS too short for their priority", 1, frame(1, flags: 0x24, stream: 1, [0, 0, 0])),
        Breach("HPACK without sense", 9, frame(1, flags: 4, stream: 1, [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF])),
        Breach("a header block that breaks off", 9, frame(1, flags: 4, stream: 1, [0x08, 3, 50])),
        Breach("a frame within a header block", 1, frame(1, stream: 1, [0x88]) + frame(6, [0, 0, 0, 0, 0, 0, 0, 0])),
        Breach("an unknown frame within a header block", 1, frame(1, stream: 1, [0x88]) + frame(77)),
        Breach("CONTINUATION of another stream", 1, frame(1, stream: 1, [0x88]) + frame(9, flags: 4, stream: 3)),
        Breach("CONTINUATION of nothing", 1, frame(9, flags: 4, stream: 1)),
        Breach("a header block without end", 11, frame(1, stream: 1) + times(65, frame(9, stream: 1))),
        Breach(
            "a header block that is too large", 11,
            frame(1, stream: 1) + times(5, frame(9, stream: 1, [UInt8](repeating: 0x88, count: 16384)))),
        Breach("PRIORITY of four bytes", 6, frame(2, stream: 1, [0, 0, 0, 0])),
        Breach("PRIORITY on stream 0", 1, frame(2, stream: 0, [0, 0, 0, 0, 0])),
        Breach("RST_STREAM on stream 0", 1, frame(3, stream: 0, bytes(0))),
        Breach("RST_STREAM on an idle stream", 1, frame(3, stream: 5, bytes(0))),
        Breach("RST_STREAM of five bytes", 6, frame(3, stream: 1, [0, 0, 0, 0, 0])),
        Breach("SETTINGS on a stream", 1, frame(4, stream: 1)),
        Breach("SETTINGS of seven bytes", 6, frame(4, [0, 1, 0, 0, 0, 0, 0])),
        Breach("an ACK with SETTINGS in it", 6, frame(4, flags: 1, [0, 1, 0, 0, 0, 0])),
        Breach("ENABLE_PUSH by a server", 1, settings([(2, 1)])),
        Breach("INITIAL_WINDOW_SIZE of 2^31", 3, settings([(4, 1 << 31)])),
        Breach("MAX_FRAME_SIZE below 2^14", 1, settings([(5, 16383)])),
        Breach("MAX_FRAME_SIZE of 2^24", 1, settings([(5, 1 << 24)])),
        Breach("PUSH_PROMISE", 1, frame(5, flags: 4, stream: 1, bytes(2) + [0x88])),
        Breach("PING on a stream", 1, frame(6, stream: 1, [0, 0, 0, 0, 0, 0, 0, 0])),
        Breach("PING of seven bytes", 6, frame(6, [0, 0, 0, 0, 0, 0, 0])),
        Breach("GOAWAY on a stream", 1, frame(7, stream: 1, bytes(0) + bytes(0))),
        Breach("GOAWAY of seven bytes", 6, frame(7, [0, 0, 0, 0, 0, 0, 0])),
        Breach("WINDOW_UPDATE of three bytes", 6, frame(8, [0, 0, 0])),
        Breach("WINDOW_UPDATE of the connection by 0", 1, frame(8, bytes(0))),
        Breach("WINDOW_UPDATE of the connection beyond 2^31", 3, frame(8, bytes(0x7FFF_FFFF))),
        Breach("WINDOW_UPDATE of an idle stream", 1, frame(8, stream: 9, bytes(1))),
        Breach("a frame of 16,385 bytes", 6, frame(77, [UInt8](repeating: 0, count: 16385))),
        Breach("ten thousand PINGs at once", 11, times(10_001, frame(6, [0, 0, 0, 0, 0, 0, 0, 0]))),
        Breach("a large field named again and again", 11, headerBomb),
    ]

    private static func times(_ count: Int, _ bytes: [UInt8]) -> [UInt8] {
        Array([[UInt8]](repeating: bytes, count: count).joined())
    }

    /// An entry of 4,000 bytes, and its index twenty times.
    private static let headerBomb: [UInt8] = {
        let entry: [UInt8] = [0x40, 1, 97, 0x7F] + [0xA1, 0x1E] + [UInt8](repeating: 98, count: 4000)
        return frame(1, flags: 4, stream: 1, entry + [UInt8](repeating: 0xBE, count: 20))
    }()

    @Test(arguments: breaches)
    func `GOAWAY names the violated rule, and nothing more is read`(breach: Breach) throws {
        let codec = try codec(streams: 1)
        codec.receive(breach.bytes)
        #expect(codec.isOver)
        let output = codec.output()
        let goAway = try #require(HTTP2FrameTests.frames(output).last)
        #expect(goAway.type == 7 && goAway.payload.prefix(8) == ArraySlice(bytes(0) + bytes(breach.code)), "\(codec.fault)")
        #expect(codec.fault.hasPrefix("HTTP/2: "))
        codec.receive(frame(6, [0, 0, 0, 0, 0, 0, 0, 0]))
        codec.codec.ping(1)
        codec.codec.sendGoAway()
        #expect(codec.submit(notification(1), slot: 1) == nil)
        #expect(codec.output() == [])
        #expect(codec.isWritten(slot: 0), "streams in flight stay known")
    }

    @Test(arguments: breaches)
    func `byte by byte it is the same`(breach: Breach) throws {
        let codec = try codec(streams: 1)
        for byte in breach.bytes { codec.receive([byte]) }
        #expect(codec.isOver)
    }

    @Test(arguments: [
        frame(6, [0, 0, 0, 0, 0, 0, 0, 0]), frame(4, flags: 1), frame(99), Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8),
    ])
    func `it does not begin with SETTINGS`(bytes: [UInt8]) throws {
        let codec = try CodecBox(slots: 1)
        codec.receive(bytes)
        #expect(codec.isOver)
    }

    @Test func `unusual but valid frames are accepted`() throws {
        let codec = try codec(streams: 2)
        let odd =
            frame(77, flags: 0xFF, stream: 12, [1, 2, 3]) + frame(2, stream: 1, [0, 0, 0, 0, 0])
            + frame(2, stream: 8, [0, 0, 0, 0, 0]) + frame(4, flags: 1)
            + frame(1, flags: 0x2C, stream: 1, [3] + [0, 0, 0, 0, 9] + [0x88] + [0, 0, 0])
            + frame(0, flags: 8, stream: 1, [2, 1, 0, 0]) + frame(0, flags: 9, stream: 1, [0])
        codec.receive(odd)
        #expect(!codec.isOver)
        #expect(codec.drainEvents() == [.delivered(slot: 0, stream: 1, apnsID: nil)])
        // The stream is closed now: whatever comes on it is ignored.
        codec.receive(frame(0, flags: 1, stream: 1, [1]) + frame(1, flags: 5, stream: 1, [0x88]))
        codec.receive(frame(3, stream: 1, bytes(5)) + frame(8, stream: 1, bytes(5)))
        #expect(!codec.isOver && codec.drainEvents() == [])
    }
}
