/// One send to many devices: the tokens are in a key of Redis, and everything that their pushes share is stored once.
///
/// The hash of the campaign (`Keys.campaign`) has these fields:
///
///     head, tail           the single-token form of its job is head, a token, tail
///     digest, source       of the job that began it: its SHA-1, and the key that it named
///     kind                 list, set or zset
///     state                launching until the audience has its new name, then running
///     audience, created    the number of tokens, and milliseconds since 1970
///     over                 milliseconds over which the pushes are spread; 0 without a pace
///     stop_at, stop        the share of failures at which it stops, and their number among the last 1,000 outcomes; 0: never
///     begun, taken         the start of the pace in milliseconds, and the tokens that were claimed from the audience
///     left                 tokens that are in the audience, or in flight and elsewhere as a `CampaignToken`
///     sent, dead, expired, retried, cancelled, reason:R
///     window               the last 1,000 outcomes, 1 for a failure
///     changed, rate, rated, rateDone
///                          the time of the last outcome, and the pushes per second with the sample behind it
///     ended                milliseconds since 1970, when `left` became 0
public struct Campaign: Sendable, Equatable {
    public var id: String
    /// Up to the first quote of the token.
    public var head: [UInt8]
    /// From the last quote of the token on.
    public var tail: [UInt8]
    /// The failures among the last outcomes at which it stops; 0: never.
    public var stop: Int

    public init(id: String, head: [UInt8], tail: [UInt8], stop: Int) {
        (self.id, self.head, self.tail, self.stop) = (id, head, tail, stop)
    }

    /// The outcomes that a campaign remembers for `stop_at`.
    public static let window = 1000
    /// Failures that stop no campaign, unless `stop_at` itself admits fewer of 1,000: a few dead tokens of a short audience are
    /// no fault of its content.
    public static let fewestFailures = 20
    /// Campaigns that a daemon works on at the same time, the oldest first. The others wait.
    static let most = 1000
    /// The time for which the figures stay after the end.
    static let afterlife = Duration.seconds(86_400)
}

/// An element of the queue that stands for one token of a campaign: `campaign:ID`, a line break and the token.
///
/// A chunk of tokens has such elements. Every script moves them as it moves jobs: a dead worker's tokens go to the recovered
/// jobs, and released ones return to the list. The daemon makes the job of it, which is JSON and never begins like this.
public struct CampaignToken: Sendable, Equatable {
    public let element: [UInt8]
    /// The place of the first byte of the token.
    public let start: Int

    private static let mark = Array("campaign:".utf8)
    private static let border = UInt8(ascii: "\n")

    /// Whether the element may be one: no job begins like this.
    @inline(__always)
    public static func begins(_ element: [UInt8]) -> Bool { element.first == UInt8(ascii: "c") }

    /// `nil` for any other element.
    public init?(_ element: [UInt8]) {
        guard element.starts(with: CampaignToken.mark), let border = element.firstIndex(of: CampaignToken.border) else {
            return nil
        }
        (self.element, start) = (element, border + 1)
    }

    /// The beginning of the elements of a campaign.
    public static func prefix(of campaign: String) -> [UInt8] { mark + Array(campaign.utf8) + [border] }

    /// The id of the campaign.
    public var campaign: String { String(decoding: element[CampaignToken.mark.count..<start - 1], as: UTF8.self) }
    public var token: [UInt8] { Array(element[start...]) }
}

/// A claimed job with `tokens_from`, which begins a campaign.
public struct CampaignOrder: Sendable, Equatable {
    /// The name in the job; without it the campaign is named after the bytes of the job.
    public var name: String?
    /// The key with the tokens.
    public var source: String
    public var head: [UInt8]
    public var tail: [UInt8]
    /// The time over which the pushes are spread; `nil` without a pace.
    public var over: Duration?
    /// The share of failures among the last 1,000 outcomes at which it stops; 0: never.
    public var stopAt: Double

    public init(name: String?, source: String, head: [UInt8], tail: [UInt8], over: Duration?, stopAt: Double) {
        (self.name, self.source, self.head, self.tail) = (name, source, head, tail)
        (self.over, self.stopAt) = (over, stopAt)
    }
}

/// The answer of Redis to a `CampaignOrder`.
public enum CampaignStart: Sendable, Equatable {
    /// - tokens: `nil` if a former claim of the same job has begun it.
    case begun(id: String, tokens: Int?)
    case refused(Reason)

    public enum Reason: Sendable, Equatable {
        case missing
        /// The type that Redis names.
        case wrongType(String)
        case nameInUse(String)
        /// In a Redis Cluster: another node may have the key.
        case otherSlot
        /// The key belongs to gaplessd.
        case reserved
        case redis(ErrorReply)
    }
}

/// The change of the figures of one campaign by a batch of settlements.
public struct CampaignCounts: Sendable, Equatable {
    public var campaign: String
    public var sent = 0
    public var retried = 0
    public var expired = 0
    /// Dead letters by reason.
    public var dead: [String: Int] = [:]
    /// Outcomes that count for `stop_at`: final failures and suspect responses.
    public var failures = 0
    /// Tokens that are no longer in flight as a `CampaignToken`.
    public var left = 0

    init(of campaign: String) { self.campaign = campaign }

    /// APNs has accepted a `CampaignToken` at the first attempt: nearly all outcomes.
    mutating func sentOne() {
        sent += 1
        left += 1
    }

    mutating func add(_ outcome: CampaignOutcome) {
        switch outcome.kind {
        case .sent: sent += 1
        case .retried: retried += 1
        case .expired: expired += 1
        case .dead(let reason): dead[reason, default: 0] += 1
        case .returned, .suspected: break
        }
        switch outcome.kind {
        case .expired, .dead, .suspected: if outcome.isFailure { failures += 1 }
        case .sent, .retried, .returned: break
        }
        if outcome.isToken { left += 1 }
    }
}

/// What a settlement means for the campaign of its job.
public struct CampaignOutcome: Sendable, Equatable {
    public enum Kind: Sendable, Equatable {
        case sent, retried, expired
        case dead(reason: String)
        /// A suspect response, which counts as a failure before the job is settled.
        case suspected
        /// It waits again, as a job of its own.
        case returned
    }

    public var campaign: String
    public var kind: Kind
    /// Whether the claimed element was a `CampaignToken`.
    public var isToken: Bool
    /// Whether a final failure counts for `stop_at`.
    public var isFailure = true

    public init(campaign: String, kind: Kind, isToken: Bool) {
        (self.campaign, self.kind, self.isToken) = (campaign, kind, isToken)
    }
}
