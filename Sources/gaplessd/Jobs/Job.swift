internal import JSONBytes

/// One JSON element of the queue as the daemon understands it: ranges of its own bytes, nothing encoded anew.
///
/// Made by `JobReader` alone, which answers for every bound stated here.
struct Job: Sendable {
    /// Whom the push is for.
    enum Target: Sendable, Equatable {
        /// The hex digits between the quotes, 1 to 1000 of them.
        case token(Range<Int>)
        /// The same of a token that has escapes in the job (`"\u0061bc"` is `abc`), and the place of what it has there.
        ///
        /// Rare, and so behind a pointer: no other job is to be larger or slower for it.
        indirect case escapedToken(String, Range<Int>)
        /// 1 to 100,000 entries in the order of the job, each with its own judgement.
        case tokens([Token])
        /// A broadcast: base64, 1 to 1000 characters, at this place and without the escapes it may have there.
        ///
        /// Rare, and so behind a pointer: it would make every other job larger.
        indirect case channel(String, Range<Int>)
    }

    /// One entry of `tokens`.
    struct Token: Sendable, Equatable {
        /// The element as it stands in the array, quotes included.
        var value: Range<Int>
        /// Why it can't be pushed; it is dead-lettered alone. `nil` for a good one.
        var fault: TokenFault?

        /// What lies between the quotes: where there is no fault hex digits, escapes aside, and only then to be used.
        var digits: Range<Int> { value.lowerBound + 1..<value.upperBound - 1 }
    }

    /// What can be wrong with a device token before APNs sees it. The raw value continues a sentence.
    enum TokenFault: String, Sendable, Equatable, CustomStringConvertible {
        case notString = "is not a string"
        case empty = "is empty"
        case tooLong = "is longer than 1000 digits"
        case notHex = "is not hex"

        /// As in "token is not hex".
        var description: String { "token \(rawValue)" }
    }

    /// How long APNs keeps the push for a device that is away.
    enum Expiry: Sendable, Equatable {
        /// Seconds from the first send; 0 is one attempt and no storing.
        case after(Int64)
        /// Unix seconds.
        case at(Int64)
    }

    /// As it came.
    var bytes: [UInt8]
    var target: Target
    /// The payload: the producer's bytes of `data`, within the limit of the push type.
    var data: Range<Int>
    /// Raw JSON of the identifier: an integer, or a string with its quotes. `nil` where the job has none, which means 0.
    var identifier: Range<Int>?
    /// `_gapless_RETRYING`: resends so far, 0 to the retry limit.
    var attempts: Int
    var expiry: Expiry
    /// `_gapless_deadline`, Unix seconds: what the first send made of a relative expiry.
    var deadline: Int64?
    /// As the job says, or worked out from `data`: a header without control characters and without a space at either end, 1 to
    /// 1024 bytes.
    var pushType: String
    /// 1, 5 or 10; as the job says, or 5 for `background` and else 10.
    var priority: Int
    private var rare: Rare?

    /// What few jobs have, in one object: so a job is moved and let go without a look at each of them.
    final class Rare: Sendable {
        let app: String?
        let topic: String?
        let collapseID: String?
        let apnsID: String?
        let notBefore: Double?
        let doubtful: Int
        let frame: Frame?

        init(
            app: String?, topic: String?, collapseID: String?, apnsID: String?, notBefore: Double?, doubtful: Int, frame: Frame?
        ) {
            self.app = app
            self.topic = topic
            self.collapseID = collapseID
            self.apnsID = apnsID
            self.notBefore = notBefore
            self.doubtful = doubtful
            self.frame = frame
        }
    }

    /// One of the names that the reader was given.
    var app: String? { rare?.app }
    /// A header as `pushType`.
    var topic: String? { rare?.topic }
    /// 1 to 64 bytes, a header as `pushType`.
    var collapseID: String? { rare?.collapseID }
    /// A UUID in lower case.
    var apnsID: String? { rare?.apnsID }
    /// Unix seconds, at most 2^53 milliseconds either way.
    var notBefore: Double? { rare?.notBefore }
    /// `_gapless_doubtful`: uncounted resends so far of a request that APNs may have had, 0 to `maxDoubtfulResends`.
    var doubtful: Int { rare?.doubtful ?? 0 }
    /// What surrounds the member `tokens`; only with `Target.tokens`.
    var frame: Frame? { rare?.frame }

