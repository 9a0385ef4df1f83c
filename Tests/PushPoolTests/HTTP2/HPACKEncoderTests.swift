import CNghttp2
import Harness
import Testing

@testable import PushPool

/// nghttp2's own decoder: what APNs would read.
private final class Decoder {
    private var inflater: OpaquePointer?

    init() { nghttp2_hd_inflate_new(&inflater) }
    deinit { nghttp2_hd_inflate_del(inflater) }

    /// Acknowledged SETTINGS: from then on a smaller table must be announced.
    func setTableLimit(_ limit: Int) { nghttp2_hd_inflate_change_table_size(inflater, limit) }

    var tableBytes: Int { nghttp2_hd_inflate_get_dynamic_table_size(inflater) }

    func decode(_ block: [UInt8]) throws -> [String] {
        var lines: [String] = []
        var place = 0
        while true {
            var field = nghttp2_nv()
            var flags: CInt = 0
            let count = block.withUnsafeBufferPointer {
                nghttp2_hd_inflate_hd2(inflater, &field, &flags, $0.baseAddress.map { $0 + place }, $0.count - place, 1)
            }
            try #require(count >= 0, "nghttp2 cannot read it: \(count)")
            place += count
            if flags & CInt(NGHTTP2_HD_INFLATE_FINAL.rawValue) != 0 { break }
            let name = String(decoding: UnsafeBufferPointer(start: field.name, count: field.namelen), as: UTF8.self)
            let value = String(decoding: UnsafeBufferPointer(start: field.value, count: field.valuelen), as: UTF8.self)
            lines.append("\(name): \(value)")
        }
        nghttp2_hd_inflate_end_headers(inflater)
        return lines
    }
}

private func encode(_ push: PushPool.Notification, _ encoder: inout HPACKEncoder) -> [UInt8] {
    var out = OutBuffer()
    encoder.encode(push, into: &out)
    return out.withFirst(.max) { Array($0) }
}

private func lines(_ push: PushPool.Notification, authority: String, token: String?) -> [String] {
    var lines = [":method: POST", ":scheme: https", ":authority: \(authority)"]
    lines.append(":path: /3/device/" + String(decoding: push.bytes[push.token], as: UTF8.self))
    if let token { lines.append("authorization: bearer \(token)") }
    if let topic = push.headers.topic { lines.append("apns-topic: \(topic)") }
    lines += ["apns-push-type: \(push.headers.pushType)", "apns-priority: \(push.headers.priority)"]
    if let expiration = push.expiration { lines.append("apns-expiration: \(expiration)") }
    if let id = push.apnsID { lines.append("apns-id: \(id)") }
    if let id = push.collapseID { lines.append("apns-collapse-id: \(id)") }
    return lines
}

@Suite("The HPACK encoder against nghttp2's decoder")
struct HPACKEncoderTests {
    private static let limits = [0, 1, 31, 32, 60, 100, 160, 300, 593, 700, 1000, 2000, 4095, 4096, 5000, 65536]

    private static func text(_ counts: ClosedRange<Int>, _ generator: inout SeededGenerator) -> String {
        let count = Int.random(in: counts, using: &generator)
        return String((0..<count).map { _ in "abcdef0123456789.-AZ".randomElement(using: &generator)! })
    }

    private static func push(_ sets: [SharedHeaders], _ generator: inout SeededGenerator) -> PushPool.Notification {
        notification(
            1, token: text(1...200, &generator), headers: sets.randomElement(using: &generator)!,
            expiration: [nil, 0, 0, Int64.random(in: .min ... .max, using: &generator)].randomElement(using: &generator)!,
            apnsID: Bool.random(using: &generator) ? text(36...36, &generator) : nil,
            collapseID: Bool.random(using: &generator) ? text(0...64, &generator) : nil)
    }

    @Test(arguments: 0..<60) func `request after request, it reads the very same header list`(seed: Int) throws {
        var generator = SeededGenerator(seed: UInt64(seed))
        let authority = Self.text(1...30, &generator)
        var encoder = HPACKEncoder(authority: authority)
        let decoder = Decoder()
        let sets = (0..<Int.random(in: 1...100, using: &generator)).map { _ in
            SharedHeaders(
                topic: Bool.random(using: &generator) ? Self.text(0...60, &generator) : nil,
                pushType: ["alert", "background", "voip"].randomElement(using: &generator)!,
                priority: [1, 5, 10].randomElement(using: &generator)!)
        }
        var token: String?
        for round in 0..<300 {
            switch Int.random(in: 0..<20, using: &generator) {
            case 0:
                token = Bool.random(using: &generator) ? Self.text(1...600, &generator) : nil
                encoder.setToken(token.map { Array($0.utf8) })
            case 1:
                // Several before the next request too: the smallest and the last one count.
                for _ in 0..<Int.random(in: 1...3, using: &generator) {
                    let limit = Self.limits.randomElement(using: &generator)!
                    decoder.setTableLimit(limit)
                    encoder.setTableLimit(limit)
                }
            default: break
            }
            let push = Self.push(sets, &generator)
            let block = encode(push, &encoder)
            let got = try decoder.decode(block)
            try #require(got == lines(push, authority: authority, token: token), "seed \(seed), round \(round)")
        }
    }

