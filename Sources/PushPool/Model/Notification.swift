/// One device token, or one broadcast channel, with its headers and its payload, on its way to APNs.
///
/// Token and payload are ranges of the job's own bytes, which are shared and never copied or encoded anew.
public struct Notification: Sendable {
    /// The caller's own number; it comes back with the outcome. Unique among what is in flight.
    public var id: UInt64
    /// What `token` and `payload` are ranges of.
    public var bytes: [UInt8]
    /// Hex digits, 1 to 1000 of them, checked by the caller: they go into `:path` as they are. Of a broadcast nobody looks at it.
    public var token: Range<Int>
    /// JSON, at most 4096 bytes (`voip` and broadcasts: 5120), checked by the caller.
    public var payload: Range<Int>
    /// The headers that many notifications share.
    public var headers: SharedHeaders
    /// Unix seconds for `apns-expiration`; 0 is one attempt and no storing, `nil` leaves the header out.
    public var expiration: Int64?
    /// Seconds from the send to `expiration`, where that counts from the send; else 0: then it is fixed, and none is sent once it has passed.
    public var lifetime: Int64
    /// The session that a resend should not meet again, as long as there is another.
    public var avoiding: SessionID?
    private let rare: RareHeaders?

    /// A lower-case UUID for `apns-id` (`apns-request-id` of a broadcast); `nil` lets APNs choose.
    public var apnsID: String? { rare?.apnsID }
    /// At most 64 bytes for `apns-collapse-id`.
    public var collapseID: String? { rare?.collapseID }

    public init(
        id: UInt64, bytes: [UInt8], token: Range<Int>, payload: Range<Int>, headers: SharedHeaders,
        expiration: Int64? = nil, lifetime: Int64 = 0, apnsID: String? = nil, collapseID: String? = nil,
        avoiding: SessionID? = nil
    ) {
        self.id = id
        self.bytes = bytes
        self.token = token
        self.payload = payload
        self.headers = headers
        self.expiration = expiration
        self.lifetime = lifetime
        self.avoiding = avoiding
        rare = apnsID == nil && collapseID == nil ? nil : RareHeaders(apnsID: apnsID, collapseID: collapseID)
    }

    /// What becomes of the deadline of a notification that is sent at this time.
    enum Timing: Equatable {
        case asItIs
        /// It counts from the send.
        case later(Int64)
        case tooLate
    }

    /// - Parameter time: Unix seconds.
    @inline(__always)
    func timing(at time: Int64) -> Timing {
        guard let expiration, expiration > 0 else { return .asItIs }
        if lifetime == 0 { return expiration < time ? .tooLate : .asItIs }
        let (sum, isTooLarge) = time.addingReportingOverflow(lifetime)
        let own = isTooLarge ? .max : sum
        return own == expiration ? .asItIs : .later(own)
    }

    /// What few notifications have, in one object: each reference inside a notification is counted up and down wherever one is
    /// copied, and 130 such steps a push were a seventh of the daemon's time (perf).
    private final class RareHeaders: Sendable {
        let apnsID: String?
        let collapseID: String?

        init(apnsID: String?, collapseID: String?) {
            self.apnsID = apnsID
            self.collapseID = collapseID
        }
    }
}
