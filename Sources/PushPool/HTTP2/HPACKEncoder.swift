/// Writes the header block of each request (RFC 7541) straight into the connection's output.
///
/// Values that requests share (`SharedHeaders`, the authority and the token) enter the dynamic table once and then cost one
/// byte per request. Their encoded bytes are kept as a template, which each request copies. `:path` is a literal without
/// indexing. `apns-expiration`, `apns-id` and `apns-collapse-id` are indexed in the first request that has them, which puts
/// their names into the table; later they are literals without indexing ("Sending notification requests to APNs").
///
/// `authorization` is indexed: "Establishing a connection to APNs" recommends it for values that seldom change. With a token
/// of 300 bytes, each request is 161 bytes shorter (measured against nghttp2's encoder, which never indexes it). The
/// never-indexed form keeps a secret out of the tables of intermediaries (RFC 7541, 7.1.3); there are none here, because TLS
/// passes a CONNECT tunnel unread.
///
/// There is no Huffman coding. Constants cross the wire once per connection. 64 hex digits would be 19 bytes shorter; AES-GCM
/// encrypts those in 12 ns (`openssl speed`: 1.6 GB/s), less than the lookup of 64 codes takes.
struct HPACKEncoder {
    /// The limit of the dynamic table in bytes: APNs' own limit, and the default of HTTP/2 (RFC 9113, 6.5.2).
    static let mostTable = 4096
    /// The most templates. A daemon sends few combinations of topic, type and priority; beyond this, all are made again.
    static let mostSets = 64
    /// The table space of an expiration, a UUID and a collapse id of 64 bytes: these stay out of a table in which they would
    /// evict shared values.
    private static let variableRoom = 3 * HPACKTable.entryOverhead + 15 + 20 + 7 + 36 + 16 + 64

    /// The template of all requests with the same `SharedHeaders`.
    private struct HeaderSet {
        /// A strong reference, so that the identity stays unique.
        let shared: SharedHeaders
        /// The positions of topic or channel, push type and priority among the encoder's fields.
        let fields: [Int]
        /// The encoded `:method`.
        let method: [UInt8]
        /// The whole `:path` of a broadcast or a channel call; empty for a device, whose path ends with its token.
        let wholePath: [UInt8]
        /// The encoded fields before the path, and those from there to the priority. They are valid while `epoch` is the
        /// encoder's.
        var head: [UInt8] = []
        var tail: [UInt8] = []
        var epoch: Int?
        /// The table space that these fields leave.
        var room = 0

        init(shared: SharedHeaders, fields: [Int], wholePath: [UInt8]) {
            self.wholePath = wholePath
            method = HPACKEncoder.encoded(shared.call?.method ?? .post)
            self.shared = shared
            self.fields = fields
        }
    }

    private var table = HPACKTable(limit: HPACKEncoder.mostTable)
    /// The smallest limit since the last block, if the limit was changed: the next block starts with it (RFC 7541, 4.2).
    private var smallestLimit: Int?

    /// Every shared value that is or was in the table.
    private var fields: [HPACKField] = []
    private static let authority = 0
    private var authorization: Int?
    /// The latest table entry with each name.
    private var names = [Int](repeating: 0, count: HPACKName.allCases.count)
    /// The expiration in the table: an `apns-expiration` of 0 is often the same for all.
    private var knownExpiration: Int64?

    private var sets: [HeaderSet] = []
    private var setsByIdentity: [ObjectIdentifier: Int] = [:]
    private var latestSet = 0
    /// Incremented by every change of the table or the token: it invalidates the templates.
    private var epoch = 0

    /// The topic of the settings of this session.
    private let topic: String?

    /// - Parameter topic: for pushes whose jobs name none; `nil` for that of the push.
    init(authority: String, topic: String? = nil) {
        self.topic = topic
        fields = [HPACKField(.authority, Array(authority.utf8))]
    }

    /// Sets the token of all later requests, without the word "bearer"; `nil` with a certificate.
    mutating func setToken(_ token: [UInt8]?) {
        authorization = token.map { token in
            fields.append(HPACKField(.authorization, Array("bearer ".utf8) + token))
            return fields.count - 1
        }
        // Sets refer to their fields by position.
        forgetSets()
    }

