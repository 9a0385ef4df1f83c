/// Topic, push type, priority and channel. A daemon sends few combinations, so each is one object that thousands of
/// notifications share; a session recognises it by identity.
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

    public init(topic: String?, pushType: String, priority: Int, channel: String? = nil) {
        self.topic = topic
        self.pushType = pushType
        self.priority = priority
        self.channel = channel
    }
}
