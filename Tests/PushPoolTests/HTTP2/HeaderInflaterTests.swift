import CNghttp2
import Testing

@testable import PushPool

/// nghttp2's encoder.
private final class Encoder {
    private var deflater: OpaquePointer?

    init() { nghttp2_hd_deflate_new(&deflater, 4096) }
    deinit { nghttp2_hd_deflate_del(deflater) }

    /// Returns a block with one field, which is never indexed.
    func encode(_ name: String, _ value: [UInt8]) -> [UInt8] {
        var (name, value, block) = (Array(name.utf8), value, [UInt8](repeating: 0, count: 1000))
        let count = name.withUnsafeMutableBufferPointer { name in
            value.withUnsafeMutableBufferPointer { value in
                var field = nghttp2_nv(
                    name: name.baseAddress, value: value.baseAddress, namelen: name.count, valuelen: value.count,
                    flags: UInt8(NGHTTP2_NV_FLAG_NO_INDEX.rawValue))
                return nghttp2_hd_deflate_hd(deflater, &block, block.count, &field, 1)
            }
        }
        return Array(block.prefix(count))
    }
}

/// One connection.
private final class Connection {
    private var inflater = HeaderInflater()
    /// nghttp2 reads each block, because it comes in two parts.
    private var reference = HeaderInflater()

    /// Returns the response with this block, which nghttp2 reads equally. `isStatic` tells whether it was read without nghttp2.
    func read(_ block: [UInt8]) throws(HTTP2Error) -> (response: IncomingResponse, isStatic: Bool) {
        var probe = IncomingResponse(collectsAPNSID: true)
        let isStatic = inflater.readStaticBlock(block.span, into: &probe)
        var response = IncomingResponse(collectsAPNSID: true)
        let error = Self.error { () throws(HTTP2Error) in try inflater.inflate(block.span, isLast: true, into: &response) }
        var expected = IncomingResponse(collectsAPNSID: true)
        let expectedError = Self.error { () throws(HTTP2Error) in
            try reference.inflate(block.span.extracting(..<0), isLast: false, into: &expected)
            try reference.inflate(block.span, isLast: true, into: &expected)
        }
        #expect(error == expectedError)
        #expect(response.status == expected.status && response.apnsID == expected.apnsID)
        #expect(response.retryAfter == expected.retryAfter)
        if let error { throw error }
        return (response, isStatic)
    }

    private static func error(_ body: () throws(HTTP2Error) -> Void) -> HTTP2Error? {
        do { try body() } catch { return error }
        return nil
    }
}

@Suite("The header blocks of responses")
struct HeaderInflaterTests {
    private static let addsID: [UInt8] = [0x40, 7] + Array("apns-id".utf8) + [1, UInt8(ascii: "x")]
    private static let newID: [UInt8] = [0x10, 7] + Array("apns-id".utf8)

    @Test func `all 256 characters are read, and those with codes of 5 to 8 bits without nghttp2`() throws {
        let (encoder, connection) = (Encoder(), Connection())
        let usual = [UInt8](repeating: UInt8(ascii: "a"), count: 24)
        var count = 0
        for symbol in UInt8.min ... .max {
            let value = usual + [symbol] + usual
            let block = encoder.encode("apns-id", value)
            #expect(block.count < value.count, "nghttp2 did not use the Huffman code")
            let (response, isStatic) = try connection.read(block)
            #expect(response.apnsID == ResponseBody.text(value))
            var (text, place) = (HeaderText(), 1)
            let isRead = text.append(from: block.span, at: &place) && text.append(from: block.span, at: &place)
            #expect(isRead == isStatic)
            guard isRead else { continue }
            count += 1
            #expect((0..<text.count).map { text.bytes[$0] } == Array("apns-id".utf8) + value)
            #expect(place == block.count)
        }
        #expect(count == 74)
    }

    @Test func `strings of every length are read, and without nghttp2 up to 254 bytes`() throws {
        let (encoder, connection) = (Encoder(), Connection())
        for count in 0...450 {
            let value = (0..<count).map { Array("012aceiost"[...].utf8)[$0 % 10] }
            let coded = try connection.read(encoder.encode("apns-id", value))
            #expect(coded.response.apnsID == ResponseBody.text(Array(value.prefix(64))))
            #expect(coded.isStatic == (count <= 406))
            guard count < 255 else { continue }
            let length = count < 127 ? [UInt8(count)] : [127, UInt8(count - 127)]
            let plain = try connection.read(Self.newID + length + value)
            #expect(plain.response.apnsID == ResponseBody.text(Array(value.prefix(64))))
            #expect(plain.isStatic)
        }
    }

    @Test(
        arguments: [
            [0x18], [0x1F, 0xFF], [0x1F, 0xFF, 0xFF, 0xFF, 0xFF], [0xFF], [0xFF, 0xFF, 0xFF, 0xFF], [0x00], [0x1E],
            [0xFE], [0xFE, 0x7F, 0xFF],
        ] as [[UInt8]])
    func `wrong padding, an unfinished code and the end-of-string code are errors`(text: [UInt8]) {
        let error = #expect(throws: HTTP2Error.self) { try Connection().read(Self.newID + [0x80 | UInt8(text.count)] + text) }
        #expect(error?.code == .compressionError)
    }