    @Test(arguments: [nil, "a.b.c"]) func `after two requests the table is at rest`(token: String?) throws {
        var encoder = HPACKEncoder(authority: "api.push.apple.com")
        encoder.setToken(token.map { Array($0.utf8) })
        let decoder = Decoder()
        var generator = SeededGenerator(seed: 7)
        var tables: [Int] = []
        for round in 0..<100 {
            let push = notification(
                1, expiration: 1_700_000_000 + Int64(round), apnsID: Self.text(36...36, &generator), collapseID: "c\(round)")
            let block = encode(push, &encoder)
            #expect(try decoder.decode(block) == lines(push, authority: "api.push.apple.com", token: token))
            tables.append(decoder.tableBytes)
        }
        #expect(Set(tables).count == 1, "\(tables)")
    }

    @Test func `a session sends the topic of its own settings, unless the job names one`() {
        func topic(_ topic: String, ofSettings: String?, on session: String?) -> String? {
            SharedHeaders(topic: topic, topicOfSettings: ofSettings, pushType: "alert", priority: 10, channel: nil)
                .topic(onSessionOf: session)
        }
        #expect(topic("com.new", ofSettings: "com.new", on: "com.old") == "com.old")
        #expect(topic("com.new", ofSettings: "com.new", on: "com.new") == "com.new")
        #expect(topic("com.new.voip", ofSettings: "com.new", on: "com.old") == "com.old.voip")
        #expect(topic("com.new", ofSettings: "com.new", on: nil) == "com.new")
        #expect(topic("com.own", ofSettings: nil, on: "com.old") == "com.own")
        var encoder = HPACKEncoder(authority: "a", topic: "com.old")
        var cache = SharedHeadersCache()
        let headers = cache.shared(topic: "com.new", topicOfSettings: "com.new", pushType: "alert", priority: 10, channel: nil)
        let push = Notification(id: 1, bytes: Array("ab{}".utf8), token: 0..<2, payload: 2..<4, headers: headers)
        let lines = try? Decoder().decode(encode(push, &encoder))
        #expect(lines?.contains { "\($0)".contains("com.old") } == true, "\(String(describing: lines))")
    }

    @Test func `a table without room makes literals, which are as long every time`() throws {
        for limit in [0, 40, 100, 250] {
            var encoder = HPACKEncoder(authority: "api.push.apple.com")
            encoder.setToken([UInt8](repeating: 116, count: 300))
            encoder.setTableLimit(limit)
            var sizes = (0..<10).map { encode(notification($0, expiration: Int64($0), apnsID: "i"), &encoder).count }
            sizes.removeFirst(2)
            #expect(Set(sizes).count == 1, "limit \(limit): \(sizes)")
        }
    }

    @Test func `an entry that was evicted comes in again`() throws {
        var encoder = HPACKEncoder(authority: "a")
        let decoder = Decoder()
        let first = notification(1, headers: SharedHeaders(topic: "first", pushType: "alert", priority: 10))
        let usual = (0..<3).map { _ in encode(first, &encoder) }
        for block in usual { _ = try decoder.decode(block) }
        // Sixty topics of eighty bytes drive out all that was there.
        for place in 0..<60 {
            let topic = String(repeating: "t", count: 38) + String(place)
            let push = notification(1, headers: SharedHeaders(topic: topic, pushType: "alert", priority: 10))
            let block = encode(push, &encoder)
            #expect(try decoder.decode(block) == lines(push, authority: "a", token: nil))
        }
        let again = encode(first, &encoder)
        #expect(again.count > usual[2].count)
        #expect(try decoder.decode(again) == lines(first, authority: "a", token: nil))
        let last = encode(first, &encoder)
        #expect(last.count == usual[2].count)
    }

    @Test func `an expiration that stays the same is one byte`() {
        var encoder = HPACKEncoder(authority: "a")
        let without = (0..<3).map { _ in encode(notification(1), &encoder).count }
        let with = (0..<3).map { _ in encode(notification(1, expiration: 0), &encoder).count }
        #expect(with[2] == without[2] + 1)
        let another = encode(notification(1, expiration: 7), &encoder)
        #expect(another.count == without[2] + 4)
    }
}
