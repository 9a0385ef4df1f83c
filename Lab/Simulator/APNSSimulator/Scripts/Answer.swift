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
