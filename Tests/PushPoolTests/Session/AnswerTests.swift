import Testing

@testable import PushPool

private func rejected(_ slot: Int, _ stream: StreamID, _ response: Response) -> HTTP2Event {
    .rejected(slot: slot, stream: stream, response)
}

@Suite("An answer off the wire")
struct AnswerTests {
    private func answer(_ fields: [(String, String)], body: [UInt8]? = nil, collecting: Bool = false) throws -> [HTTP2Event] {
        let pair = try CodecPair.withRequest(collectsAPNSIDs: collecting)
        pair.answer(1, fields, body: body)
        return pair.events
    }

    @Test func `200, with and without its id`() throws {
        let fields = [(":status", "200"), ("apns-id", "ABC")]
        #expect(try answer(fields) == [.delivered(slot: 0, stream: 1, apnsID: nil)])
        #expect(try answer(fields, collecting: true) == [.delivered(slot: 0, stream: 1, apnsID: "ABC")])
    }

    @Test(arguments: ["201", "204", "299"]) func `every status of 2xx is an acceptance`(status: String) throws {
        let fields = [(":status", status), ("apns-id", "ABC")]
        #expect(try answer(fields) == [.delivered(slot: 0, stream: 1, apnsID: nil)])
        #expect(try answer(fields, collecting: true) == [.delivered(slot: 0, stream: 1, apnsID: "ABC")])
    }

    @Test func `300 is a rejection`() throws {
        #expect(try answer([(":status", "300")]) == [rejected(0, 1, Response(status: 300))])
    }

    @Test func `another status with all that comes along`() throws {
        let fields = [(":status", "503"), ("apns-id", "ABC"), ("retry-after", "120"), ("content-type", "application/json")]
        let response = Response(status: 503, apnsID: "ABC", retryAfter: 120, body: Array("{}".utf8))
        #expect(try answer(fields, body: Array("{}".utf8)) == [rejected(0, 1, response)])
    }

    @Test(
        arguments: [
            ("-1", nil), ("soon", nil), ("99999999999", 1_000_000), ("0", 0), ("Sun, 06 Nov 1994 08:49:37 GMT", 0),
            ("Thu, 01 Jan 2150 00:00:00 GMT", 1_000_000), (String(repeating: "9", count: 60), 1_000_000), ("", nil),
        ] as [(String, Int?)])
    func `retry-after is seconds or nothing`(value: String, expected: Int?) throws {
        let events = try answer([(":status", "500"), ("retry-after", value)])
        #expect(events == [rejected(0, 1, Response(status: 500, retryAfter: expected))])
    }

    @Test(arguments: [9000, 200_000]) func `a body beyond 4 KiB is cut, and read to its end`(count: Int) throws {
        let events = try answer([(":status", "400")], body: [UInt8](repeating: 65, count: count))
        #expect(events == [rejected(0, 1, Response(status: 400, body: [UInt8](repeating: 65, count: 4096)))])
    }

    @Test(arguments: ["20", "2000", "abc", "", "100"]) func `a status that is none is a broken answer`(status: String) throws {
        #expect(try answer([(":status", status)]) == [.reset(slot: 0, stream: 1, code: 1, wasSent: true)])
    }

    @Test func `an interim answer is followed by the final one`() throws {
        let pair = try CodecPair.withRequest()
        pair.peer.answer(1, [(":status", "103")], isEnd: false)
        pair.answer(1, [(":status", "200")])
        #expect(pair.events == [.delivered(slot: 0, stream: 1, apnsID: nil)])
    }

    @Test func `trailers change nothing of an answer`() throws {
        let pair = try CodecPair.withRequest()
        pair.answer(1, [(":status", "400")], body: Array("no".utf8), trailers: [("retry-after", "5"), ("apns-id", "X")])
        #expect(pair.events == [rejected(0, 1, Response(status: 400, body: Array("no".utf8)))])
    }