    /// Applies SETTINGS_HEADER_TABLE_SIZE. A value above our own limit has no effect.
    mutating func setTableLimit(_ peerLimit: Int) {
        let limit = min(peerLimit, Self.mostTable)
        if limit == table.limit { return }
        table.setLimit(limit)
        smallestLimit = min(smallestLimit ?? limit, limit)
        epoch += 1
    }

    // MARK: One request

    /// Appends the block of one request.
    mutating func encode(_ notification: Notification, into out: inout OutBuffer) {
        let set = set(for: notification.headers)
        if sets[set].epoch == epoch {
            out.append(sets[set].head)
            appendPath(notification, set, to: &out)
            out.append(sets[set].tail)
        } else {
            encodeAnew(set, notification, into: &out)
        }
        if let expiration = notification.expiration { append(expiration, set, to: &out) }
        if let apnsID = notification.apnsID { appendID(apnsID, set, to: &out) }
        if let collapseID = notification.collapseID { append(.collapseID, collapseID, set, to: &out) }
    }

    /// Encodes a block whose template is missing or outdated. Pseudo-headers come first: APNs drops the connection otherwise
    /// (ostinelli/apnotic#68).
    private mutating func encodeAnew(_ set: Int, _ notification: Notification, into out: inout OutBuffer) {
        let before = epoch
        var room = table.limit
        let start = out.end
        appendLimits(to: &out)
        out.append(sets[set].method)
        out.append(0x87 as UInt8)  // :scheme: https, entry 7
        append(Self.authority, &room, to: &out)
        sets[set].head = out.bytes(since: start)
        appendPath(notification, set, to: &out)
        let middle = out.end
        if let authorization { append(authorization, &room, to: &out) }
        for place in sets[set].fields { append(place, &room, to: &out) }
        sets[set].tail = out.bytes(since: middle)
        sets[set].room = room
        // A field that this block has added to the table is an index in the next block.
        sets[set].epoch = epoch == before ? epoch : nil
    }

    /// GET and POST are entries 2 and 3 of the static table; DELETE is a literal with the name of entry 2 (RFC 7541, appendix A).
    private static func encoded(_ method: ChannelCall.Method) -> [UInt8] {
        switch method {
        case .get: [0x82]
        case .post: [0x83]
        case .delete: [0x02, 6] + Array("DELETE".utf8)
        }
    }

    /// Appends changes of the table limit, which must precede all fields (RFC 7541, 4.2).
    private mutating func appendLimits(to out: inout OutBuffer) {
        guard let smallest = smallestLimit else { return }
        smallestLimit = nil
        epoch += 1
        if smallest < table.limit { out.append(integer: smallest, prefix: 5, pattern: 0x20) }
        out.append(integer: table.limit, prefix: 5, pattern: 0x20)
    }

    private func appendPath(_ notification: Notification, _ set: Int, to out: inout OutBuffer) {
        out.append(0x04 as UInt8)  // literal without indexing, name :path of the static table
        if !sets[set].wholePath.isEmpty {
            out.append(integer: sets[set].wholePath.count, prefix: 7, pattern: 0)
            return out.append(sets[set].wholePath)
        }
        out.append(integer: Self.path.utf8CodeUnitCount + notification.token.count, prefix: 7, pattern: 0)
        out.append(Self.path)
        out.append(notification.bytes.span.extracting(notification.token))
    }

    /// "Sending notification requests to APNs".
    private static let path: StaticString = "/3/device/"
    /// "Sending broadcast push notification requests to APNs".
    private static let broadcastPath = "/4/broadcasts/apps/"

    // MARK: Fields

    /// Appends a field that requests share: its index, or a literal if it is not in the table.
    ///
    /// - Parameter room: the part of the table that earlier fields of this block leave. A field that does not fit stays a
    ///   literal, so that the fields of one block do not evict each other.
    private mutating func append(_ place: Int, _ room: inout Int, to out: inout OutBuffer) {
        let field = fields[place]
        let fits = field.size <= room
        if fits { room -= field.size }
        if let index = table.index(of: field.number) { return out.append(integer: index, prefix: 7, pattern: 0x80) }
        appendLiteral(field.name, field.value.span, isIndexed: fits, to: &out)
        if fits { fields[place].number = names[field.name.rawValue] }
    }

