internal import PushPool

/// A push with the headers that it is sent with. An object, so that the table of sends copies one reference.
final class PushRequest: Sendable {
    let push: Push
    let headers: SharedHeaders
    let expiration: Int64?
    let lifetime: Int64
    /// Whether the push names no topic: a refused topic is then a fault of the configuration.
    let usesDefaultTopic: Bool

    /// - Parameters:
    ///   - topic: the default.
    ///   - time: Unix seconds.
    init(_ push: Push, topic: PushTopic?, cache: inout SharedHeadersCache, time: Int64) throws(APNSError) {
        self.push = push
        usesDefaultTopic = push.topic == nil
        let channel: String? = if case .channel(let id) = push.target { id } else { nil }
        try PushRequest.check(header: push.kind.rawValue, "kind")
        try PushRequest.check(push, isBroadcast: channel != nil)
        headers = cache.shared(
            topic: try channel == nil ? PushRequest.topic(of: push, topic) : PushRequest.bundleID(of: push, topic),
            pushType: push.kind.rawValue, priority: try PushRequest.priority(of: push), channel: channel)
        (expiration, lifetime) = try PushRequest.expiration(of: push, time: time)
    }

    func notification(id: UInt64, avoiding session: SessionID?) -> Notification {
        Notification(
            id: id, bytes: push.bytes, token: 0..<push.receiverCount, payload: push.receiverCount..<push.bytes.count,
            headers: headers, expiration: expiration, lifetime: lifetime, apnsID: push.apnsID, collapseID: push.collapseID,
            avoiding: session)
    }

    private static func check(_ push: Push, isBroadcast: Bool) throws(APNSError) {
        let most = isBroadcast || push.kind == .voip ? 5120 : 4096
        let count = push.bytes.count - push.receiverCount
        guard count <= most else { throw .invalid("the payload has \(count) bytes; expected at most \(most)") }
        if let collapseID = push.collapseID {
            if isBroadcast { throw .invalid("a broadcast has no collapse id") }
            try check(header: collapseID, "collapse id", most: 64)
        }
        if let apnsID = push.apnsID, !Notification.isUUID(apnsID) { throw .invalid("the apns-id is not a UUID") }
        if let deadline = push.deadline, deadline <= .zero { throw .invalid("the deadline is not above zero") }
    }

    /// A space at either end makes a request malformed (RFC 9113, 8.2.1).
    private static func check(header text: String, _ name: String, most: Int = 1024) throws(APNSError) {
        let bytes = text.utf8
        guard (1...most).contains(bytes.count) else {
            throw .invalid("the \(name) has \(bytes.count) bytes; expected 1 to \(most)")
        }
        guard bytes.allSatisfy({ $0 >= 0x20 && $0 != 0x7F }), bytes.first != 0x20, bytes.last != 0x20 else {
            throw .invalid("the \(name) has a control character, or a space at an end")
        }
    }

    private static func priority(of push: Push) throws(APNSError) -> Int {
        if push.kind == .background && push.priority == .immediate {
            throw .invalid("a background push cannot have the priority immediate")
        }
        return push.priority?.rawValue ?? (push.kind == .background ? 5 : 10)
    }

    private static func topic(of push: Push, _ usual: PushTopic?) throws(APNSError) -> String? {
        let suffix = PushTopic.suffix(of: push.kind.rawValue)
        guard let own = push.topic else {
            guard let usual else { throw .invalid("neither the push nor the configuration has a topic") }
            guard let suffix, usual.pushType != push.kind.rawValue else { return usual.text }
            return suffix.isEmpty ? usual.bundleID : usual.bundleID + suffix
        }
        try check(header: own, "topic")
        guard let suffix else { return own }
        let topic = PushTopic(own)
        guard let pushType = topic.pushType else { return own + suffix }
        if pushType == push.kind.rawValue { return own }
        throw .invalid("the topic \(own) does not go with the kind \(push.kind.rawValue)")
    }

    /// The topic of a broadcast is a part of its path.
    private static func bundleID(of push: Push, _ usual: PushTopic?) throws(APNSError) -> String {
        guard let id = push.topic ?? usual?.bundleID else {
            throw .invalid("neither the push nor the configuration has a topic")
        }
        guard PushTopic.isBundleID(id.utf8), !id.isEmpty else { throw .invalid("the topic of a broadcast is not a bundle id") }
        return id
    }

    private static func expiration(of push: Push, time: Int64) throws(APNSError) -> (Int64?, lifetime: Int64) {
        switch push.expiration {
        case nil: return (nil, 0)
        case .once: return (0, 0)
        case .at(let seconds):
            guard seconds > 0 else { throw .invalid("the expiration is not above zero") }
            return (seconds, 0)
        case .after(let duration):
            let seconds = duration.components.seconds
            guard seconds > 0 else { throw .invalid("the expiration is not at least a second after the send") }
            let (sum, isTooLarge) = time.addingReportingOverflow(seconds)
            return (isTooLarge ? .max : sum, seconds)
        }
    }
}
