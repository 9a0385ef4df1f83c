/// The reaction of the simulator to a valid request.
public indirect enum Answer: Sendable, Equatable {
    /// 200; the push is accepted.
    case accept
    /// Another status. A 410 without a timestamp (milliseconds since 1970) gets the simulator's start time. `retryAfter`, in
    /// seconds, becomes a header.
    case status(Int, String, timestamp: Int64? = nil, retryAfter: Int? = nil)
    /// No answer; not accepted. The stream stays open until the client resets it.
    case silent
    case delay(Duration, then: Answer)
    /// RST_STREAM with an HTTP/2 error code; not accepted.
    case resetStream(code: UInt32)
    /// The connection is reset without an answer. `recorded`: the push is accepted.
    case closeConnection(recorded: Bool)
    /// The connection is no longer read, written or closed, as after a pulled cable. `recorded`: the push is accepted.
    case halfOpen(recorded: Bool)
    /// GOAWAY, and optionally a second one: immediately, or `GoAway.followUp` after a graceful notice.
    case goAway(GoAway, then: GoAway? = nil)

    /// Returns the status with its most common reason in Apple's table.
    public static func usual(_ status: Int) -> Answer {
        status == 200 ? .accept : .status(status, Reason.usual(for: status))
    }

    /// Returns the reason with its status in Apple's table.
    public static func reason(_ reason: Reason) -> Answer { .status(reason.status, reason.rawValue) }
}

extension Answer {
    /// Reads `[DELAYms+]KIND`, KIND being `STATUS[:REASON]`, `accept`, `silent`, `rst[:CODE]`, `cut`, `cut-after`,
    /// `half-open`, `half-open-after` or `goaway[:KIND[:TEXT]]`.
    public init(_ text: some StringProtocol) throws(ScriptSyntaxError) {
        if let plus = text.firstIndex(of: "+") {
            let delay = try Duration(milliseconds: text[..<plus])
            self = .delay(delay, then: try Answer(text[text.index(after: plus)...]))
            return
        }
        let parts = String(text).split(separator: ":", maxSplits: 1).map(String.init)
        let detail = parts.count > 1 ? parts[1] : nil
        switch (parts.first ?? "", detail) {
        case ("accept", nil): self = .accept
        case ("silent", nil): self = .silent
        case ("cut", nil): self = .closeConnection(recorded: false)
        case ("cut-after", nil): self = .closeConnection(recorded: true)
        case ("half-open", nil): self = .halfOpen(recorded: false)
        case ("half-open-after", nil): self = .halfOpen(recorded: true)
        case ("goaway", let kind):
            let (first, second) = try GoAway.kind(kind ?? "below")
            self = .goAway(first, then: second)
        case ("rst", let code): self = .resetStream(code: try Answer.errorCode(code))
        case (let word, let reason):
            guard let status = Int(word), (200...599).contains(status), status != 200 || reason == nil else {
                throw ScriptSyntaxError(
                    "'\(text)' is not an answer; expected STATUS[:REASON], accept, silent, rst[:CODE], cut, cut-after, "
                        + "half-open, half-open-after or goaway[:KIND[:TEXT]], each after an optional delay such as 20ms+")
            }
            self = reason.map { .status(status, $0) } ?? .usual(status)
        }
    }

    /// Returns the code; INTERNAL_ERROR if there is none.
    private static func errorCode(_ text: String?) throws(ScriptSyntaxError) -> UInt32 {
        guard let text else { return 2 }
        guard let code = UInt32(text) else { throw ScriptSyntaxError("'\(text)' is not an HTTP/2 error code, such as 7") }
        return code
    }
}

extension Duration {
    /// Reads `20ms`, `1.5s` or a number of milliseconds, up to an hour.
    init(milliseconds text: some StringProtocol) throws(ScriptSyntaxError) {
        let (digits, scale): (String, Double) =
            if text.hasSuffix("ms") {
                (String(text.dropLast(2)), 1)
            } else if text.hasSuffix("s") {
                (String(text.dropLast()), 1000)
            } else {
                (String(text), 1)
            }
        guard let number = Double(digits), number >= 0, number * scale <= 3_600_000 else {
            throw ScriptSyntaxError("'\(text)' is not a time; expected 0 to an hour, such as 20ms or 1.5s")
        }
        self = .microseconds(Int64(number * scale * 1000))
    }
}

