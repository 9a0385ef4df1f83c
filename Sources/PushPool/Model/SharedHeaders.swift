/// Topic, push type, priority and channel: a daemon sends few combinations of them, so each is one object that thousands of
/// notifications point at, and a session recognises it by identity.
public final class SharedHeaders: Sendable {
    /// `apns-topic`; `nil` where the certificate alone decides.
    public let topic: String?
    /// `apns-push-type`, known or not.
    public let pushType: String
    /// `apns-priority`: 1, 5 or 10.
    public let priority: Int
    /// `apns-channel-id`, which makes it a broadcast: it goes to `/4/broadcasts/apps/` and the topic, which is no header then
    /// ("Sending broadcast push notification requests to APNs").
    public let channel: String?

    public init(topic: String?, pushType: String, priority: Int, channel: String? = nil) {
        self.topic = topic
        self.pushType = pushType
        self.priority = priority
        self.channel = channel
    }
}
