internal import FoundationEssentials
internal import JSONBytes
internal import Platform

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

extension Push {
    /// The receiver of a push.
    public enum Target: Sendable, Equatable {
        /// A device token in hexadecimal digits.
        case device(String)
        /// The id of a broadcast channel, in base64.
        case channel(String)

        /// A device token as the system passes it to an app.
        public static func device(_ token: some Sequence<UInt8>) -> Target {
            .device(hexadecimal(token))
        }

        /// Returns the text, if it can be sent.
        func checked() throws(APNSError) -> String {
            switch self {
            case .device(let token):
                let isHex = token.utf8.allSatisfy { $0 &- 0x30 <= 9 || ($0 | 0x20) &- 0x61 <= 5 }
                guard isHex, (1...1000).contains(token.utf8.count) else {
                    throw .invalid("the device token is not 1 to 1000 hexadecimal digits")
                }
                return token
            case .channel(let id):
                let isBase64 = id.utf8.allSatisfy { byte in
                    byte &- 0x30 <= 9 || (byte | 0x20) &- 0x61 <= 25 || Array("+/=".utf8).contains(byte)
                }
                guard isBase64, (1...1024).contains(id.utf8.count) else {
                    throw .invalid("the channel is not 1 to 1024 characters of base64")
                }
                return id
            }
        }
    }

    /// The value of `apns-push-type`.
    public struct Kind: Sendable, Hashable, RawRepresentable {
        public let rawValue: String

        public init(rawValue: String) { self.rawValue = rawValue }

        public static let alert = Kind(rawValue: "alert")
        public static let background = Kind(rawValue: "background")
        public static let voip = Kind(rawValue: "voip")
        public static let complication = Kind(rawValue: "complication")
        public static let fileProvider = Kind(rawValue: "fileprovider")
        public static let location = Kind(rawValue: "location")
        public static let liveActivity = Kind(rawValue: "liveactivity")
        public static let pushToTalk = Kind(rawValue: "pushtotalk")
        public static let widgets = Kind(rawValue: "widgets")
        public static let controls = Kind(rawValue: "controls")
        public static let mdm = Kind(rawValue: "mdm")
    }

    /// The value of `apns-priority`.
    public enum Priority: Int, Sendable {
        /// At once. Not allowed for a background push.
        case immediate = 10
        /// At a time that suits the power of the device.
        case considerate = 5
        /// Power has precedence, and the device is not woken.
        case lowest = 1
    }

    /// The value of `apns-expiration`.
    public enum Expiration: Sendable, Equatable {
        /// APNs tries once and stores nothing.
        case once
        /// Seconds since 1970. A push that could not be sent until then fails as expired.
        case at(unixSeconds: Int64)
        /// From the moment at which the push is sent.
        case after(Duration)
    }
}
