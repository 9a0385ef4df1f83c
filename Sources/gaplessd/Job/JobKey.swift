internal import JSONBytes

/// The members of a job that the daemon reads.
enum JobKey: Int, Sendable, CaseIterable {
    case token, tokens, data, identifier, expiry, expiresAt, app, topic, pushType, priority, collapseID, apnsID, notBefore
    case retrying, deadline, channel, doubtful, trace, firstAPNSID, campaign, tokensFrom
    case over, stopAt, campaignMark, channelName, replaces, rank, channelMark

    /// In the order of the cases.
    private static let names: [StaticString] = [
        "token", "tokens", "data", "identifier", "expiry", "expires_at", "app", "topic", "push_type", "priority", "collapse_id",
        "apns_id", "not_before", "_gapless_RETRYING", "_gapless_deadline", "channel", "_gapless_doubtful", "trace",
        "_gapless_apns_id", "campaign", "tokens_from", "over", "stop_at", "_gapless_campaign", "channel_name", "replaces",
        "_gapless_rank", "_gapless_channel",
    ]
    var name: StaticString { Self.names[rawValue] }

    /// Whether the member says where the push goes.
    var isTarget: Bool {
        self == .token || self == .tokens || self == .channel || self == .tokensFrom || self == .channelName
    }

    /// Whether `Job.Rare` depends on the member.
    var isRare: Bool {
        switch self {
        case .token, .data, .identifier, .expiry, .expiresAt, .priority, .retrying, .deadline, .over, .stopAt: false
        default: true
        }
    }

    /// Whether only the daemon writes the member.
    var isMark: Bool {
        switch self {
        case .retrying, .deadline, .doubtful, .firstAPNSID, .campaignMark, .rank, .channelMark: true
        default: false
        }
    }

    /// Returns the key with this name, which may contain escapes.
    init?(_ key: JSONSlice, in bytes: Span<UInt8>) {
        if key.hasEscapes {
            self.init(escaped: key, in: bytes)
            return
        }
        // At most three names share a length. Each line is a comparison with a constant.
        switch key.range.count - 2 {
        case 4 where key.equals("over", in: bytes): self = .over
        case 7 where key.equals("stop_at", in: bytes): self = .stopAt
        case 11 where key.equals("tokens_from", in: bytes): self = .tokensFrom
        case 17 where key.equals("_gapless_campaign", in: bytes): self = .campaignMark
        case 3 where key.equals("app", in: bytes): self = .app
        case 4 where key.equals("data", in: bytes): self = .data
        case 5 where key.equals("token", in: bytes): self = .token
        case 5 where key.equals("topic", in: bytes): self = .topic
        case 5 where key.equals("trace", in: bytes): self = .trace
        case 6 where key.equals("tokens", in: bytes): self = .tokens
        case 6 where key.equals("expiry", in: bytes): self = .expiry
        case 7 where key.equals("apns_id", in: bytes): self = .apnsID
        case 7 where key.equals("channel", in: bytes): self = .channel
        case 8 where key.equals("priority", in: bytes): self = .priority
        case 8 where key.equals("replaces", in: bytes): self = .replaces
        case 8 where key.equals("campaign", in: bytes): self = .campaign
        case 9 where key.equals("push_type", in: bytes): self = .pushType
        case 10 where key.equals("identifier", in: bytes): self = .identifier
        case 10 where key.equals("expires_at", in: bytes): self = .expiresAt
        case 10 where key.equals("not_before", in: bytes): self = .notBefore
        case 11 where key.equals("collapse_id", in: bytes): self = .collapseID
        case 13 where key.equals("_gapless_rank", in: bytes): self = .rank
        case 12 where key.equals("channel_name", in: bytes): self = .channelName
        case 16 where key.equals("_gapless_apns_id", in: bytes): self = .firstAPNSID
        case 16 where key.equals("_gapless_channel", in: bytes): self = .channelMark
        case 17 where key.equals("_gapless_RETRYING", in: bytes): self = .retrying
        case 17 where key.equals("_gapless_deadline", in: bytes): self = .deadline
        case 17 where key.equals("_gapless_doubtful", in: bytes): self = .doubtful
        default: return nil
        }
    }

    @inline(never)
    private init?(escaped key: JSONSlice, in bytes: Span<UInt8>) {
        guard let match = JobKey.allCases.first(where: { key.equals($0.name, in: bytes) }) else { return nil }
        self = match
    }
}
