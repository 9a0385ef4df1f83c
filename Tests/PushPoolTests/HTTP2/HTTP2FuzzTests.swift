import Harness
import Testing

@testable import PushPool

@Suite("HTTP/2 and a peer at random")
struct HTTP2FuzzTests {
    /// A connection on which nghttp2's server says valid things of all kinds, cut into pieces of all sizes, and what our
    /// side must make of it.
    private struct Conversation {
        var generator: SeededGenerator
        let pair: CodecPair
        let seed: Int
        private var expected: [Int: HTTP2Event] = [:]
        private var open: [Int: StreamID] = [:]
        private var bodies: [StreamID: [UInt8]] = [:]
        private var padding: SeededGenerator

        init(seed: Int) throws {
            self.seed = seed
            generator = SeededGenerator(seed: UInt64(seed))
            let window = ([0, 1, 100, 5000, 65_535, 1 << 20] as [UInt32]).randomElement(using: &generator)!
            let table = Self.table(&generator)
            let token = Bool.random(using: &generator) ? "a.b.c" : nil
            pair = try CodecPair(settings: [(1, table), (3, 100), (4, window)], slots: 20, collectsAPNSIDs: true, token: token)
            padding = SeededGenerator(seed: UInt64(seed) + 1)
            var cuts = SeededGenerator(seed: UInt64(seed) + 2)
            let most = [1, 3, 20, 1000, 100_000].randomElement(using: &generator)!
            pair.cut = { _ in Int.random(in: 1...most, using: &cuts) }
            var pads = SeededGenerator(seed: UInt64(seed) + 3)
            let isPadded = Bool.random(using: &generator)
            pair.peer.padding = { isPadded ? Int.random(in: 0...200, using: &pads) : 0 }
        }

        static func table(_ generator: inout SeededGenerator) -> UInt32 {
            [0, 64, 300, 4096, 65536].randomElement(using: &generator)!
        }

        mutating func step() throws {
            switch Int.random(in: 0..<12, using: &generator) {
            case 0..<4: submit()
            case 4..<8: answer()
            case 8: pair.peer.ping()
            case 9: pair.peer.set([(1, Self.table(&generator))])
            case 10:
                // Never below what streams may have used up: nghttp2's server does not go negative without an ACK.
                pair.peer.set([(4, [1, 100, 5000, 65_535, 1 << 20].randomElement(using: &generator)!)])
            default: pair.codec.ping(UInt64.random(in: 0 ... .max, using: &generator))
            }
            if Bool.random(using: &generator) { try settle() }
        }

        private mutating func submit() {
            guard let slot = (0..<20).first(where: { open[$0] == nil }) else { return }
            let payload = String(repeating: "p", count: [0, 1, 200, 5000, 20_000].randomElement(using: &generator)!)
            let push = notification(UInt64(slot), payload: payload, expiration: Int64.random(in: 0...3, using: &generator))
            guard let stream = pair.submit(push, slot: slot) else { return }
            open[slot] = stream
            bodies[stream] = Array(payload.utf8)
        }

        private mutating func answer() {
            let unanswered = open.keys.filter { expected[$0] == nil }.sorted()
            guard let slot = unanswered.randomElement(using: &generator), let stream = open[slot],
                pair.peer.requests[stream]?.isComplete == true
            else { return }
            if Int.random(in: 0..<10, using: &generator) == 0 {
                let code = UInt32.random(in: 1...13, using: &generator)
                pair.peer.reset(stream, code)
                expected[slot] = .reset(slot: slot, stream: stream, code: code, wasSent: true)
                return
            }
            if Int.random(in: 0..<5, using: &generator) == 0 {
                pair.peer.answer(stream, [(":status", "103"), ("link", "x")], isEnd: false)
            }
            let status = [200, 200, 400, 410, 503].randomElement(using: &generator)!
            let other = "x-\(Int.random(in: 0...9, using: &generator))"
            var fields = [(":status", String(status)), ("apns-id", "id\(stream)"), (other, "y")]
            if Int.random(in: 0..<5, using: &generator) == 0 {
                let letter = "abcXYZ~{".randomElement(using: &generator)!
                fields.append(("x-large", String(repeating: letter, count: 20_000)))
            }
            let count = Int.random(in: 0...9000, using: &generator)
            let body = count % 2 == 0 || status == 200 ? nil : [UInt8](repeating: 66, count: count)
            let trailers = Int.random(in: 0..<5, using: &generator) == 0 ? [("retry-after", "3")] : []
            pair.peer.answer(stream, fields, body: body, trailers: trailers)
            if status == 200 {
                expected[slot] = .delivered(slot: slot, stream: stream, apnsID: "id\(stream)")
            } else {
                let response = Response(status: status, apnsID: "id\(stream)", body: Array((body ?? []).prefix(4096)))
                expected[slot] = .rejected(slot: slot, stream: stream, response)
            }
        }

