/// Shares one `SharedHeaders` object among jobs with the same topic, push type, priority and channel.
package struct SharedHeadersCache: Sendable {
    private struct Key: Hashable {
        var topic: String?
        var pushType: String
        var priority: Int
        var channel: String?
    }

    /// A bound for producers whose jobs all differ in their topic: the cache is emptied when it is full.
    private static let most = 1000
    private var known: [Key: SharedHeaders] = [:]
    private var last: SharedHeaders?

    package init() {}

    package mutating func shared(topic: String?, pushType: String, priority: Int, channel: String?) -> SharedHeaders {
        if let last, last.priority == priority, last.pushType == pushType, last.topic == topic, last.channel == channel {
            return last
        }
        let key = Key(topic: topic, pushType: pushType, priority: priority, channel: channel)
        if known.count >= Self.most { known.removeAll() }
        let headers = known[key] ?? SharedHeaders(topic: topic, pushType: pushType, priority: priority, channel: channel)
        known[key] = headers
        last = headers
        return headers
    }
}
