import Testing

@testable import PushPool

@Suite("Flow control")
struct FlowControlTests {
    private let body = String(repeating: "0123456789", count: 500)

    @Test(arguments: [0, 1, 7, 1000, 4999, 5000, 5001] as [UInt32])
    func `bodies go out as far as their stream's window lets them`(window: UInt32) throws {
        let pair = try CodecPair(settings: [(3, 100), (4, window)], updatesWindows: false)
        for slot in 0..<3 { _ = pair.submit(notification(UInt64(slot), payload: body), slot: slot) }
        pair.exchange()
        for stream in [1, 3, 5] as [StreamID] { #expect(pair.peer.requests[stream]?.body.count == min(5000, Int(window))) }
        #expect(pair.peer.requests[1]?.isComplete == (window >= 5000))
        // The window of all streams grows with SETTINGS, then one alone by WINDOW_UPDATE.
        pair.peer.set([(4, window + 2000)])
        pair.exchange()
        for stream in [1, 3, 5] as [StreamID] { #expect(pair.peer.requests[stream]?.body.count == min(5000, Int(window) + 2000)) }
        if window + 2000 < 5000 {
            pair.feed(frame(8, stream: 3, bytes(5000)))
            let rest = 5000 - Int(window) - 2000
            #expect(HTTP2FrameTests.frames(pair.output()).reduce(0) { $0 + $1.payload.count } == rest)
        }
    }

    @Test func `a window that SETTINGS make negative must be filled up first`() throws {
        let codec = try CodecBox(slots: 1)
        codec.receive(settings([(3, 10), (4, 3000)]))
        _ = codec.submit(notification(1, payload: body), slot: 0)
        _ = codec.output()
        codec.receive((settings([(4, 1000)]) + frame(8, stream: 1, bytes(2000))))
        #expect(codec.output() == frame(4, flags: 1), "3,000 sent of 1,000 and 2,000")
        codec.receive(frame(8, stream: 1, bytes(5)))
        #expect(codec.output() == frame(0, stream: 1, Array(body.utf8)[3000..<3005] + []))
        codec.receive(settings([(4, 3000)]))
        #expect(codec.output() == frame(4, flags: 1) + frame(0, flags: 1, stream: 1, Array(body.utf8)[3005...] + []))
    }

    @Test func `unwritten requests are those of which bytes wait in the output, also of bodies, and no other frames`() throws {
        let codec = try CodecBox(slots: 2)
        codec.receive(settings([(3, 10), (4, 3000)]))
        codec.codec.ping(1)
        #expect(!codec.hasUnwrittenRequests())
        _ = codec.submit(notification(1, payload: body), slot: 0)
        let count = codec.codec.out.count
        codec.codec.out.consume(count - 1)
        #expect(codec.hasUnwrittenRequests())
        codec.codec.out.consume(1)
        #expect(!codec.hasUnwrittenRequests())
        codec.codec.ping(2)
        #expect(!codec.hasUnwrittenRequests())
        // The rest of the body waited for its window.
        codec.receive(frame(8, stream: 1, bytes(5000)))
        #expect(codec.hasUnwrittenRequests())
        _ = codec.output()
        #expect(!codec.hasUnwrittenRequests())
    }

    @Test func `the connection's window is shared, and a request it has no room for waits unsent`() throws {
        let pair = try CodecPair(updatesWindows: false)
        for slot in 0..<20 { _ = pair.submit(notification(UInt64(slot), payload: body), slot: slot) }
        pair.exchange()
        #expect(pair.peer.requests.values.reduce(0) { $0 + $1.body.count } == 65_535)
        #expect(pair.peer.requests.count == 14, "13 whole ones and a part")
        #expect(!pair.isWritten(slot: 14))
        pair.codec.cancel(29)
        #expect(pair.drainEvents() == [.reset(slot: 14, stream: 29, code: 8, wasSent: false)])
        pair.peer.consume(65_535)
        pair.exchange()
        #expect(pair.peer.requests.count == 19)
        #expect(pair.peer.requests[29] == nil)
        #expect(pair.peer.requests.values.allSatisfy { $0.isComplete && $0.body == Array(body.utf8) })
    }

    /// nghttp2 confirms DATA at half of its window. Without a frame that ends there, the rest of the window waits for more DATA.
    @Test(arguments: [7, 200, 210, 1000, 1024, 4000, 4096, 5000, 20_000])
    func `a round trip carries a whole window, whatever the size of the bodies`(size: Int) throws {
        let pair = try CodecPair(settings: [(3, 100_000)], slots: 100_000)
        let text = String(repeating: "x", count: size)
        for slot in 0..<(6 * 65_535 / size + 2) { _ = pair.submit(notification(UInt64(slot), payload: text), slot: slot) }
        var before = 0
        for trip in 1...5 {
            var replies: [UInt8] = []
            // The server confirms what it has read before it reads more.
            var rest = pair.output()[...]
            while !rest.isEmpty {
                pair.peer.receive(Array(rest.prefix(1000)))
                rest = rest.dropFirst(1000)
                replies += pair.peer.takeOutput()
            }
            let carried = pair.peer.requests.values.reduce(0) { $0 + $1.body.count }
            #expect(carried - before >= 65_534, "round trip \(trip)")
            before = carried
            pair.feed(replies)
        }
    }

    @Test func `frames end at each half of the window in flight, and WINDOW_UPDATEs move these places`() {
        var window = FlowWindow()
        var rooms: [Int] = []
        for count in [1000, 31_767, 32_767, 1] {
            rooms.append(window.frameRoom)
            window.spend(count)
        }
        #expect(rooms == [32_767, 31_767, 32_767, 32_767])
        #expect((window.left, window.inFlight) == (0, 65_535))
        let isSmall = window.grow(by: 32_767)
        #expect(isSmall && window.frameRoom == 32_766, "with 32,766 more, 65,534 are in flight")
        let isLarge = window.grow(by: 1_000_000)
        #expect(isLarge && window.size == 1_032_767 && window.frameRoom == 516_383)
    }

    @Test func `a stream's window beyond 2^31, or moved by 0, ends that stream alone`() throws {
        let codec = try CodecBox(slots: 9)
        codec.receive(settings([(3, 10)]))
        for slot in 0..<3 { _ = codec.submit(notification(1), slot: slot) }
        _ = codec.output()
        _ = codec.drainEvents()
        codec.receive((frame(8, stream: 1, bytes(0)) + frame(8, stream: 3, bytes(0x7FFF_FFFF))))
        #expect(codec.output() == frame(3, stream: 1, bytes(1)) + frame(3, stream: 3, bytes(3)))
        #expect(
            codec.drainEvents() == [
                .reset(slot: 0, stream: 1, code: 1, wasSent: true), .reset(slot: 1, stream: 3, code: 3, wasSent: true),
            ])
        codec.receive(frame(8, stream: 5, bytes(0x7FFF_0000)))
        #expect(!codec.isOver)
        codec.receive(settings([(4, 0x7FFF_FFFF)]))
        #expect(codec.isOver, "INITIAL_WINDOW_SIZE lifts the third beyond 2^31")
    }

    @Test func `error bodies enlarge our window again, that of the connection and that of one long body`() throws {
        let pair = try CodecPair(slots: 1)
        for _ in 0..<300 {
            let stream = try #require(pair.submit(notification(1), slot: 0))
            pair.exchange()
            pair.answer(stream, [(":status", "400")], body: [UInt8](repeating: 65, count: 10_000))
        }
        #expect(pair.events.count == 300)
        #expect(pair.peer.windowUpdates.count >= 4)
        let stream = try #require(pair.submit(notification(1), slot: 0))
        pair.exchange()
        pair.answer(stream, [(":status", "400")], body: [UInt8](repeating: 65, count: 2_000_000))
        #expect(pair.events.count == 301)
    }

    @Test func `DATA on a stream that is gone still counts for the connection`() throws {
        let codec = try CodecBox(slots: 1)
        codec.receive(settings([(3, 10)]))
        _ = codec.submit(notification(1), slot: 0)
        codec.codec.cancel(1)
        _ = codec.output()
        for _ in 0..<40 { codec.receive(frame(0, stream: 1, [UInt8](repeating: 0, count: 16384))) }
        #expect(codec.output() == frame(8, bytes(1 << 19)))
    }

    @Test func `a window is refilled when half of it is used, padding included`() throws {
        let codec = try CodecBox(slots: 9)
        codec.receive(settings([(3, 10)]))
        _ = codec.submit(notification(1), slot: 0)
        _ = codec.output()
        codec.receive(frame(1, flags: 4, stream: 1, [0x88]))
        for _ in 0..<40 { codec.receive(frame(0, flags: 8, stream: 1, [255] + [UInt8](repeating: 0, count: 16383))) }
        let updates = HTTP2FrameTests.frames(codec.output())
        #expect(updates.allSatisfy { $0.type == 8 })
        #expect(updates.filter { $0.stream == 1 }.map { Array($0.payload) } == [[UInt8]](repeating: bytes(32768), count: 20))
        #expect(updates.filter { $0.stream == 0 }.map { Array($0.payload) } == [bytes(1 << 19)])
    }
}
