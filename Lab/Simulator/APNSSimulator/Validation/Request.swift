/// A request: the headers that APNs reads, and the body, in memory that the next stream reuses.
struct Request {
    /// The stored headers. Others are ignored.
    enum Field: Int, CaseIterable {
        case method, path, authorization, topic, pushType, priority, expiration, apnsID, collapseID, channelID, requestID

        /// Selects by length first: each name costs one comparison.
        init?(name: Span<UInt8>) {
            switch name.count {
            case 5: self = .path
            case 7: self = name[0] == UInt8(ascii: ":") ? .method : .apnsID
            case 10: self = .topic
            case 13: self = name[1] == UInt8(ascii: "u") ? .authorization : .priority
            case 14: self = .pushType
            case 15 where name[5] == UInt8(ascii: "e"): self = .expiration
            case 15: self = name[5] == UInt8(ascii: "c") ? .channelID : .requestID
            case 16: self = .collapseID
            default: return nil
            }
            guard name.equals(self.name) else { return nil }
        }

        /// The name of the header.
        var name: StaticString {
            switch self {
            case .method: ":method"
            case .path: ":path"
            case .authorization: "authorization"
            case .topic: "apns-topic"
            case .pushType: "apns-push-type"
            case .priority: "apns-priority"
            case .expiration: "apns-expiration"
            case .apnsID: "apns-id"
            case .collapseID: "apns-collapse-id"
            case .channelID: "apns-channel-id"
            case .requestID: "apns-request-id"
            }
        }
    }

    /// The kind of the path.
    enum Kind {
        case device, broadcast
        /// Create, read and delete channels; list channels.
        case channels, allChannels
    }

    /// The place of a value in `bytes`, in one word instead of an optional range of two.
    private struct Place {
        var start: UInt32 = .max
        var end: UInt32 = 0
    }

    /// The stored part of a body. Longer bodies are only counted: an accepted body has at most 5,120 bytes.
    static let keptBodyBytes = 8192

    /// HTTP/2 stream id; 0 after the stream is closed, and in requests of tests.
    private(set) var stream: Int32 = 0
    private(set) var body: [UInt8] = []
    /// The length of the body, including bytes that were not stored.
    private(set) var bodyLength = 0
    private(set) var hasDuplicateHeaders = false
    /// The stream was above the limit. The request is ignored.
    private(set) var isRefused = false
    /// Concatenated header values.
    private(set) var bytes: [UInt8] = []
    private var places = [11 of Place](repeating: Place())
    var kind = Kind.device
    /// The place in `bytes` of the device token, or of the channel id of a broadcast. Set by the validator.
    var tokenRange: Range<Int>?
    /// The place in `bytes` of the bundle id in the path of a broadcast or channel management request.
    var appRange: Range<Int>?

    init() {}

    /// Clears the request for another stream and keeps its memory.
    mutating func begin(stream: Int32) {
        self.stream = stream
        bytes.removeAll(keepingCapacity: true)
        body.removeAll(keepingCapacity: true)
        bodyLength = 0
        hasDuplicateHeaders = false
        isRefused = false
        kind = .device
        tokenRange = nil
        appRange = nil
        places = .init(repeating: Place())
    }

    /// Marks the stream as closed.
    mutating func end() { stream = 0 }

    mutating func refuse() { isRefused = true }

    mutating func add(name: Span<UInt8>, value: Span<UInt8>) {
        guard let field = Field(name: name) else { return }
        if range(of: field) != nil {
            hasDuplicateHeaders = true
            return
        }
        unsafe value.withUnsafeBufferPointer { unsafe bytes.append(contentsOf: $0) }
        place(field, from: bytes.count - value.count)
    }

    mutating func add(body chunk: Span<UInt8>) {
        bodyLength += chunk.count
        let room = max(0, Request.keptBodyBytes - body.count)
        unsafe chunk.extracting(first: min(room, chunk.count)).withUnsafeBufferPointer { unsafe body.append(contentsOf: $0) }
    }

    /// The id header of the answer: `apns-request-id` for broadcasts and channels.
    var idField: Field { kind == .device ? .apnsID : .requestID }

    /// Adds an id as APNs does: a random UUID in upper case.
    mutating func makeID(_ random: inout SeededRandom) {
        UUIDText.append(random.next(), random.next(), to: &bytes)
        place(idField, from: bytes.count - 36)
    }

    /// Accepts `apns-id` for `apns-request-id`: Apple's text and sample for broadcasts differ.
    mutating func adoptID() {
        if range(of: .requestID) == nil { places[Field.requestID.rawValue] = places[Field.apnsID.rawValue] }
    }

    private mutating func place(_ field: Field, from start: Int) {
        places[field.rawValue] = Place(start: UInt32(clamping: start), end: UInt32(clamping: bytes.count))
    }

    /// Returns the place of a value in `bytes`.
    func range(of field: Field) -> Range<Int>? {
        let place = places[field.rawValue]
        return place.start <= place.end ? Int(place.start)..<Int(place.end) : nil
    }

    subscript(field: Field) -> ArraySlice<UInt8>? { range(of: field).map { bytes[$0] } }

    var token: ArraySlice<UInt8> { tokenRange.map { bytes[$0] } ?? [] }

    func text(_ field: Field) -> String? { self[field].map { String(decoding: $0, as: UTF8.self) } }
}

/// The credentials of a connection.
struct Peer {
    var certificate: ClientCertificate?
    var tokens: ProviderTokenGate
    /// The last valid topic, and the generation of its provider token.
    var goodTopic: [UInt8] = []
    var goodTopicKey = 0
    /// The last topic and push type that go together.
    var goodPair: (topic: [UInt8], type: [UInt8]) = ([], [])
}

/// The kinds of credentials that clients may use.
public enum Authentication: String, Sendable, CaseIterable {
    case any, token, certificate
}

/// The simulated environment of APNs.
public enum PushEnvironment: String, Sendable, CaseIterable {
    case production, sandbox
}

/// UUIDs as text of 36 bytes.
enum UUIDText {
    private static let digits: [UInt8] = Array("0123456789ABCDEF".utf8)

    /// Appends a version 4 UUID with 122 of these bits.
    static func append(_ high: UInt64, _ low: UInt64, to bytes: inout [UInt8]) {
        let high = high & ~0xF000 | 0x4000
        let low = low & ~(0xC << 60) | (0x8 << 60)
        for place in 0..<32 {
            if place == 8 || place == 12 || place == 16 || place == 20 { bytes.append(UInt8(ascii: "-")) }
            let word = place < 16 ? high : low
            bytes.append(digits[Int(word >> UInt64((15 - place & 15) * 4) & 15)])
        }
    }

    /// Returns whether the text has 8-4-4-4-12 hex digits, in any case.
    static func isValid(_ text: Span<UInt8>) -> Bool {
        guard text.count == 36 else { return false }
        for place in text.indices {
            let isDash = place == 8 || place == 13 || place == 18 || place == 23
            if isDash ? text[place] != UInt8(ascii: "-") : !text[place].isHexDigit { return false }
        }
        return true
    }
}
