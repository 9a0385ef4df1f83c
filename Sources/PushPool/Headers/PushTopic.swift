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
