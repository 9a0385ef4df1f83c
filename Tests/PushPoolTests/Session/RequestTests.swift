import Testing

@testable import PushPool

@Suite("A request on the wire")
struct RequestTests {
    @Test func `it carries every header in Apple's order and the payload's own bytes`() throws {
        let pair = try CodecPair(token: "a.b.c")
        let push = notification(
            1, token: "00fc", payload: #"{"aps":{ "alert":"é" }}"#, expiration: 1_700_000_000,
            apnsID: "123e4567-e89b-12d3-a456-426655440000", collapseID: "goals")
        #expect(pair.submit(push, slot: 0) == 1)
        pair.exchange()
        let request = try #require(pair.peer.requests[1])
        let expected = [
            ":method: POST", ":scheme: https", ":authority: api.push.apple.com", ":path: /3/device/00fc",
            "authorization: bearer a.b.c", "apns-topic: com.example.app", "apns-push-type: alert", "apns-priority: 10",
            "apns-expiration: 1700000000", "apns-id: 123e4567-e89b-12d3-a456-426655440000", "apns-collapse-id: goals",
        ]
        #expect(request.lines == expected)
        #expect(request.body == Array(#"{"aps":{ "alert":"é" }}"#.utf8))
        #expect(request.isComplete)
    }

    @Test func `absent values cause no headers`() throws {
        let pair = try CodecPair()
        _ = pair.submit(notification(1, headers: SharedHeaders(topic: nil, pushType: "mdm", priority: 1)), slot: 0)
        pair.exchange()
        let names = try #require(pair.peer.requests[1]).fields.map(\.name)
        #expect(names == [":method", ":scheme", ":authority", ":path", "apns-push-type", "apns-priority"])
    }

    @Test(arguments: [0, 1, -1, 1_700_000_000, .max, .min] as [Int64])
    func `an expiration is written as it is, time and again`(expiration: Int64) throws {
        let pair = try CodecPair()
        for slot in 0..<3 { _ = pair.submit(notification(1, expiration: expiration), slot: slot) }
        pair.exchange()
        for stream in [1, 3, 5] as [StreamID] {
            #expect(pair.peer.requests[stream]?.fields.last?.value == String(expiration))
        }
    }

    @Test func `a thousand digits of token and the largest payload arrive`() throws {
        let pair = try CodecPair()
        let token = String(repeating: "0f", count: 500)
        let payload = #"{"a":"\#(String(repeating: "x", count: 5000))"}"#
        let push = notification(
            1, token: token, payload: payload, expiration: .min, apnsID: String(repeating: "i", count: 36),
            collapseID: String(repeating: "c", count: 64))
        _ = pair.submit(push, slot: 0)
        pair.exchange()
        #expect(pair.peer.requests[1]?.fields[3].value == "/3/device/" + token)
        #expect(pair.peer.requests[1]?.body == Array(payload.utf8))
    }

    @Test func `a body beyond one frame and headers beyond one frame are split`() throws {
        let pair = try CodecPair()
        let payload = String(repeating: "x", count: 40_000)
        let topic = String(repeating: "t", count: 40_000)
        let headers = SharedHeaders(topic: topic, pushType: "alert", priority: 10)
        _ = pair.submit(notification(1, payload: payload, headers: headers), slot: 0)
        pair.exchange()
        #expect(pair.peer.requests[1]?.fields[4].value == topic)
        #expect(pair.peer.requests[1]?.body == Array(payload.utf8))
        #expect(pair.peer.requests[1]?.isComplete == true)
    }

    @Test func `a request without a payload ends its stream too`() throws {
        let pair = try CodecPair()
        _ = pair.submit(notification(1, payload: ""), slot: 0)
        pair.exchange()
        #expect(pair.peer.requests[1]?.isComplete == true)
        #expect(pair.peer.requests[1]?.body == [])
    }

    @Test func `we enable no push, ask for a large window and send no PRIORITY`() throws {
        let pair = try CodecPair()
        #expect(pair.peer.settings == [2: 0])
        #expect(pair.peer.windowUpdates == [(1 << 20) - 65535])
        _ = pair.submit(notification(1), slot: 0)
        pair.exchange()
        #expect(!pair.peer.frames.contains(2))
    }

    @Test func `from the second request on, all that is constant is one byte each`() throws {
        let pair = try CodecPair(token: String(repeating: "t", count: 200))
        var sizes: [Int] = []
        for round in 0..<20 {
            let before = pair.bytes
            let id = "123e4567-e89b-12d3-a456-4266554400\(10 + round)"
            let stream = try #require(
                pair.submit(notification(1, payload: "{}", expiration: 1_700_000_000 + Int64(round), apnsID: id), slot: 0))
            pair.exchange()
            sizes.append(pair.bytes - before)
            pair.answer(stream, [(":status", "200")])
        }
        // HEADERS 9, seven indexed fields, path 1+1+74, expiration 2+1+10, id 2+1+36; DATA 9+2.
        #expect(sizes[0] > 400)
        #expect(Set(sizes[1...]) == [9 + 7 + 76 + 13 + 39 + 11], "\(sizes)")
    }

    @Test func `a new token is used from the next request on`() throws {
        let pair = try CodecPair(token: "old")
        _ = pair.submit(notification(1), slot: 0)
        pair.codec.setToken(Array("new".utf8))
        _ = pair.submit(notification(2), slot: 1)
        pair.exchange()
        #expect(pair.peer.requests[1]?.fields[4].value == "bearer old")
        #expect(pair.peer.requests[3]?.fields[4].value == "bearer new")
    }

    @Test func `hundreds of kinds of header are sent right`() throws {
        let pair = try CodecPair()
        for round in 0..<300 {
            let headers = SharedHeaders(topic: "topic\(round)", pushType: "alert", priority: 5)
            let stream = try #require(pair.submit(notification(1, headers: headers), slot: 0))
            pair.exchange()
            #expect(pair.peer.requests[stream]?.fields[4].value == "topic\(round)")
            pair.answer(stream, [(":status", "200")])
        }
    }
}
