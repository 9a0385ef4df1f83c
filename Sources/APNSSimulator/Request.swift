/// One request as it came: the headers APNs knows and the body, in memory that is used again for the next stream.
final class Request {
    /// The headers that are kept; others are counted as seen and forgotten.
    enum Field: Int, CaseIterable {
        case method, path, authorization, topic, pushType, priority, expiration, apnsID, collapseID

        /// By length first, so that most names cost one comparison.
        init?(name: Span<UInt8>) {
            let found: Field
            let expected: StaticString
            switch name.count {
            case 5: (found, expected) = (.path, ":path")
            case 7 where name[0] == UInt8(ascii: ":"): (found, expected) = (.method, ":method")
            case 7: (found, expected) = (.apnsID, "apns-id")
            case 10: (found, expected) = (.topic, "apns-topic")
            case 13 where name[1] == UInt8(ascii: "u"): (found, expected) = (.authorization, "authorization")
            case 13: (found, expected) = (.priority, "apns-priority")
            case 14: (found, expected) = (.pushType, "apns-push-type")
            case 15: (found, expected) = (.expiration, "apns-expiration")
            case 16: (found, expected) = (.collapseID, "apns-collapse-id")
            default: return nil
            }
            for index in name.indices where name[index] != expected.utf8Start[index] { return nil }
            self = found
        }
    }

    /// A body beyond this is counted and not kept: nothing that is accepted is longer than 5,120 bytes.
    static let keptBodyBytes = 8192

    /// HTTP/2 stream id; 0 in a request made by hand.
    private(set) var stream: Int32 = 0
    private(set) var body: [UInt8] = []
    /// Also counts what was not kept.
    private(set) var bodyLength = 0
    private(set) var hasDuplicateHeaders = false
    /// Its stream was above the limit: nobody will look at it.
    private(set) var isRefused = false
    /// Header values, one behind the other.
    private(set) var bytes: [UInt8] = []
    private var ranges = [Range<Int>?](repeating: nil, count: Field.allCases.count)
    /// Where in `path` the device token is, once a validator has found it.
    var tokenRange: Range<Int>?

    init() {}

    /// Empties it for another stream; the memory stays.
    func begin(stream: Int32) {
        self.stream = stream
        bytes.removeAll(keepingCapacity: true)
        body.removeAll(keepingCapacity: true)
        bodyLength = 0
        hasDuplicateHeaders = false
        isRefused = false
        tokenRange = nil
        for index in ranges.indices { ranges[index] = nil }
    }

    /// Its stream is closed; the slot may serve another.
    func end() { stream = 0 }

    func refuse() { isRefused = true }

    func add(name: Span<UInt8>, value: Span<UInt8>) {
        guard let field = Field(name: name) else { return }
        if ranges[field.rawValue] != nil {
            hasDuplicateHeaders = true
            return
        }
        let start = bytes.count
        value.withUnsafeBufferPointer { bytes.append(contentsOf: $0) }
        ranges[field.rawValue] = start..<bytes.count
    }

    func add(body chunk: Span<UInt8>) {
        bodyLength += chunk.count
        let room = max(0, Request.keptBodyBytes - body.count)
        chunk.extracting(first: min(room, chunk.count)).withUnsafeBufferPointer { body.append(contentsOf: $0) }
    }

    /// Gives it an `apns-id` as APNs does: a random UUID in upper case.
    func makeID(_ random: inout SeededRandom) {
        let start = bytes.count
        UUIDText.append(random.next(), random.next(), to: &bytes)
        ranges[Field.apnsID.rawValue] = start..<bytes.count
    }

    subscript(field: Field) -> ArraySlice<UInt8>? {
        ranges[field.rawValue].map { bytes[$0] }
    }

    /// Where in `bytes` a value is.
    func range(of field: Field) -> Range<Int>? { ranges[field.rawValue] }

    var token: ArraySlice<UInt8> { tokenRange.map { bytes[$0] } ?? [] }

    func text(_ field: Field) -> String? {
        self[field].map { String(decoding: $0, as: UTF8.self) }
    }
}

/// UUIDs as 36 bytes of text.
enum UUIDText {
    private static let digits: [UInt8] = Array("0123456789ABCDEF".utf8)

    /// Appends a version 4 UUID made of 122 of these bits.
    static func append(_ high: UInt64, _ low: UInt64, to bytes: inout [UInt8]) {
        let high = high & ~0xF000 | 0x4000
        let low = low & ~(0xC << 60) | (0x8 << 60)
        for place in 0..<32 {
            if place == 8 || place == 12 || place == 16 || place == 20 { bytes.append(UInt8(ascii: "-")) }
            let word = place < 16 ? high : low
            bytes.append(digits[Int(word >> UInt64((15 - place & 15) * 4) & 15)])
        }
    }

    /// 8-4-4-4-12 hex digits of either case.
    static func isValid(_ text: ArraySlice<UInt8>) -> Bool {
        guard text.count == 36 else { return false }
        for (place, byte) in text.enumerated() {
            let isDash = place == 8 || place == 13 || place == 18 || place == 23
            if isDash ? byte != UInt8(ascii: "-") : !byte.isHexDigit { return false }
        }
        return true
    }
}

extension UInt8 {
    var isHexDigit: Bool {
        (48...57).contains(self) || (97...102).contains(self | 0x20)
    }

    var isDecimalDigit: Bool { (48...57).contains(self) }
}
