/// A job that this worker holds: in Redis it stands in the worker's in-flight hash until it is settled.
public struct ClaimedJob: Sendable, Equatable {
    /// Rises with every claim of this worker; the field in the hash.
    public var id: UInt64
    /// The element as it stood in the list, byte for byte.
    public var bytes: [UInt8]

    public init(id: UInt64, bytes: [UInt8]) {
        self.id = id
        self.bytes = bytes
    }
}
