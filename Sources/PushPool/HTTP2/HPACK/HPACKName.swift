/// The header names whose values vary.
enum HPACKName: Int, CaseIterable {
    case authority, authorization, topic, pushType, priority, expiration, apnsID, collapseID, channelID, requestID

    var text: StaticString {
        switch self {
        case .authority: ":authority"
        case .authorization: "authorization"
        case .topic: "apns-topic"
        case .pushType: "apns-push-type"
        case .priority: "apns-priority"
        case .expiration: "apns-expiration"
        case .apnsID: "apns-id"
        case .collapseID: "apns-collapse-id"
        case .channelID: "apns-channel-id"
        case .requestID: "apns-request-id"
        }
    }

    /// RFC 7541, appendix A.
    var staticIndex: Int? {
        switch self {
        case .authority: 1
        case .authorization: 23
        default: nil
        }
    }

    func size(with valueCount: Int) -> Int { text.utf8CodeUnitCount + valueCount + HPACKTable.entryOverhead }
}
