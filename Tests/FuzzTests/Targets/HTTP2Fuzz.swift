@testable import PushPool

/// The client's side of one connection with open requests, and any bytes of a server.
enum HTTP2Fuzz {
    private static let slots = 8
    private static let shared = SharedHeaders(topic: "com.example.app", pushType: "alert", priority: 10)

    private static func notification(payload: Int) -> Notification {
        let bytes = Array("071c09ab".utf8) + [UInt8](repeating: UInt8(ascii: "x"), count: payload)
        return Notification(id: 1, bytes: bytes, token: 0..<8, payload: 8..<bytes.count, headers: shared, expiration: 7)
    }

    static func run(_ bytes: [UInt8]) throws {
        var input = FuzzInput(bytes)
        let choice = input.byte()
        var connection = Connection(collectsAPNSIDs: choice & 1 == 0)
        connection.open(payload: choice & 2 == 0 ? 40 : 30_000)
        for piece in input.pieces() {
            try connection.receive(piece)
            if choice & 4 != 0 { connection.drop() }
            if choice & 8 != 0 { connection.codec.cancel(StreamID(Int32(piece.count) & 31)) }
            connection.open(payload: 40)
        }
        try connection.end()
    }

    /// Each piece is a header block: the first bytes of a frame choose its stream and flags.
    static func runHeaders(_ bytes: [UInt8]) throws {
        var input = FuzzInput(bytes)
        var connection = Connection(collectsAPNSIDs: true)
        connection.open(payload: 40)
        try connection.receive([0, 0, 0, 4, 0, 0, 0, 0, 0])
        while !input.isEmpty {
            let (choice, length) = (input.byte(), Int(input.byte()))
            let block = input.bytes(length)
            let type: UInt8 = choice & 0x80 == 0 ? 1 : 9
            let flags = choice & 0x05
            let stream = (choice >> 4 & 7) * 2 + 1
            try connection.receive([0, 0, UInt8(block.count), type, flags, 0, 0, 0, stream] + block)
            connection.open(payload: 40)
        }
        try connection.end()
    }

    private struct Connection: ~Copyable {
        var codec: HTTP2Codec
        private var taken: Set<Int> = []
        private var written = 0

        init(collectsAPNSIDs: Bool) {
            codec = HTTP2Codec(authority: "api.push.apple.com", slots: HTTP2Fuzz.slots, collectsAPNSIDs: collectsAPNSIDs)
            codec.setToken(Array("a.b.c".utf8))
        }

        /// Puts a request into every free slot.
        mutating func open(payload: Int) {
            for slot in 0..<HTTP2Fuzz.slots where !taken.contains(slot) {
                if codec.submit(HTTP2Fuzz.notification(payload: payload), slot: slot) != nil { taken.insert(slot) }
            }
        }

        mutating func receive(_ bytes: [UInt8]) throws {
            codec.receive(bytes.span)
            var events: [HTTP2Event] = []
            codec.takeEvents(into: &events)
            for event in events {
                switch event {
                case .delivered(let slot, _, _): try end(slot)
                case .reset(let slot, _, _, _): try end(slot)
                case .rejected(let slot, _, let response):
                    try end(slot)
                    let rejection = response.rejection
                    try BrokenPromise.unless(rejection.reason.utf8.count <= 4 * 200, "the reason is longer than its limit")
                case .settings, .goAway, .pingAnswered: break
                }
            }
            _ = codec.windowRoom
            _ = codec.isWritten(slot: 0)
            try BrokenPromise.unless(codec.out.count < 4 << 20, "the output has \(codec.out.count) bytes")
        }

        private mutating func end(_ slot: Int) throws {
            try BrokenPromise.unless(taken.remove(slot) != nil, "slot \(slot) ended twice")
        }

        /// The socket has taken all bytes.
        mutating func drop() { codec.out.consume(codec.out.count) }

        mutating func end() throws {
            codec.ping(1)
            codec.sendGoAway()
            try BrokenPromise.unless(codec.isOver == !codec.fault.isEmpty, "a violation without a text")
        }
    }
}

/// The header blocks of one connection, read by `HeaderInflater` as usual, and by nghttp2 alone.
enum HPACKFuzz {
    /// Each block follows a byte with its length, and another with the place at which it is cut.
    static func run(_ bytes: [UInt8]) throws {
        var input = FuzzInput(bytes)
        let collectsAPNSID = input.byte() & 1 == 0
        var usual = HeaderInflater()
        var reference = HeaderInflater()
        while !input.isEmpty {
            let (length, cut) = (Int(input.byte()), Int(input.byte()))
            let block = input.bytes(length)
            let empty = IncomingResponse(collectsAPNSID: collectsAPNSID)
            let (response, error) = inflate([block], &usual, empty)
            // nghttp2 reads every block that comes in parts.
            let (expected, expectedError) = inflate([Array(block.prefix(cut)), Array(block.dropFirst(cut))], &reference, empty)
            // The Huffman code of an id that is not kept is not checked. A second status may hide that it was an acceptance.
            if !collectsAPNSID, error == nil, expectedError != nil { return }
            try BrokenPromise.unless(error == expectedError, "\(block): \(describe(error)), not \(describe(expectedError))")
            // After an error the connection ends. Nobody reads the response.
            if error != nil { return }
            try BrokenPromise.unless(response.status == expected.status, "\(block): status \(response.status)")
            try BrokenPromise.unless(response.apnsID == expected.apnsID, "\(block): id \(response.apnsID ?? "")")
            // A date is read at two moments.
            let later = abs((response.retryAfter ?? -1000) - (expected.retryAfter ?? -1000))
            try BrokenPromise.unless(later <= 1, "\(block): retry-after differs by \(later)")
        }
    }

    private static func describe(_ error: HTTP2Error?) -> String { error.map { $0.text } ?? "no error" }

    private static func inflate(
        _ pieces: [[UInt8]], _ inflater: inout HeaderInflater, _ empty: IncomingResponse
    ) -> (IncomingResponse, HTTP2Error?) {
        var response = empty
        response.beginBlock()
        do throws(HTTP2Error) {
            for (number, piece) in pieces.enumerated() {
                try inflater.inflate(piece.span, isLast: number == pieces.count - 1, into: &response)
            }
        } catch {
            return (response, error)
        }
        return (response, nil)
    }
}
