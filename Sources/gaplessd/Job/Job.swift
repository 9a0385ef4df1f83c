internal import JSONBytes
import Platform
import PushPool
import RedisQueue

/// One JSON element of the queue as ranges of its own bytes: nothing is copied or encoded again.
///
/// Only `JobReader` creates jobs; it checks every bound stated here.
struct Job: Sendable {
    /// The receiver of the push.
    enum Target: Sendable, Equatable {
        /// The hex digits between the quotes, 1 to 1000 of them.
        case token(Range<Int>)
        /// A token that has escapes in the job (`"\u0061bc"` is `abc`), blanks or brackets: its digits, and the range between its
        /// quotes. It is behind a pointer, as other rare targets: most jobs stay small and fast.
        indirect case escapedToken(String, Range<Int>)
        /// 1 to 100,000 entries in the order of the job, each validated separately.
        case tokens([Token])
        /// A broadcast: base64 of 1 to 1000 characters without escapes, and the range between the quotes.
        indirect case channel(String, Range<Int>)
        /// A broadcast to the channel of this name, whose id is not known yet: the name, and the range between the quotes.
        indirect case channelName(String, Range<Int>)
        /// The tokens are in a key of Redis: the job begins a campaign.
        indirect case audience(Audience)
        /// A token of a campaign, which is not in the bytes: all tokens of the campaign share these.
        case member(Member)
    }

    /// A token of a campaign.
    struct Member: Sendable, Equatable {
        /// The claimed element, which ends with the token.
        let element: [UInt8]
        /// Where the digits begin in the element, and the two digits in their place in the bytes of the job. As small as a range:
        /// each job has the size of the largest target.
        private let start, place: UInt32

        init(_ element: [UInt8], from start: Int, insteadOf place: Int) {
            self.element = element
            (self.start, self.place) = (UInt32(start), UInt32(place))
        }

        /// The token in the element.
        var digits: Range<Int> { Int(start)..<element.count }
        var token: ArraySlice<UInt8> { element[Int(start)...] }
        /// The digits in its place in the bytes of the job.
        var range: Range<Int> { Int(place)..<Int(place) + 2 }
    }

    /// The members of a job with `tokens_from` that concern only its campaign.
    struct Audience: Sendable, Equatable {
        var key: String
        /// Seconds; `nil` without a pace.
        var over: Double?
        /// The share of final failures at which the campaign stops, from 0 to 1; 0 is never.
        var stopAt = 0.05
    }

    /// One entry of `tokens`.
    struct Token: Sendable, Equatable {
        /// The element of the array, with its quotes.
        var value: Range<Int>
        /// The reason why this token is dead-lettered alone; `nil` for a valid token.
        var fault: TokenFault?

        /// The range between the quotes. Without a fault it contains hex digits, possibly escaped and among blanks; do not use it
        /// otherwise.
        var digits: Range<Int> { value.lowerBound + 1..<value.upperBound - 1 }
    }

    /// A fault of a device token that is found before the push. The raw value continues a sentence.
    enum TokenFault: String, Sendable, Equatable, CustomStringConvertible {
        case notString = "is not a string"
        case empty = "is empty"
        case tooLong = "is longer than 1000 digits"
        case notHex = "is not hex"

        /// As in "token is not hex".
        var description: String { "token \(rawValue)" }
    }

    /// The time for which APNs stores the push for a device that is offline.
    enum Expiry: Sendable, Equatable {
        /// Seconds from the first send; 0 means one attempt and no storing.
        case after(Int64)
        /// Unix seconds.
        case at(Int64)
    }

    /// The element of the queue, unchanged.
    var bytes: [UInt8]
    var target: Target
    /// The payload: the producer's bytes of `data`, within the limit of the push type.
    var data: Range<Int>
    /// The JSON of the identifier: an integer, or a string with its quotes. `nil` means 0.
    var identifier: Range<Int>?
    /// `_gapless_RETRYING`: resends so far, 0 to the retry limit.
    var attempts: Int
    var expiry: Expiry
    /// `_gapless_deadline`, Unix seconds: the end of a relative expiry, counted from the first send.
    var deadline: Int64?
    /// From the job, or derived from `data`: a header value of 1 to 1024 bytes without control characters and without a space at
    /// either end.
    var pushType: String
    /// 1, 5 or 10: from the job, or 5 for `background` and 10 otherwise.
    var priority: Int
    fileprivate(set) var rare: Rare?

