public import Platform

/// One request in the ledger.
public struct LedgerEntry: Sendable, Equatable {
    public var verdict: Verdict
    /// The id in the answer, from the client or created. For a broadcast, `apns-request-id`.
    public var apnsID: String
    /// The device token in the path, with its case; empty if the path has none. For a broadcast, the channel id.
    public var token: String
    /// For a broadcast, the bundle id in the path.
    public var topic: String?
    public var isBroadcast: Bool
    public var pushType: String?
    public var priority: String?
    public var expiration: String?
    public var collapseID: String?
    /// Lower-case hex.
    public var bodySHA256: String
    /// Present if the ledger keeps bodies.
    public var body: [UInt8]?
    /// The number of the connection, from 1, in the order of accepts.
    public var connection: Int
    /// HTTP/2 stream id.
    public var stream: Int32
    /// The time of the verdict.
    public var time: Instant
}
