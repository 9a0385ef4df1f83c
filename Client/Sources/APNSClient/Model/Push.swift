internal import FoundationEssentials
internal import JSONBytes

/// One push: its receiver, its payload, and its headers.
///
/// `init` checks receiver and payload. ``APNSClient/send(_:)`` checks the headers, which can be changed until then.
public struct Push: Sendable, Equatable {
    /// The device token or the broadcast channel.
    public let target: Target
    /// The value of `apns-push-type`. For a channel, the default is a Live Activity.
    public var kind = Kind.alert
    /// `nil` is 10, and 5 for a background push.
    public var priority: Priority?
    /// `nil` is the topic of the configuration, with the suffix of ``kind``.
    public var topic: String?
    /// `nil` lets APNs decide how long it stores the push: at most 30 days.
    public var expiration: Expiration?
    /// A newer push with the same id replaces this one on the device. At most 64 bytes.
    public var collapseID: String?
    /// A UUID for `apns-id`; `nil` lets APNs choose.
    public var apnsID: String?
    /// The longest time from ``APNSClient/send(_:)`` to its result; `nil` is the deadline of the configuration.
    public var deadline: Duration?

    /// The receiver in its wire format, then the payload.
    let bytes: [UInt8]
    let receiverCount: Int

    /// Encodes the payload as JSON.
    ///
    /// - Parameters:
    ///   - target: the receiver.
    ///   - payload: a value that becomes a JSON object with the key `aps`.
    /// - Throws: ``APNSError`` with the cause ``APNSError/Cause/invalid``.
    public init(to target: Target, payload: some Encodable) throws(APNSError) {
        let data: Data
        do {
            data = try JSONEncoder().encode(payload)
        } catch { throw .invalid("the payload cannot be encoded: \(error)") }
        try self.init(to: target, json: [UInt8](data))
    }

    /// Takes a payload that is JSON already. Its bytes are sent unchanged.
    ///
    /// - Throws: ``APNSError`` with the cause ``APNSError/Cause/invalid``.
    public init(to target: Target, json: [UInt8]) throws(APNSError) {
        try self.init(target, json[...], isChecked: false)
    }

    /// The same push to another receiver: its payload is not encoded again.
    public func addressed(to target: Target) throws(APNSError) -> Push {
        var copy = try Push(target, bytes[receiverCount...], isChecked: true)
        copy.kind = kind
        copy.priority = priority
        copy.topic = topic
        copy.expiration = expiration
        copy.collapseID = collapseID
        copy.apnsID = apnsID
        copy.deadline = deadline
        return copy
    }

    private init(_ target: Target, _ json: ArraySlice<UInt8>, isChecked: Bool) throws(APNSError) {
        let receiver = try target.checked()
        if !isChecked { try Push.check(json) }
        self.target = target
        if case .channel = target { kind = .liveActivity }
        receiverCount = receiver.utf8.count
        var bytes: [UInt8] = []
        bytes.reserveCapacity(receiverCount + json.count)
        bytes += receiver.utf8
        bytes += json
        self.bytes = bytes
    }

    private static func check(_ json: ArraySlice<UInt8>) throws(APNSError) {
        do {
            var cursor = JSONCursor()
            let text = json.span
            let value = try cursor.value(in: text)
            try cursor.finish(in: text)
            if value.kind == .object { return }
        } catch { throw .invalid("the payload is not JSON: \(error)") }
        throw .invalid("the payload is not a JSON object")
    }

    /// The payload as it is sent.
    public var payload: [UInt8] { Array(bytes[receiverCount...]) }
}
