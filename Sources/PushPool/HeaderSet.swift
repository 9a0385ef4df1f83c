internal import CNghttp2

/// Bytes at an address that stays, for as long as C may look at them.
final class FixedBytes {
    let start: UnsafeMutablePointer<UInt8>
    let count: Int

    init(_ bytes: [UInt8]) {
        count = bytes.count
        start = .allocate(capacity: max(1, count))
        start.initialize(from: bytes, count: count)
    }

    convenience init(_ text: String) { self.init(Array(text.utf8)) }

    deinit { start.deallocate() }
}

/// The header list of one `SharedHeaders` on one session: constant but for the path and what follows `apns-priority`.
///
/// Names and values are never copied (NGHTTP2_NV_FLAG_NO_COPY_NAME, _VALUE): the constants live here, the rest in the
/// slot of its stream, which holds on to this set until the stream is closed.
final class HeaderSet {
    /// Kept alive, so that its identity stays its own.
    let shared: SharedHeaders
    let bearer: FixedBytes?
    private let constants: [FixedBytes]
    private let authority: FixedBytes
    let fields: UnsafeMutablePointer<nghttp2_nv>
    private(set) var constantCount = 0
    private let pathIndex = 3

    /// Pseudo-headers first: APNs drops the connection otherwise (ostinelli/apnotic#68).
    static let mostFields = 11

    init(_ shared: SharedHeaders, authority: FixedBytes, bearer: FixedBytes?) {
        self.shared = shared
        self.bearer = bearer
        self.authority = authority
        constants = [
            FixedBytes(shared.topic ?? ""), FixedBytes(shared.pushType), FixedBytes(String(shared.priority)),
            FixedBytes(shared.channel ?? ""), FixedBytes("/4/broadcasts/apps/" + (shared.topic ?? "")),
        ]
        fields = .allocate(capacity: HeaderSet.mostFields)
        add(":method", "POST")
        add(":scheme", "https")
        add(":authority", authority)
        if isBroadcast { add(":path", constants[4]) } else { add(":path", "") }
        if let bearer { add("authorization", bearer) }
        if isBroadcast { add("apns-channel-id", constants[3]) } else if shared.topic != nil { add("apns-topic", constants[0]) }
        add("apns-push-type", constants[1])
        add("apns-priority", constants[2])
    }

    deinit { fields.deallocate() }

    /// Its path is one of the constants.
    var isBroadcast: Bool { shared.channel != nil }

    func setPath(_ start: UnsafeMutablePointer<UInt8>, count: Int) {
        fields[pathIndex].value = start
        fields[pathIndex].valuelen = count
    }

    /// One of the three headers that differ from push to push, at this place; returns the place after it.
    func setVariable(
        _ name: StaticString, _ value: UnsafeMutablePointer<UInt8>, count: Int, isIndexed: Bool, at place: Int
    ) -> Int {
        let flags = isIndexed ? HeaderSet.noCopy : HeaderSet.noCopy | UInt8(NGHTTP2_NV_FLAG_NO_INDEX.rawValue)
        (fields + place).initialize(to: HeaderSet.field(name, value, count, flags))
        return place + 1
    }

    private static let noCopy = UInt8(NGHTTP2_NV_FLAG_NO_COPY_NAME.rawValue | NGHTTP2_NV_FLAG_NO_COPY_VALUE.rawValue)

    private static func field(
        _ name: StaticString, _ value: UnsafeMutablePointer<UInt8>, _ count: Int, _ flags: UInt8
    ) -> nghttp2_nv {
        nghttp2_nv(
            name: UnsafeMutablePointer(mutating: name.utf8Start), value: value, namelen: name.utf8CodeUnitCount,
            valuelen: count, flags: flags)
    }

    private func add(_ name: StaticString, _ value: FixedBytes) {
        (fields + constantCount).initialize(to: HeaderSet.field(name, value.start, value.count, HeaderSet.noCopy))
        constantCount += 1
    }

    private func add(_ name: StaticString, _ value: StaticString) {
        let start = UnsafeMutablePointer(mutating: value.utf8Start)
        let field = HeaderSet.field(name, start, value.utf8CodeUnitCount, HeaderSet.noCopy)
        (fields + constantCount).initialize(to: field)
        constantCount += 1
    }
}
