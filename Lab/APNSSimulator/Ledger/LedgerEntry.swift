public import Clocks

/// One request in the ledger.
public struct LedgerEntry: Sendable, Equatable {
    public var verdict: Verdict
    /// As in the answer: the client's own, or one made in its place. Of a broadcast it is `apns-request-id`.
    public var apnsID: String
    /// As in the path, case and all; empty where the path had none. Of a broadcast it is the channel id.
    public var token: String
    /// Of a broadcast it is the bundle id in the path.
    public var topic: String?
    public var isBroadcast: Bool
    public var pushType: String?
    public var priority: String?
    public var expiration: String?
    public var collapseID: String?
    /// Lower-case hex.
    public var bodySHA256: String
    /// Only where the ledger keeps bodies.
    public var body: [UInt8]?
    /// Numbered from 1 in the order of their handshakes.
    public var connection: Int
    /// HTTP/2 stream id.
    public var stream: Int32
    /// When the verdict was given.
    public var time: Instant
}