    @Test func `slots serve one request after the other`() throws {
        let pair = try CodecPair()
        for round in 0..<50 {
            let stream = try #require(pair.submit(notification(UInt64(round)), slot: 0))
            pair.exchange()
            pair.answer(stream, round % 2 == 0 ? [(":status", "200")] : [(":status", "410"), ("apns-id", "\(round)")])
            let expected =
                round % 2 == 0
                ? .delivered(slot: 0, stream: stream, apnsID: nil)
                : rejected(0, stream, Response(status: 410, apnsID: "\(round)"))
            #expect(pair.events.last == expected)
        }
    }

    @Test func `an answer that is very late finds its slot among thousands of younger streams`() throws {
        let pair = try CodecPair(slots: 2)
        let late = try #require(pair.submit(notification(1), slot: 0))
        for _ in 0..<5000 {
            let stream = try #require(pair.submit(notification(2), slot: 1))
            pair.exchange()
            pair.answer(stream, [(":status", "200")])
            #expect(pair.events.last == .delivered(slot: 1, stream: stream, apnsID: nil))
        }
        pair.answer(late, [(":status", "410")])
        #expect(pair.events.last == rejected(0, late, Response(status: 410)))
        #expect(pair.events.count == 5001)
    }

    @Test func `a reset says what was sent`() throws {
        let pair = try CodecPair.withRequest()
        pair.peer.reset(1, 7)
        pair.exchange()
        #expect(pair.events == [.reset(slot: 0, stream: 1, code: 7, wasSent: true)])
    }

    @Test func `a reset with NO_ERROR after an answer's status is the answer's end`() throws {
        let pair = try CodecPair()
        _ = pair.submit(notification(1), slot: 0)
        _ = pair.submit(notification(2), slot: 1)
        pair.exchange()
        pair.peer.answer(1, [(":status", "413")], isEnd: false)
        pair.feed(pair.peer.takeOutput() + frame(3, stream: 1, bytes(0)) + frame(3, stream: 3, bytes(0)))
        #expect(
            pair.events == [
                rejected(0, 1, Response(status: 413)), .reset(slot: 1, stream: 3, code: 1, wasSent: true),
            ])
    }

    @Test func `an answer before the request's end stops the rest of the request`() throws {
        let pair = try CodecPair(settings: [(3, 100), (4, 10)], updatesWindows: false)
        _ = pair.submit(notification(1, payload: String(repeating: "x", count: 50)), slot: 0)
        pair.exchange()
        #expect(pair.peer.requests[1]?.body.count == 10)
        pair.answer(1, [(":status", "413")])
        #expect(pair.events == [rejected(0, 1, Response(status: 413))])
        #expect(pair.peer.resets == [1: 8])
        #expect(pair.peer.requests[1]?.isComplete == false)
    }

    @Test func `the header block of a cancelled stream still changes the table for the next one`() throws {
        let pair = try CodecPair()
        for slot in 0..<2 { _ = pair.submit(notification(UInt64(slot)), slot: slot) }
        pair.exchange()
        pair.codec.cancel(1)
        for stream in [1, 3] as [StreamID] { pair.peer.answer(stream, [(":status", "400"), ("apns-id", "ABC")]) }
        let answers = pair.peer.takeOutput()
        #expect(answers.count < 2 * 9 + 2 + 13, "the second answer is two indexes")
        pair.feed(answers)
        #expect(pair.events.last == rejected(1, 3, Response(status: 400, apnsID: "ABC")))
    }

    @Test func `a cancelled request gives its slot back`() throws {
        let pair = try CodecPair.withRequest()
        pair.codec.cancel(1)
        pair.codec.cancel(1)
        pair.exchange()
        #expect(pair.events == [.reset(slot: 0, stream: 1, code: 8, wasSent: true)])
        #expect(pair.peer.resets == [1: 8])
        _ = pair.submit(notification(2), slot: 0)
        pair.exchange()
        #expect(pair.peer.requests[3]?.isComplete == true)
    }
}