    /// The job without its member `tokens`, in two halves: one token put between them is the job in its single-token form.
    /// Kept, since a job of 100,000 tokens is not to be searched again for each of them.
    struct Frame: Sendable {
        var head: [UInt8]
        var tail: [UInt8]
    }

    /// The largest value of `_gapless_doubtful`: a request that APNs may have had is resent uncounted this many times.
    static let maxDoubtfulResends = 10
    /// Seconds that APNs keeps a push whose job does not say.
    static let defaultExpiry: Int64 = 7200
    /// The same of a broadcast: a channel that stores nothing admits no other, and any channel admits this.
    static let defaultBroadcastExpiry: Int64 = 0

    init(
        bytes: [UInt8], target: Target, data: Range<Int>, identifier: Range<Int>?, attempts: Int, expiry: Expiry,
        deadline: Int64?,
        pushType: String, priority: Int, rare: Rare?
    ) {
        self.bytes = bytes
        self.target = target
        self.data = data
        self.identifier = identifier
        self.attempts = attempts
        self.expiry = expiry
        self.deadline = deadline
        self.pushType = pushType
        self.priority = priority
        self.rare = rare
    }
}

extension Job {
    /// Raw JSON of the identifier, for records: `0` where the job has none.
    var identifierJSON: [UInt8] {
        identifier.map { Array(bytes[$0]) } ?? [UInt8(ascii: "0")]
    }

    /// Every device token of the job, good or bad, in order; of a broadcast the channel stands for one.
    var tokens: [Token] {
        switch target {
        case .token(let content), .escapedToken(_, let content), .channel(_, let content):
            [Token(value: content.lowerBound - 1..<content.upperBound + 1)]
        case .tokens(let tokens): tokens
        }
    }

    /// The text of a token, for records and lines; what a bad one holds may be anything.
    func text(of token: Token) -> String {
        switch target {
        case .token(let digits): String(decoding: bytes[digits], as: UTF8.self)
        case .escapedToken(let text, _), .channel(let text, _): text
        case .tokens: textInBytes(of: token)
        }
    }

    private func textInBytes(of token: Token) -> String {
        if token.fault == .notString { return String(decoding: bytes[token.value], as: UTF8.self) }
        let hasEscapes = bytes[token.digits].contains(UInt8(ascii: "\\"))
        return JSONSlice(range: token.value, kind: .string, hasEscapes: hasEscapes).text(in: bytes.span)
    }

    /// What goes out instead of the job's own bytes where those are not what APNs is to get: a payload in which the filter has masked
    /// words, or a token that has escapes in the job. `nil` where they are.
    func rewritten(maskedPayload: [UInt8]?) -> (bytes: [UInt8], token: Range<Int>, payload: Range<Int>)? {
        let token: [UInt8]
        switch target {
        case .escapedToken(let digits, _): token = Array(digits.utf8)
        case .token(let content), .channel(_, let content):
            if maskedPayload == nil { return nil }
            token = Array(bytes[content])
        case .tokens: return nil
        }
        let all = token + (maskedPayload ?? Array(bytes[data]))
        return (all, 0..<token.count, token.count..<all.count)
    }

    /// What to tell an operator of a `not_before` in milliseconds: as seconds it is thousands of years away, and the job would wait
    /// without a word. 10^11 seconds are the year 5138, as many milliseconds March 1973.
    var notBeforeHint: String? {
        guard let notBefore, notBefore >= 1e11 else { return nil }
        return "not_before counts seconds; this one is beyond the year 5000, as milliseconds are"
    }

    /// `apns-expiration` in Unix seconds, of a send at `now`; 0 is one attempt and no storing. What a job once got it keeps.
    func expiration(now: Int64) -> Int64 {
        switch expiry {
        case .at(let time): return time
        case .after(0): return 0
        case .after(let seconds):
            let (sum, isTooLarge) = now.addingReportingOverflow(seconds)
            return deadline ?? (isTooLarge ? .max : sum)
        }
    }

    /// What `markedForRetry` is to be given, so that a resend keeps the first deadline; `nil` where the job says it already, or
    /// where there is none to keep.
    func deadlineToMark(now: Int64) -> Int64? {
        if case .after(let seconds) = expiry, seconds > 0 { expiration(now: now) } else { nil }
    }

    /// Whether it is too late to send: past `expires_at` or past the deadline of the first send. An expiry of 0 has none.
    func isExpired(now: Int64) -> Bool {
        if case .at(let time) = expiry, now > time { return true }
        return deadline.map { now > $0 } ?? false
    }
}