    /// Appends a field that differs between requests.
    private mutating func append(_ name: HPACKName, _ value: Span<UInt8>, _ set: Int, to out: inout OutBuffer) {
        let isKnown = table.index(of: names[name.rawValue]) != nil
        let fits = Self.variableRoom <= sets[set].room && name.size(with: value.count) <= sets[set].room
        appendLiteral(name, value, isIndexed: !isKnown && fits, to: &out)
    }

    /// Appends the id. A broadcast, which is rare, has another header name and no place in the table.
    private mutating func appendID(_ value: String, _ set: Int, to out: inout OutBuffer) {
        if sets[set].wholePath.isEmpty { return append(.apnsID, value, set, to: &out) }
        let utf8 = value.utf8Span
        appendLiteral(.requestID, utf8.span, isIndexed: false, to: &out)
    }

    private mutating func append(_ name: HPACKName, _ value: String, _ set: Int, to out: inout OutBuffer) {
        let utf8 = value.utf8Span
        append(name, utf8.span, set, to: &out)
    }

    private mutating func append(_ expiration: Int64, _ set: Int, to out: inout OutBuffer) {
        let before = names[HPACKName.expiration.rawValue]
        if expiration == knownExpiration, let index = table.index(of: before) {
            return out.append(integer: index, prefix: 7, pattern: 0x80)
        }
        var digits = InlineArray<20, UInt8>(repeating: 0)
        let start = Self.write(expiration, to: &digits)
        append(.expiration, digits.span.extracting(start...), set, to: &out)
        if names[HPACKName.expiration.rawValue] != before { knownExpiration = expiration }
    }

    /// Writes decimal digits up to the end of the array. Returns the position of the first.
    private static func write(_ number: Int64, to digits: inout InlineArray<20, UInt8>) -> Int {
        var start = 20
        var rest = number.magnitude
        repeat {
            start -= 1
            digits[start] = UInt8(ascii: "0") + UInt8(rest % 10)
            rest /= 10
        } while rest > 0
        if number < 0 {
            start -= 1
            digits[start] = UInt8(ascii: "-")
        }
        return start
    }

    private mutating func appendLiteral(_ name: HPACKName, _ value: Span<UInt8>, isIndexed: Bool, to out: inout OutBuffer) {
        let pattern: UInt8 = isIndexed ? 0x40 : 0
        if let index = name.staticIndex ?? table.index(of: names[name.rawValue]) {
            out.append(integer: index, prefix: isIndexed ? 6 : 4, pattern: pattern)
        } else {
            out.append(pattern)
            out.append(integer: name.text.utf8CodeUnitCount, prefix: 7, pattern: 0)
            out.append(name.text)
        }
        out.append(integer: value.count, prefix: 7, pattern: 0)
        out.append(value)
        guard isIndexed else { return }
        names[name.rawValue] = table.insert(name.size(with: value.count))
        epoch += 1
    }

    // MARK: Sets

    private mutating func set(for shared: SharedHeaders) -> Int {
        if latestSet < sets.count && sets[latestSet].shared === shared { return latestSet }
        latestSet = setsByIdentity[ObjectIdentifier(shared)] ?? add(shared)
        return latestSet
    }

    private mutating func add(_ shared: SharedHeaders) -> Int {
        if sets.count >= Self.mostSets { forgetSets() }
        var places: [Int] = []
        var wholePath: [UInt8] = []
        let topic = shared.topic(onSessionOf: topic)
        if let channel = shared.channel {
            places.append(place(of: HPACKField(.channelID, Array(channel.utf8))))
            wholePath = Array((Self.broadcastPath + (topic ?? "")).utf8)
        } else if let topic {
            places.append(place(of: HPACKField(.topic, Array(topic.utf8))))
        }
        if let call = shared.call {
            wholePath = Array(call.path.utf8)
        } else {
            places.append(place(of: HPACKField(.pushType, Array(shared.pushType.utf8))))
            places.append(place(of: HPACKField(.priority, Array(String(shared.priority).utf8))))
        }
        sets.append(HeaderSet(shared: shared, fields: places, wholePath: wholePath))
        setsByIdentity[ObjectIdentifier(shared)] = sets.count - 1
        return sets.count - 1
    }

