/// One request as it came: the headers APNs knows and the body, in memory that is used again for the next stream.
struct Request {
    /// The headers that are kept; others are forgotten.
    enum Field: Int, CaseIterable {
        case method, path, authorization, topic, pushType, priority, expiration, apnsID, collapseID, channelID, requestID

        /// By length first, so that a name costs one comparison.
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
            case 15 where name[5] == UInt8(ascii: "e"): (found, expected) = (.expiration, "apns-expiration")
            case 15 where name[5] == UInt8(ascii: "c"): (found, expected) = (.channelID, "apns-channel-id")
            case 15: (found, expected) = (.requestID, "apns-request-id")
            case 16: (found, expected) = (.collapseID, "apns-collapse-id")
            default: return nil
            }
            guard name.equals(expected) else { return nil }
            self = found
        }
    }

    /// What its path asks for.
    enum Kind {
        case device, broadcast
        /// Create, read, delete; list.
        case channels, allChannels
    }

    /// Where in `bytes` a value lies: one word instead of an optional range of two.
    private struct Place {
        var start: UInt32 = .max
        var end: UInt32 = 0
    }

    /// A body beyond this is counted and not kept: nothing that is accepted is longer than 5,120 bytes.
    static let keptBodyBytes = 8192

    /// HTTP/2 stream id; 0 in a request made by hand, and once the stream is closed.
    private(set) var stream: Int32 = 0
    private(set) var body: [UInt8] = []
    /// Also counts what was not kept.
    private(set) var bodyLength = 0
    private(set) var hasDuplicateHeaders = false
    /// Its stream was above the limit: nobody will look at it.
    private(set) var isRefused = false
    /// Header values, one behind the other.
    private(set) var bytes: [UInt8] = []
    private var places = [11 of Place](repeating: Place())
    var kind = Kind.device
    /// Where in `bytes` the device token is, or the channel id of a broadcast, once a validator has found it.
    var tokenRange: Range<Int>?
    /// Where in `bytes` the bundle id of a broadcast's path is, or of one about channels.
    var appRange: Range<Int>?

    init() {}

    /// Empties it for another stream; the memory stays.
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

    /// Its stream is closed; the slot may serve another.
    mutating func end() { stream = 0 }

    mutating func refuse() { isRefused = true }

    mutating func add(name: Span<UInt8>, value: Span<UInt8>) {
        guard let field = Field(name: name) else { return }
        if range(of: field) != nil {
            hasDuplicateHeaders = true
            return
        }
        value.withUnsafeBufferPointer { bytes.append(contentsOf: $0) }
        place(field, from: bytes.count - value.count)
    }

    mutating func add(body chunk: Span<UInt8>) {
        bodyLength += chunk.count
        let room = max(0, Request.keptBodyBytes - body.count)
        chunk.extracting(first: min(room, chunk.count)).withUnsafeBufferPointer { body.append(contentsOf: $0) }
    }

    /// The header that its answer is told by: `apns-request-id` where no device is concerned.
    var idField: Field { kind == .device ? .apnsID : .requestID }

    /// Gives it an id as APNs does: a random UUID in upper case.
    mutating func makeID(_ random: inout SeededRandom) {
        UUIDText.append(random.next(), random.next(), to: &bytes)
        place(idField, from: bytes.count - 36)
    }

    /// Apple's text asks for `apns-request-id` with a broadcast, its sample sends `apns-id`: either comes back.
    mutating func adoptID() {
        if range(of: .requestID) == nil { places[Field.requestID.rawValue] = places[Field.apnsID.rawValue] }
    }

    private mutating func place(_ field: Field, from start: Int) {
        places[field.rawValue] = Place(start: UInt32(clamping: start), end: UInt32(clamping: bytes.count))
    }

    /// Where in `bytes` a value is.
    func range(of field: Field) -> Range<Int>? {
        let place = places[field.rawValue]
        return place.start <= place.end ? Int(place.start)..<Int(place.end) : nil
    }

    subscript(field: Field) -> ArraySlice<UInt8>? { range(of: field).map { bytes[$0] } }

    var token: ArraySlice<UInt8> { tokenRange.map { bytes[$0] } ?? [] }

    func text(_ field: Field) -> String? { self[field].map { String(decoding: $0, as: UTF8.self) } }
}
