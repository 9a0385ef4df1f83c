/// The number of a held job: a slot of `HeldJobs`, and how often that slot has been used. A notification carries it as its `id`.
struct JobID: Hashable, Sendable {
    let rawValue: UInt64

    init(_ rawValue: UInt64) { self.rawValue = rawValue }

    init(slot: Int, use: UInt32) { rawValue = UInt64(use) << 32 | UInt64(slot) }

    var slot: Int { Int(rawValue & 0xFFFF_FFFF) }
    var use: UInt32 { UInt32(rawValue >> 32) }
}