    /// Rare members behind a pointer: moving and freeing a job does not touch each of them.
    final class Rare: Sendable {
        struct Members: Sendable, Equatable {
            /// One of the names of the settings.
            var app: String?
            /// A header value with the bounds of `pushType`, and with the suffix of the push type.
            var topic: String?
            var topicSuffix: String?
            /// A header value of 1 to 64 bytes.
            var collapseID: String?
            /// A UUID in lower case: `apns_id`, otherwise `_gapless_apns_id`.
            var apnsID: String?
            /// At most 128 bytes, returned in records.
            var trace: String?
            /// The name of its campaign, 1 to 64 bytes without control characters: a label for calls and records.
            var campaign: String?
            /// Whether the daemon has named the campaign: a retry then carries the name as a mark.
            var marksCampaign = false
            /// Unix seconds, at most 2^53 milliseconds from 1970.
            var notBefore: Double?
            /// `_gapless_doubtful`: uncounted resends so far of a request that APNs may have had, 0 to `maxDoubtfulResends`.
            var doubtful = 0
            /// 1 to 64 bytes.
            var replaces: String?
            /// `_gapless_rank`: the position in the flow of claims that the job had before it left its chunk.
            var rank: UInt64?
            /// Of a job with `replaces` or a broadcast.
            var event = Scope.Event.update
            /// 1 to `ChannelName.longest` bytes.
            var channelName: String?
            /// `_gapless_channel`: the channel of the name when the job went into its slot. Only with `channelName`.
            var channelMark: String?
            /// Whether the job gives no expiry. Only with `channelName`.
            var hasDefaultExpiry = false
            /// Whether the payload looks like a background push and is none: see `PayloadMistakes`.
            var hasMistake = false
            /// The bytes around the member `tokens` or `tokens_from`; only with `Target.tokens` and `Target.audience`.
            var frame: Frame?
        }

        let members: Members
        init(_ members: Members) { self.members = members }
    }

    var app: String? { rare?.members.app }
    var topic: String? { rare?.members.topic }
    /// Whether the request has the topic of the app, unchanged.
    var usesTopicOfApp: Bool { rare?.members.topic == nil && rare?.members.topicSuffix == nil }
    var collapseID: String? { rare?.members.collapseID }
    var apnsID: String? { rare?.members.apnsID }
    var trace: String? { rare?.members.trace }
    var campaign: String? { rare?.members.campaign }
    /// The name of the campaign, if a retry carries it as a mark.
    var campaignMark: String? { rare?.members.marksCampaign == true ? campaign : nil }
    /// Whether it is a token of a campaign.
    var isMember: Bool { if case .member = target { true } else { false } }

    /// Returns the job for a token of its campaign, with one copy of each member: to change the target of an optional job copies
    /// the whole job twice.
    func with(_ member: Member) -> Job {
        Job(
            bytes: bytes, target: .member(member), data: data, identifier: identifier, attempts: attempts, expiry: expiry,
            deadline: deadline, pushType: pushType, priority: priority, rare: rare)
    }

    /// The job belongs to a campaign that the daemon has named.
    mutating func join(_ campaign: String) {
        var members = rare?.members ?? Rare.Members()
        (members.campaign, members.marksCampaign) = (campaign, true)
        rare = Rare(members)
    }

