/// The number of a send: a slot, and a count of its uses, so that a late outcome of a settled send finds nothing.
struct SendID: Hashable {
    let rawValue: UInt64

    init(_ rawValue: UInt64) { self.rawValue = rawValue }
    init(slot: Int, use: UInt32) { rawValue = UInt64(use) << 32 | UInt64(UInt32(slot)) }

    var slot: Int { Int(truncatingIfNeeded: rawValue & 0xFFFF_FFFF) }
    var use: UInt32 { UInt32(truncatingIfNeeded: rawValue >> 32) }
}
