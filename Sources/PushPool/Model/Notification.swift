/// One push to a device token or a broadcast channel, with its headers and payload.
///
/// Token and payload are ranges of the job's own bytes, which are shared and never copied or re-encoded.
public struct Notification: Sendable {
    /// The caller's number, which the outcome repeats. Unique among the notifications in flight.
    public var id: UInt64
    /// The bytes that `token` and `payload` refer to.
    public var bytes: [UInt8]
    /// 1 to 1000 hex digits, checked by the caller, which go into `:path` unchanged. Unused for a broadcast.
    public var token: Range<Int>
    /// JSON, at most 4096 bytes (`voip` and broadcasts: 5120), checked by the caller.
    public var payload: Range<Int>
    /// The headers that many notifications share.
    public var headers: SharedHeaders
    /// Unix seconds for `apns-expiration`; 0 means one attempt without storing, `nil` omits the header.
    public var expiration: Int64?
    /// Seconds from the send to `expiration` if that counts from the send. 0 if `expiration` is fixed: then nothing is sent
    /// after it.
    public var lifetime: Int64
    /// The session that a resend should avoid as long as there is another.
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

    /// Whether a text is a UUID, as an `apns-id` must be: 8-4-4-4-12 hex digits.
    public static func isUUID(_ text: String) -> Bool {
        text.utf8.count == 36
            && text.utf8.enumerated().allSatisfy { place, byte in
                [8, 13, 18, 23].contains(place) ? byte == UInt8(ascii: "-") : byte &- 0x30 <= 9 || (byte | 0x20) &- 0x61 <= 5
            }
    }

    /// The effect of the present time on the deadline.
    enum Timing: Equatable {
        case asItIs
        /// The deadline counts from the send.
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

    /// The headers that few notifications have, in one object: every copy of a notification counts each reference in it, and
    /// 130 such steps per push took a seventh of the daemon's time (perf).
    private final class RareHeaders: Sendable {
        let apnsID: String?
        let collapseID: String?

        init(apnsID: String?, collapseID: String?) {
            self.apnsID = apnsID
            self.collapseID = collapseID
        }
    }
}
