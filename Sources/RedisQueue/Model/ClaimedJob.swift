/// A job that this worker holds. Redis keeps it in a chunk of the worker until it is settled.
public struct ClaimedJob: Sendable, Equatable {
    public var id: ClaimID
    /// The list element, byte for byte, or the beginning of a job that is too large.
    public var bytes: [UInt8]
    /// The number of bytes of a job of more than `mostBytes`, of which Redis sends only the beginning.
    public var fullSize: Int?
    /// Whether it was in flight at three crashes: its worker claims nothing else until it is settled.
    public var isAlone: Bool
    /// Whether it has been claimed before: it comes from a side list or from a dead worker, and is older than the jobs of its app
    /// that are set aside now.
    public var wasClaimed: Bool

    /// A larger job is not transmitted.
    public static let mostBytes = 24 << 20
    /// Bytes that Redis sends of a larger job.
    static let headBytes = 1024

    public init(id: ClaimID, bytes: [UInt8], fullSize: Int? = nil, isAlone: Bool = false, wasClaimed: Bool = false) {
        self.id = id
        self.bytes = bytes
        self.fullSize = fullSize
        self.isAlone = isAlone
        self.wasClaimed = wasClaimed
    }
}