    /// The job as an element of the queue: of a token of a campaign, the single-token form.
    var element: [UInt8] {
        guard case .member(let member) = target else { return bytes }
        var element: [UInt8] = []
        element.reserveCapacity(bytes.count + member.token.count)
        element += bytes[..<member.range.lowerBound]
        element += member.token
        return element + bytes[member.range.upperBound...]
    }
    var notBefore: Double? { rare?.members.notBefore }
    var channelName: String? { rare?.members.channelName }
    var channelMark: String? { rare?.members.channelMark }
    /// Whether it ends the Live Activity of its channel.
    var endsChannel: Bool {
        guard let rare, case .end = rare.members.event else { return false }
        return namesChannel
    }
    var hasMistake: Bool { rare?.members.hasMistake ?? false }
    var doubtful: Int { rare?.members.doubtful ?? 0 }
    var replaces: String? { rare?.members.replaces }
    /// Whether it has a scope. The tokens of a campaign have none.
    var hasReplaces: Bool {
        guard let rare, rare.members.replaces != nil else { return false }
        switch target {
        case .token, .escapedToken, .tokens, .channel, .channelName: return true
        case .audience, .member: return false
        }
    }
    var rank: UInt64? { rare?.members.rank }
    var event: Scope.Event { rare?.members.event ?? .update }
    var frame: Frame? { rare?.members.frame }

    /// The job without its member `tokens`, in two halves: a `token` between them makes the single-token form of the job. Stored,
    /// because searching a job of 100,000 tokens for each token would take too long.
    struct Frame: Sendable, Equatable {
        var head: [UInt8]
        var tail: [UInt8]
    }

    /// The largest value of `_gapless_doubtful`: a request that APNs may have had is resent uncounted this many times.
    static let maxDoubtfulResends = RetryPolicy.uncountedResends
    /// Seconds for which APNs stores a push without `expiry`.
    static let defaultExpiry: Int64 = 7200
    /// The default of a broadcast, `voip` and `pushtotalk`. Every channel accepts 0, and a channel that stores nothing accepts
    /// nothing else. A call must not ring late.
    static let defaultExpiryOnce: Int64 = 0
}

extension Job {
    /// Bytes of an identifier in records and log lines. A longer one is cut, so that it cannot double the size of a dead letter.
    static let maxIdentifierBytes = 1000

    /// The JSON of the identifier, for records and log lines: `0` for a job without one.
    var identifierJSON: [UInt8] { Self.identifierJSON(identifier, of: bytes) }

    /// The identifier as the log shows it: the number, or the string with its quotes.
    var identifierInLog: String { String(decoding: identifierJSON, as: UTF8.self) }

    /// Returns the JSON of the identifier at `range`, cut to `maxIdentifierBytes` with `…` at its end.
    static func identifierJSON(_ range: Range<Int>?, of bytes: [UInt8]) -> [UInt8] {
        guard let range else { return [UInt8(ascii: "0")] }
        if range.count <= maxIdentifierBytes { return Array(bytes[range]) }
        let text = JSONSlice(range: range, kind: .string, hasEscapes: true).text(in: bytes.span)
        if text.utf8.count <= maxIdentifierBytes { return Array(bytes[range]) }
        var room = maxIdentifierBytes
        let kept = text.unicodeScalars.prefix { scalar in
            room -= UTF8.width(scalar)
            return room >= 0
        }
        var json: [UInt8] = []
        json.appendJSONString(String(kept) + "…")
        return json
    }

    /// Characters of a token or channel, and of a name, that stand in the fields of Redis. Longer ones are hashed.
    private static let longestLane = 100

    /// Returns the scope of the job, which is a single-token job or a broadcast.
    ///
    /// - Parameters:
    ///   - app: its name; `nil` for the top level.
    ///   - rank: of its claim. A rank in the job takes precedence.
    func scope(app: String?, rank: UInt64) -> Scope {
        let app = app ?? ""
        let target =
            switch (channelName, channelMark) {
            case (.some, let id?): "c:\(app):\(id)"
            // Until the channel is found: nothing is sent from there.
            case (let name?, nil): "n:\(app):\(name)"
            case (nil, _): namesChannel ? "c:\(app):\(text(of: tokens[0]))" : "t:\(app):\(text(of: tokens[0]).lowercased())"
            }
        let isPlain = target.utf8.count <= Self.longestLane && !target.utf8.contains { $0 <= UInt8(ascii: " ") }
        let lane = isPlain ? target : "\(target.prefix(1))#\(SHA1.hexadecimal(of: target))"
        let name = replaces.map { name in
            name.utf8.allSatisfy { $0 > UInt8(ascii: " ") } ? name : "#\(SHA1.hexadecimal(of: name))"
        }
        return Scope(app: app, lane: lane, name: name, rank: self.rank ?? rank, event: event)
    }