/// A GOAWAY frame.
public struct GoAway: Sendable, Equatable {
    /// The last stream id of the frame.
    public enum LastStream: Sendable, Equatable {
        /// The highest stream begun. All streams are answered.
        case all
        /// The stream before the answered one, or the highest accepted stream if that is higher: an accepted push is never
        /// reported as unprocessed.
        case belowThis
        /// 0: no stream was processed.
        case zero
        /// Halfway between the highest accepted stream and the answered one: some open streams are answered, others are not.
        case middle
        /// 2^31-1: the graceful notice (RFC 9113, 6.8). The connection accepts new streams until a second GOAWAY.
        case notice
    }

    /// The time from a graceful notice to the second GOAWAY. RFC 9113, 6.8, requires a round trip.
    public static let followUp = Duration.milliseconds(50)
    /// The observed GOAWAY of APNs, in plain text, for a client that opens too many streams.
    public static let tooManyStreams = GoAway(
        code: 7, debugData: "Maximum active streams violated for this endpoint.", last: .belowThis)

    /// An HTTP/2 error code; 0 is NO_ERROR.
    public var code: UInt32
    /// APNs sends JSON with a `reason`, plain text or no data.
    public var debugData: String
    public var last: LastStream
    /// Closes the connection after the frame. Otherwise, the streams up to `last` are answered first.
    public var isAbrupt: Bool

    public init(code: UInt32 = 0, debugData: String = "", last: LastStream = .all, isAbrupt: Bool = false) {
        self.code = code
        self.debugData = debugData
        self.last = last
        self.isAbrupt = isAbrupt
    }

    /// Returns a frame with a JSON reason, as APNs sends it.
    public static func reason(
        _ reason: Reason, code: UInt32 = 0, last: LastStream = .all, isAbrupt: Bool = false
    ) -> GoAway {
        GoAway(code: code, debugData: json(reason.rawValue), last: last, isAbrupt: isAbrupt)
    }

    private static func json(_ reason: String) -> String { "{\"reason\":\(reason.quotedJSON)}" }

    /// Reads `KIND[/CODE][:TEXT]`: `all`, `below`, `middle`, `zero`, `graceful`, `abrupt`, `twice` or `limit`. The code is an
    /// HTTP/2 error code, by default NO_ERROR. A text of one word becomes a JSON reason; other texts are sent unchanged.
    ///
    /// - Returns: the frame, and the one that follows it.
    public static func kind(_ text: String) throws(ScriptSyntaxError) -> (GoAway, GoAway?) {
        let parts = text.split(separator: ":", maxSplits: 1).map(String.init)
        let word = parts.count > 1 ? parts[1] : ""
        let data = word.isEmpty || word.contains(" ") ? word : json(word)
        let kind = (parts.first ?? "").split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        guard let code = kind.count > 1 ? UInt32(kind[1]) : 0 else {
            throw ScriptSyntaxError("'\(kind[1])' is not an HTTP/2 error code, such as 2")
        }
        switch kind.first {
        case "all": return (GoAway(code: code, debugData: data), nil)
        case "below": return (GoAway(code: code, debugData: data, last: .belowThis), nil)
        case "middle": return (GoAway(code: code, debugData: data, last: .middle), nil)
        case "zero": return (GoAway(code: code, debugData: data, last: .zero), nil)
        // The notice is always NO_ERROR (RFC 9113, 6.8).
        case "graceful": return (GoAway(debugData: data, last: .notice), GoAway(code: code, debugData: data))
        case "abrupt": return (GoAway(code: code, debugData: data, isAbrupt: true), nil)
        // As reported by pushy: two frames at once, the second with a lower last stream id.
        case "twice": return (GoAway(code: code, debugData: data), GoAway(code: code, debugData: data, last: .belowThis))
        case "limit" where parts.count == 1 && kind.count == 1: return (.tooManyStreams, nil)
        default:
            throw ScriptSyntaxError(
                "'\(text)' is not a GOAWAY; expected all, below, middle, zero, graceful, abrupt or twice, each with an "
                    + "optional /CODE and :TEXT, or limit")
        }
    }
}