        /// Both sides say all they have to say, and every answer since the last time is there, once.
        mutating func settle() throws {
            pair.exchange()
            try #require(!pair.isOver, "\(pair.fault); seed \(seed)")
            try #require(pair.peer.goAways.isEmpty, "the server complains; seed \(seed)")
            for event in pair.events {
                switch event {
                case .delivered(let slot, _, _), .rejected(let slot, _, _), .reset(let slot, _, _, _):
                    try #require(expected.removeValue(forKey: slot) == event, "seed \(seed)")
                    open[slot] = nil
                default: break
                }
            }
            pair.events = []
            try #require(expected.isEmpty, "no answer for \(expected); seed \(seed)")
            for (stream, request) in pair.peer.requests where request.isComplete {
                try #require(request.body == bodies[stream], "stream \(stream); seed \(seed)")
                try #require(request.fields[2].value == "api.push.apple.com" && request.fields.last?.name == "apns-expiration")
            }
        }

        /// Windows are opened for all, so that every request gets through.
        mutating func finish() throws {
            pair.peer.set([(4, 1 << 20)])
            try settle()
            let complete = pair.peer.requests.values.count { $0.isComplete }
            try #require(complete == bodies.count, "seed \(seed)")
        }
    }

    @Test(arguments: 0..<40) func `the codec and nghttp2's server receive exactly what the other sends`(seed: Int) throws {
        var conversation = try Conversation(seed: seed)
        for _ in 0..<100 { try conversation.step() }
        try conversation.finish()
    }

    /// A peer's half of a conversation, to be spoiled.
    private static func recording(_ generator: inout SeededGenerator) throws -> (CodecBox, [UInt8]) {
        let peer = HTTP2Peer(settings: [(1, 300), (3, 100), (4, 500)])
        let box = try CodecBox(slots: 10)
        var said = peer.takeOutput()
        box.receive(said)
        for slot in 0..<8 { _ = box.submit(notification(UInt64(slot), payload: String(repeating: "x", count: 700)), slot: slot) }
        peer.receive(box.output())
        said = peer.takeOutput()
        for stream in [1, 3, 5, 7] as [StreamID] {
            peer.answer(stream, [(":status", "400"), ("apns-id", "x")], body: randomBytes(0...300, &generator))
        }
        peer.ping()
        peer.set([(3, 5), (4, 70)])
        peer.reset(9, 2)
        peer.goAway(last: 11, debug: "{}")
        return (box, said + peer.takeOutput())
    }

    @Test(arguments: 0..<500) func `a conversation with bytes changed, lost and doubled never stops it`(seed: Int) throws {
        var generator = SeededGenerator(seed: UInt64(seed))
        let (box, recording) = try Self.recording(&generator)
        var bytes = recording
        for _ in 0..<Int.random(in: 1...6, using: &generator) {
            let place = Int.random(in: 0..<bytes.count, using: &generator)
            let end = min(bytes.count, place + Int.random(in: 1...30, using: &generator))
            switch Int.random(in: 0..<4, using: &generator) {
            case 0: bytes[place] = UInt8.random(in: 0...255, using: &generator)
            case 1: bytes[place] ^= 1 << UInt8.random(in: 0...7, using: &generator)
            case 2: bytes.removeSubrange(place..<end)
            default: bytes.insert(contentsOf: Array(bytes[place..<end]), at: place)
            }
            if bytes.isEmpty { break }
        }
        try Self.feed(bytes, to: box, &generator, seed)
    }

    @Test(arguments: 0..<500) func `frames at random, and bytes at random, never stop it`(seed: Int) throws {
        var generator = SeededGenerator(seed: UInt64(seed) &+ 1 << 32)
        let box = try CodecBox(slots: 10)
        if seed % 4 != 0 { box.receive(settings([(3, 100), (4, 50)])) }
        for slot in 0..<5 { _ = box.submit(notification(UInt64(slot)), slot: slot) }
        var all: [UInt8] = []
        for _ in 0..<40 {
            let payload = randomBytes(0...60, &generator)
            let (type, flags) = (UInt8.random(in: 0...10, using: &generator), UInt8.random(in: 0...255, using: &generator))
            all += frame(type, flags: flags, stream: UInt32.random(in: 0...12, using: &generator), payload)
        }
        try Self.feed(all, to: box, &generator, seed)
    }

    /// In pieces, with our own side going on; each request ends once at most, and its slot serves again.
    private static func feed(_ bytes: [UInt8], to box: CodecBox, _ generator: inout SeededGenerator, _ seed: Int) throws {
        var rest = bytes[...]
        var taken = Set(0..<10)
        while !rest.isEmpty {
            let piece = Array(rest.prefix(Int.random(in: 1...50, using: &generator)))
            rest = rest.dropFirst(piece.count)
            box.receive(piece)
            for event in box.drainEvents() {
                switch event {
                case .delivered(let slot, _, _), .rejected(let slot, _, _), .reset(let slot, _, _, _):
                    try #require(taken.remove(slot) != nil, "slot \(slot) ended twice; seed \(seed)")
                    if box.submit(notification(1, expiration: 7, apnsID: "i"), slot: slot) != nil { taken.insert(slot) }
                default: break
                }
            }
            if Int.random(in: 0..<5, using: &generator) == 0 {
                box.codec.cancel(StreamID(Int.random(in: 0...30, using: &generator)))
            }
            if Bool.random(using: &generator) { _ = box.output() }
        }
        #expect(box.codec.out.count < 1 << 20, "seed \(seed)")
    }
}