    /// Whether it is a broadcast.
    var namesChannel: Bool {
        switch target {
        case .channel, .channelName: true
        case .token, .escapedToken, .tokens, .audience, .member: false
        }
    }

    /// Gives a job with `channel_name` the id of its channel, and an expiration that the channel admits: 0 if it stores
    /// nothing, and at most 8 hours if it stores the latest message.
    ///
    /// - Parameter now: Unix seconds.
    mutating func found(channel id: String, _ storage: ChannelCall.Storage, now: Int64) {
        guard case .channelName(_, let content) = target else { return }
        target = .channel(id, content)
        let longest = ChannelCall.longestStorage
        switch (storage, expiry) {
        case (.none, _): expiry = .after(0)
        case (.latest, .at(let time)): expiry = .at(min(time, now + longest))
        case (.latest, .after(let seconds)):
            expiry = .after(rare?.members.hasDefaultExpiry == true ? longest : min(seconds, longest))
        }
    }

    /// The job belongs into the slot of this channel.
    mutating func enters(channel id: String) {
        var members = rare?.members ?? Rare.Members()
        members.channelMark = id
        rare = Rare(members)
    }

    /// Returns the topic of the request: the job's own, or that of its app with the suffix of the job's push type.
    func topic(ofApp topic: String?) -> String? {
        guard let rare else { return topic }
        if let own = rare.members.topic { return own }
        guard let suffix = rare.members.topicSuffix, let topic else { return topic }
        return PushTopic(topic).bundleID + suffix
    }

    /// All device tokens of the job in order, valid or not; a broadcast has its channel instead, and an audience none.
    var tokens: [Token] {
        switch target {
        case .token(let content), .escapedToken(_, let content), .channel(_, let content), .channelName(_, let content):
            [Token(value: content.lowerBound - 1..<content.upperBound + 1)]
        case .member(let member): [Token(value: member.range.lowerBound - 1..<member.range.upperBound + 1)]
        case .tokens(let tokens): tokens
        case .audience: []
        }
    }

    /// The text of a token, for records and log lines. An invalid token may contain anything.
    func text(of token: Token) -> String {
        switch target {
        case .token(let digits): String(decoding: bytes[digits], as: UTF8.self)
        case .escapedToken(let text, _), .channel(let text, _), .channelName(let text, _): text
        case .member(let member): String(decoding: member.token, as: UTF8.self)
        case .tokens, .audience: textInBytes(of: token)
        }
    }

    private func textInBytes(of token: Token) -> String {
        if token.fault == .notString { return String(decoding: bytes[token.value], as: UTF8.self) }
        let hasEscapes = bytes[token.digits].contains(UInt8(ascii: "\\"))
        let text = JSONSlice(range: token.value, kind: .string, hasEscapes: hasEscapes).text(in: bytes.span)
        return token.fault == nil ? Self.bareToken(text) : text
    }

    /// Returns a token without the blanks and the brackets that old descriptions of a token have.
    static func bareToken(_ text: String) -> String {
        if !text.utf8.contains(where: isIgnoredInToken) { return text }
        return String(decoding: text.utf8.filter { !isIgnoredInToken($0) }, as: UTF8.self)
    }

