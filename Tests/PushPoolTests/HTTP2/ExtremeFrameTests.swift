import Testing

@testable import PushPool

@Suite("HTTP/2 and extreme numbers in frames")
struct ExtremeFrameTests {
    private static let numbers: [UInt32] = [
        0, 1, 16_383, 16_384, 65_535, 65_536, 16_777_215, 0x7FFF_FFFE, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFE, 0xFFFF_FFFF,
    ]

    /// A connection with a request that is sent, one whose body waits for the window, and several that wait for a stream.
    private static func box() throws -> CodecBox {
        let box = try CodecBox(slots: 10)
        box.receive(settings([(3, 3)]))
        for slot in 0..<6 {
            let payload = String(repeating: "x", count: slot == 1 ? 70_000 : 100)
            _ = box.submit(notification(UInt64(slot), payload: payload), slot: slot)
        }
        return box
    }

    @Test(arguments: 0..<8) func `any two SETTINGS are applied or end the connection`(parameter: UInt8) throws {
        for (first, second) in Self.numbers.flatMap({ one in Self.numbers.map { (one, $0) } }) {
            let box = try Self.box()
            box.receive(settings([(parameter, first), (4, 100)]))
            box.receive(frame(8, stream: 0, bytes(1000)) + frame(8, stream: 3, bytes(1000)))
            box.receive(settings([(parameter, second)]))
            box.receive(frame(1, flags: 5, stream: 1, [0x88]))
            #expect(box.isOver == !box.fault.isEmpty)
            #expect(box.codec.windowRoom <= FlowWindow.most)
        }
    }

    @Test(arguments: [UInt32(0), 1, 3, 5, 7, 0x7FFF_FFFF])
    func `any two WINDOW_UPDATEs are applied, or end the stream or the connection`(stream: UInt32) throws {
        for (first, second) in Self.numbers.flatMap({ one in Self.numbers.map { (one, $0) } }) {
            let box = try Self.box()
            box.receive(frame(8, stream: stream, bytes(first)) + frame(8, stream: stream, bytes(second)))
            #expect(box.codec.sendWindow.left <= 2 * FlowWindow.most)
            box.receive(settings([(4, 0x7FFF_FFFF)]) + frame(8, stream: stream, bytes(first)))
        }
    }

    @Test func `any GOAWAY and RST_STREAM end the requests that they name`() throws {
        for (first, second) in Self.numbers.flatMap({ one in Self.numbers.map { (one, $0) } }) {
            let box = try Self.box()
            box.receive(frame(3, stream: 1, bytes(first)))
            box.receive(frame(7, bytes(first) + bytes(second)) + frame(7, bytes(second) + bytes(first)))
            let ended = box.drainEvents().count { if case .reset = $0 { true } else { false } }
            #expect(ended >= 1 || box.isOver || first == 0)
        }
    }

    @Test(arguments: ["status", "retry-after", "timestamp"])
    func `any number in a response is bounded`(place: String) throws {
        let texts = [
            "", "-1", "0", "99999999999999999999", "9223372036854775807", "-9223372036854775808", "1e308", "+5", "1000000",
            "Fri, 31 Dec 9999 23:59:59 GMT", "Sat, 01 Jan 0000 00:00:00 GMT", "Thu, 01 Jan 1970 00:00:00 GMT",
        ]
        for text in texts {
            var response = IncomingResponse(collectsAPNSID: true)
            response.beginBlock()
            let name = Array((place == "status" ? ":status" : place).utf8)
            response.note(name.span, Array(text.utf8).span)
            #expect((0...999).contains(response.status) && (0...1_000_000).contains(response.retryAfter ?? 0))
            let body = ResponseBody(Array(#"{"reason":"Unregistered","timestamp":\#(text)}"#.utf8))
            #expect(body.timestamp == nil || body.timestamp == Int64(text))
        }
    }
}
