/// One push to a device token or a broadcast channel, with its headers and payload.
///
/// Token and payload are ranges of bytes that are shared and never copied or re-encoded.
public struct Notification: Sendable {
    /// The caller's number, which the outcome repeats. Unique among the notifications in flight.
    public var id: UInt64
    /// The bytes that `token` and, without shared bytes in `headers`, `payload` refer to.
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
    /// The bytes that `payload` refers to.
    var body: [UInt8] { headers.body ?? bytes }

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

/// Topic, push type, priority, channel, and the payload of a campaign. A daemon sends few combinations, so each is one object
/// that thousands of notifications share; a session recognises it by identity.
public final class SharedHeaders: Sendable {
    /// `apns-topic`; `nil` if the certificate decides.
    public let topic: String?
    /// `apns-push-type`, known or unknown.
    public let pushType: String
    /// `apns-priority`: 1, 5 or 10.
    public let priority: Int
    /// `apns-channel-id` of a broadcast. A broadcast's path contains the topic, and it has no topic header ("Sending broadcast
    /// push notification requests to APNs").
    public let channel: String?
    /// The request is no push but a call of the channel management API; the other values have no meaning then.
    package let call: ChannelCall?
    /// The topic of the settings from which `topic` is made; `nil` if the job names its own. A session whose settings have
    /// another one uses that.
    package let topicOfSettings: String?
    /// The bytes that contain the payload, if the notifications share it; `nil` if each has its own.
    package let body: [UInt8]?

    public convenience init(topic: String?, pushType: String, priority: Int, channel: String? = nil) {
        self.init(topic: topic, topicOfSettings: nil, pushType: pushType, priority: priority, channel: channel)
    }

    package init(
        topic: String?, topicOfSettings: String?, pushType: String, priority: Int, channel: String?, body: [UInt8]? = nil
    ) {
        self.topic = topic
        self.topicOfSettings = topicOfSettings
        self.pushType = pushType
        self.priority = priority
        self.channel = channel
        self.body = body
        call = nil
    }

    package init(_ call: ChannelCall) {
        (topic, topicOfSettings, pushType, priority, channel, body) = (nil, nil, "", 0, call.channelID, nil)
        self.call = call
    }

    /// Returns the topic on a session whose settings have this topic.
    func topic(onSessionOf settings: String?) -> String? {
        guard let topic, let topicOfSettings, let settings, settings != topicOfSettings else { return topic }
        if topic == topicOfSettings { return settings }
        let suffix = topic.dropFirst(PushTopic(topicOfSettings).bundleID.count)
        return PushTopic(settings).bundleID + suffix
    }
}

/// Shares one `SharedHeaders` object among jobs with the same topic, push type, priority and channel.
package struct SharedHeadersCache: Sendable {
    private struct Key: Hashable {
        var topic: String?
        var topicOfSettings: String?
        var pushType: String
        var priority: Int
        var channel: String?
    }

    /// A bound for producers whose jobs all differ in their topic: the cache is emptied when it is full.
    private static let most = 1000
    private var known: [Key: SharedHeaders] = [:]
    private var last: SharedHeaders?

    package init() {}

    package mutating func shared(
        topic: String?, topicOfSettings: String? = nil, pushType: String, priority: Int, channel: String?
    ) -> SharedHeaders {
        if let last, last.priority == priority, last.pushType == pushType, last.topic == topic,
            last.topicOfSettings == topicOfSettings, last.channel == channel
        {
            return last
        }
        let key = Key(topic: topic, topicOfSettings: topicOfSettings, pushType: pushType, priority: priority, channel: channel)
        if known.count >= Self.most { known.removeAll() }
        let headers =
            known[key]
            ?? SharedHeaders(
                topic: topic, topicOfSettings: topicOfSettings, pushType: pushType, priority: priority, channel: channel)
        known[key] = headers
        last = headers
        return headers
    }
}

/// An `apns-topic`: a bundle ID, and the suffix of a push type that has one ("Sending notification requests to APNs").
package struct PushTopic: Sendable, Equatable {
    /// The suffix of each known push type. An unknown push type may go with any topic.
    private static let suffixes: [(pushType: String, suffix: String)] = [
        ("alert", ""), ("background", ""), ("mdm", ""), ("voip", ".voip"), ("complication", ".complication"),
        ("fileprovider", ".pushkit.fileprovider"), ("location", ".location-query"),
        ("liveactivity", ".push-type.liveactivity"), ("pushtotalk", ".voip-ptt"), ("widgets", ".push-type.widgets"),
        ("controls", ".push-type.controls"),
    ]

    package let bundleID: String
    /// The push type of the suffix; `nil` without a suffix.
    package let pushType: String?

    package init(_ topic: String) {
        let backwards = topic.utf8.reversed()
        let match = Self.suffixes.first { !$0.suffix.isEmpty && backwards.starts(with: $0.suffix.utf8.reversed()) }
        bundleID = String(topic.dropLast(match?.suffix.count ?? 0))
        pushType = match?.pushType
    }

    /// Whether a text is a bundle id, which may become a part of `:path`: letters, digits, hyphens and periods (Apple,
    /// CFBundleIdentifier), and underscores, which occur in practice.
    package static func isBundleID(_ text: some Sequence<UInt8>) -> Bool {
        text.allSatisfy { byte in
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"): true
            default: false
            }
        }
    }

    /// The topic with its suffix.
    package var text: String { bundleID + (pushType.flatMap(Self.suffix) ?? "") }

    /// The suffix that the push type requires; `nil` for an unknown push type.
    package static func suffix(of pushType: String) -> String? { suffixes.first { $0.pushType == pushType }?.suffix }

    /// Returns the topics with a suffix by the name of their app: they imply the push type of jobs that name none.
    package static func suffixed(_ topics: some Sequence<(app: String?, topic: String?)>) -> [String?: PushTopic] {
        var suffixed: [String?: PushTopic] = [:]
        for case (let app, let topic?) in topics.map({ ($0.app, $0.topic.map(PushTopic.init)) }) where topic.pushType != nil {
            suffixed[app] = topic
        }
        return suffixed
    }
}