    /// Whether the character is a blank, a tab, a line break, `<` or `>`.
    static func isIgnoredInToken(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: " "), UInt8(ascii: "\t"), UInt8(ascii: "\n"), UInt8(ascii: "\r"), UInt8(ascii: "<"), UInt8(ascii: ">"):
            true
        default: false
        }
    }

    /// Returns the bytes to send if the job's own bytes cannot be sent: the filter masked words of the payload, or the token has
    /// escapes. Returns `nil` if the job's own bytes can be sent.
    func rewritten(maskedPayload: [UInt8]?) -> (bytes: [UInt8], token: Range<Int>, payload: Range<Int>)? {
        let token: [UInt8]
        switch target {
        case .escapedToken(let digits, _): token = Array(digits.utf8)
        case .token(let content), .channel(_, let content), .channelName(_, let content):
            if maskedPayload == nil { return nil }
            token = Array(bytes[content])
        case .member(let member):
            if maskedPayload == nil { return nil }
            token = Array(member.token)
        case .tokens, .audience: return nil
        }
        let all = token + (maskedPayload ?? Array(bytes[data]))
        return (all, 0..<token.count, token.count..<all.count)
    }

    /// A warning about a `not_before` in milliseconds, which would delay the job by thousands of years. 10^11 seconds are the
    /// year 5138; 10^11 milliseconds are March 1973.
    var notBeforeHint: String? {
        guard let notBefore, notBefore >= 1e11 else { return nil }
        return "not_before is in seconds, and this value is after the year 5000; is it in milliseconds?"
    }

    /// Whether it has a hint of its own besides that of `not_before`: see `JobWarnings`.
    var isUnusual: Bool { hasMistake || expiryHint != nil }

    /// A warning about an `expires_at` in milliseconds, or an `expiry` that is a date: 10^9 seconds are 31 years, or the year
    /// 2001. A resend has none: the first send has warned.
    var expiryHint: (key: JobKey, text: String)? {
        switch expiry {
        case _ where attempts > 0: nil
        case .at(let time) where time >= 100_000_000_000:
            (.expiresAt, "expires_at is in seconds, and this value is after the year 5000; is it in milliseconds?")
        case .after(let seconds) where seconds >= 1_000_000_000:
            (.expiry, "expiry counts seconds from the first send, and this value is more than 31 years; is it a date?")
        default: nil
        }
    }

    /// `apns-expiration` of a send at `now`, in Unix seconds; 0 means one attempt and no storing. A resend keeps the first value.
    func expiration(now: Int64) -> Int64 {
        switch expiry {
        case .at(let time): return time
        case .after(0): return 0
        case .after(let seconds):
            let (sum, isTooLarge) = now.addingReportingOverflow(seconds)
            return deadline ?? (isTooLarge ? .max : sum)
        }
    }

    /// Whether `expires_at` or the deadline of the first send has passed. An expiry of 0 has no deadline.
    func isExpired(now: Int64) -> Bool {
        if case .at(let time) = expiry, now > time { return true }
        return deadline.map { now > $0 } ?? false
    }
}

/// The reason why an element of the queue cannot be pushed. The element becomes a dead letter, byte for byte as received.
struct JobError: Error, Sendable, Equatable, CustomStringConvertible {
    enum Kind: Sendable {
        /// The element is not a JSON object.
        case unmarshal
        /// The element is a JSON object, but not a job.
        case structure
    }

    var kind: Kind
    /// A clause without the offset: "expected ','", "token is missing".
    var problem: String
    /// Bytes from the start of the element; `nil` for a problem that has no place.
    var offset: Int?
    /// The likely cause; `nil` if there is no typical one.
    var hint: String?

    static func unmarshal(_ problem: String, at offset: Int? = nil, hint: String? = nil) -> Self {
        JobError(kind: .unmarshal, problem: problem, offset: offset, hint: hint)
    }

    static func structure(_ problem: String, at offset: Int? = nil, hint: String? = nil) -> Self {
        JobError(kind: .structure, problem: problem, offset: offset, hint: hint)
    }

    /// "expected ',' at byte 17", "token is missing", "expected a key at byte 17 (a comma before '}')".
    var description: String { withHint(offset.map { "\(problem) at byte \($0)" } ?? problem) }

    /// The description without the offset.
    var withoutPlace: String { withHint(problem) }

    private func withHint(_ text: String) -> String { hint.map { "\(text) (\($0))" } ?? text }

    /// The reason of the dead letter.
    var reason: String {
        switch kind {
        case .unmarshal: "Json unmarshal error: \(description)"
        case .structure: "Parsing apns structure error: \(description)"
        }
    }
}