    @Test func `fields that leave the table as it is are read without nghttp2`() throws {
        let connection = Connection()
        #expect(try !connection.read([0x88] + Self.addsID).isStatic)
        let blocks: [([UInt8], Int, String?, Int?)] = [
            ([], 0, nil, nil),
            ([0x88], 200, nil, nil),
            ([0x8C, 0xBE], 400, "x", nil),
            ([0x08, 3] + Array("503".utf8), 503, nil, nil),
            ([0x18, 3] + Array("503".utf8), 503, nil, nil),
            ([0x0F, 0x2F, 1, UInt8(ascii: "y")], 0, "y", nil),
            ([0x88, 0x1F, 0x2F, 0x82, 0x18, 0xFF], 200, "aa", nil),
            ([0x88, 0x1F, 0x2F, 0x81, 0x1F], 200, "a", nil),
            ([0x1F, 0x2F, 0], 0, "", nil),
            ([0x1F, 0x2F, 0x80], 0, "", nil),
            ([0x00, 7] + Array(":status".utf8) + [3] + Array("429".utf8) + [0x0F, 0x26, 1, UInt8(ascii: "7")], 429, nil, 7),
            (Self.newID + [1, UInt8(ascii: "z")], 0, "z", nil),
        ]
        for (block, status, id, seconds) in blocks {
            let (response, isStatic) = try connection.read(block)
            #expect(isStatic, "\(block)")
            #expect(response.status == status && response.apnsID == id && response.retryAfter == seconds, "\(block)")
        }
    }

    @Test func `nghttp2 reads every other block from its start`() throws {
        let connection = Connection()
        // A new entry after a field that was read already, a smaller table, a long integer, and an entry of the smaller table.
        for block in [[0x8C] + Self.addsID, [0x20, 0x88], [0x3F, 0xE1, 0x1F, 0x88], [0x88, 0x0F, 0xA6, 0x00, 1, 0x33]] {
            #expect(try !connection.read(block).isStatic, "\(block)")
        }
    }

    @Test(
        arguments: [
            [0x80], [0xBE], [0xFF, 0x7F], [0xFF], [0x0F], [0x88, 0x1F, 0x2F], [0x08], [0x08, 3, 0x32], [0x10], [0x10, 0],
            [0x00, 1, 0x61],
            [0x88, 0x20], [0x08, 0x7F], [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF],
        ] as [[UInt8]])
    func `an unknown index, a broken block and a late size update are errors`(block: [UInt8]) {
        let error = #expect(throws: HTTP2Error.self) { try Connection().read(block) }
        #expect(error?.code == .compressionError)
    }

    @Test func `a block in parts is read as a whole block is`() throws {
        // The last value looks like a field.
        let usesEntry: [UInt8] = [0xBE]
        let block: [UInt8] = [0x8C] + Self.addsID + [0x0F, 0x26, 0x81, 0x67, 0x10, 1, 0x61, 2, 0x88, 0x88]
        for first in 0...block.count {
            for second in first...block.count {
                var inflater = HeaderInflater()
                var response = IncomingResponse(collectsAPNSID: true)
                try inflater.inflate(block.span.extracting(..<first), isLast: false, into: &response)
                try inflater.inflate(block.span.extracting(first..<second), isLast: false, into: &response)
                try inflater.inflate(block.span.extracting(second...), isLast: true, into: &response)
                #expect(response.status == 400 && response.apnsID == "x" && response.retryAfter == 3)
                #expect(inflater.readStaticBlock(usesEntry.span, into: &response))
            }
        }
    }

    @Test(arguments: [[0x80 | 1, 0x18], [1, UInt8(ascii: "y")], [0x80]] as [[UInt8]])
    func `the id of an acceptance is skipped if it is not kept`(id: [UInt8]) throws {
        let retryAfter: [UInt8] = [0x0F, 0x26, 1, UInt8(ascii: "7")]
        for block in [[0x88] + Self.newID + id + retryAfter, [0x88, 0x1F, 0x2F] + id + retryAfter] {
            var inflater = HeaderInflater()
            var response = IncomingResponse(collectsAPNSID: false)
            try inflater.inflate(Self.addsID.span, isLast: true, into: &response)
            response = IncomingResponse(collectsAPNSID: false)
            #expect(inflater.readStaticBlock(block.span, into: &response))
            #expect(response.status == 200 && response.apnsID == nil && response.retryAfter == 7)
        }
    }

    @Test func `the id of a rejection is always read`() throws {
        var inflater = HeaderInflater()
        var response = IncomingResponse(collectsAPNSID: false)
        #expect(inflater.readStaticBlock(([0x8C] + Self.newID + [1, UInt8(ascii: "y")]).span, into: &response))
        #expect(response.status == 400 && response.apnsID == "y")
    }

    @Test func `a skipped id ends within its block`() {
        var inflater = HeaderInflater()
        var response = IncomingResponse(collectsAPNSID: false)
        #expect(!inflater.readStaticBlock(([0x88] + Self.newID + [2, 1]).span, into: &response))
    }

    @Test func `a list of more than 64 KiB is an error`() throws {
        let connection = Connection()
        _ = try connection.read([0x40, 1, 0x61, 0x7F, 0x7B] + [UInt8](repeating: 0x62, count: 250))
        #expect(try connection.read([UInt8](repeating: 0xBE, count: 231)).isStatic)
        let error = #expect(throws: HTTP2Error.self) { try connection.read([UInt8](repeating: 0xBE, count: 232)) }
        #expect(error?.code == .enhanceYourCalm)
    }
}