    private mutating func place(of field: HPACKField) -> Int {
        if let known = fields.firstIndex(where: { $0.name == field.name && $0.value == field.value }) { return known }
        fields.append(field)
        return fields.count - 1
    }

    /// Drops all templates; they are made again on demand. Fields in the table keep their entries.
    private mutating func forgetSets() {
        sets.removeAll()
        setsByIdentity.removeAll()
        let authority = fields[Self.authority]
        let bearer = authorization.map { fields[$0] }
        fields.removeAll { $0.name == .authority || $0.name == .authorization || table.index(of: $0.number) == nil }
        fields.insert(authority, at: Self.authority)
        if let bearer {
            fields.append(bearer)
            authorization = fields.count - 1
        }
    }
}

extension OutBuffer {
    /// RFC 7541, 5.1.
    @inline(__always)
    fileprivate mutating func append(integer value: Int, prefix bits: Int, pattern: UInt8) {
        let most = 1 << bits - 1
        if value < most { return append(pattern | UInt8(value)) }
        append(pattern | UInt8(most))
        var rest = value - most
        while rest >= 128 {
            append(UInt8(rest & 127) | 128)
            rest >>= 7
        }
        append(UInt8(rest))
    }
}

/// A name and a value that many requests repeat.
struct HPACKField {
    let name: HPACKName
    let value: [UInt8]
    /// The number of its table entry, which may have been evicted; 0 for none.
    var number = 0

    init(_ name: HPACKName, _ value: [UInt8]) {
        self.name = name
        self.value = value
    }

    var size: Int { name.size(with: value.count) }
}

/// The header names whose values vary.
enum HPACKName: Int, CaseIterable {
    case authority, authorization, topic, pushType, priority, expiration, apnsID, collapseID, channelID, requestID

    var text: StaticString {
        switch self {
        case .authority: ":authority"
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

    /// RFC 7541, appendix A.
    var staticIndex: Int? {
        switch self {
        case .authority: 1
        case .authorization: 23
        default: nil
        }
    }

    func size(with valueCount: Int) -> Int { text.utf8CodeUnitCount + valueCount + HPACKTable.entryOverhead }
}

/// The encoder's view of the dynamic table (RFC 7541, 2.3.2, 4): entries, positions and evictions. An entry is identified by
/// the number of its insertion, from 1.
struct HPACKTable {
    /// The overhead that every entry adds to the size of its name and value (RFC 7541, 4.1).
    static let entryOverhead = 32
    /// The index of the newest entry: the static table comes first (RFC 7541, 2.3.3).
    private static let firstIndex = 62

    /// The most bytes that the entries may count for.
    private(set) var limit: Int
    private(set) var used = 0
    /// The sizes of the entries, oldest first: at most 128 in 4,096 bytes.
    private var sizes: [Int] = []
    private var inserted = 0

    init(limit: Int) { self.limit = limit }

    /// Returns the index of an entry, or `nil` if it is not in the table.
    func index(of number: Int) -> Int? {
        guard number > inserted - sizes.count else { return nil }
        return Self.firstIndex + inserted - number
    }

    /// Inserts an entry, evicting the oldest until there is room. Returns its number. An entry that is larger than the table
    /// empties it and is not inserted (RFC 7541, 4.4).
    mutating func insert(_ size: Int) -> Int {
        evict(until: limit - size)
        guard size <= limit else { return 0 }
        sizes.append(size)
        used += size
        inserted += 1
        return inserted
    }

    mutating func setLimit(_ limit: Int) {
        self.limit = limit
        evict(until: limit)
    }

    private mutating func evict(until most: Int) {
        while used > most, let oldest = sizes.first {
            used -= oldest
            sizes.removeFirst()
        }
    }
}
