import Harness
import Testing

@testable import PushPool

@Suite("HTTP/2 frames")
struct HTTP2FrameTests {
    struct Cut: Equatable {
        var type: UInt8
        var flags: UInt8
        var stream: UInt32
        var payload: ArraySlice<UInt8>
    }

    /// Our output, or what a reader should find in it, cut by the plainest means.
    static func frames(_ bytes: [UInt8]) -> [Cut] {
        var (frames, rest): ([Cut], ArraySlice<UInt8>) = ([], bytes[...])
        while rest.count >= 9 {
            let head = Array(rest.prefix(9))
            let length = Int(head[0]) << 16 | Int(head[1]) << 8 | Int(head[2])
            let stream = head[5...].reduce(0) { $0 << 8 | UInt32($1) } & 0x7FFF_FFFF
            frames.append(Cut(type: head[3], flags: head[4], stream: stream, payload: rest.dropFirst(9).prefix(length)))
            rest = rest.dropFirst(9 + length)
        }
        return frames
    }

    /// Returns the frames that a reader finds in pieces of bytes.
    private static func read(_ bytes: [UInt8], pieces: () -> Int) throws -> [Cut] {
        var reader = HTTP2FrameReader()
        var (cuts, place): ([Cut], Int) = ([], 0)
        while place < bytes.count {
            let piece = Array(bytes[place..<min(bytes.count, place + max(1, pieces()))])
            place += piece.count
            var at = 0
            while let frame = try reader.next(in: piece.span, from: &at) {
                let source = frame.isHeld ? reader.takeHeld() : piece
                let header = frame.header
                cuts.append(
                    Cut(
                        type: header.type?.rawValue ?? 77, flags: header.flags.rawValue, stream: UInt32(header.stream.number),
                        payload: Array(source[frame.payload])[...]))
                if frame.isHeld { reader.giveBack(source) }
            }
            #expect(at == piece.count)
        }
        return cuts
    }

    @Test(arguments: 0..<50) func `however bytes are cut, the same frames are read`(seed: Int) throws {
        var generator = SeededGenerator(seed: UInt64(seed))
        var all = settings([(3, 7)])
        for _ in 0..<30 {
            let payload = randomBytes(0...300, &generator)
            all +=
                [
                    frame(77, flags: 3, stream: 9, payload), frame(0, stream: 1, payload),
                    frame(6, Array((payload + bytes(0) + bytes(0)).prefix(8))),
                    frame(1, stream: 5, payload) + frame(9, stream: 5, payload) + frame(9, flags: 4, stream: 5),
                    frame(7, bytes(1) + bytes(2) + payload), frame(8, bytes(5)),
                ].randomElement(using: &generator) ?? []
        }
        let expected = Self.frames(all)
        #expect(try Self.read(all) { .max } == expected)
        #expect(try Self.read(all) { 1 } == expected)
        #expect(try Self.read(all) { Int.random(in: 1...40, using: &generator) } == expected, "seed \(seed)")
    }

    @Test func `padding and priority are no part of the payload`() throws {
        let bytes =
            settings() + frame(0, flags: 8, stream: 1, [2, 65, 66, 0, 0])
            + frame(1, flags: 0x2C, stream: 1, [1, 0, 0, 0, 0, 9, 0x88, 0])
            + frame(0, flags: 8, stream: 1, [0]) + frame(1, flags: 0x24, stream: 1, [0, 0, 0, 0, 9])
        let payloads = try Self.read(bytes) { .max }.map(\.payload)
        #expect(payloads == [[], [65, 66], [0x88], [], []])
    }

    @Test func `the largest frame is read and one byte more is refused`() throws {
        let most = frame(0, stream: 1, [UInt8](repeating: 7, count: 16384))
        #expect(try Self.read(settings() + most) { 1000 }.last?.payload.count == 16384)
        #expect(throws: HTTP2Error.self) {
            try Self.read(settings() + [0, 0x40, 1, 0, 0, 0, 0, 0, 1]) { 1 }
        }
    }

    @Test func `an output that grows while its beginning is written keeps every byte`() {
        var out = OutBuffer(capacity: 16)
        var (expected, got): ([UInt8], [UInt8]) = ([], [])
        var generator = SeededGenerator(seed: 1)
        for round in 0..<2000 {
            let more = (0..<Int.random(in: 0...50, using: &generator)).map { UInt8(truncatingIfNeeded: $0 + round) }
            expected += more
            out.append(more)
            let count = Int.random(in: 0...min(60, out.count), using: &generator)
            got += out.withFirst(count) { Array($0) }
            out.consume(count)
            #expect(out.written == UInt64(got.count) && out.end == UInt64(expected.count))
        }
        got += out.withFirst(.max) { Array($0) }
        #expect(got == expected)
    }
}
