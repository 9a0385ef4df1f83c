/// A job that this worker holds. Redis keeps it in the worker's in-flight hash until it is settled.
public struct ClaimedJob: Sendable, Equatable {
    /// Its field in the hash.
    public var id: ClaimID
    /// The list element, byte for byte.
    public var bytes: [UInt8]

    public init(id: ClaimID, bytes: [UInt8]) {
        self.id = id
        self.bytes = bytes
    }
}
