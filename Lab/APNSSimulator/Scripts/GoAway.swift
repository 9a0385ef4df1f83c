/// One GOAWAY frame.
public struct GoAway: Sendable, Equatable {
    /// Which streams the client may still hope for.
    public enum LastStream: Sendable, Equatable {
        /// Every stream begun so far: all of them are answered.
        case all
        /// Only streams below the one this answers, or up to the highest one accepted, should that be higher: what was
        /// accepted is never called unprocessed.
        case belowThis
        /// None: the id is 0.
        case zero
        /// Halfway between the highest stream that was accepted and the highest that was begun: of those that are still open
        /// some are answered and some are left out.
        case middle
        /// 2^31-1: the graceful notice (RFC 9113, 6.8). The connection stays open, also for new streams, until a
        /// second GOAWAY.
        case notice
    }

    /// Between a graceful notice and the GOAWAY that follows it: RFC 9113, 6.8, asks for a round trip.
    public static let followUp = Duration.milliseconds(50)
    /// What APNs has been seen to say, in plain text, to a client that opens too many streams.
    public static let tooManyStreams = GoAway(
        code: 7, debugData: "Maximum active streams violated for this endpoint.", last: .belowThis)

    /// An HTTP/2 error code; 0 is NO_ERROR.
    public var code: UInt32
    /// APNs sends JSON with a `reason`, sometimes plain text, sometimes nothing.
    public var debugData: String
    public var last: LastStream
    /// The connection ends behind the frame, whatever is unanswered; else the streams up to the last are answered first.
    public var isAbrupt: Bool

    public init(code: UInt32 = 0, debugData: String = "", last: LastStream = .all, isAbrupt: Bool = false) {
        self.code = code
        self.debugData = debugData
        self.last = last
        self.isAbrupt = isAbrupt
    }

    /// As APNs words it.
    public static func reason(
        _ reason: Reason, code: UInt32 = 0, last: LastStream = .all, isAbrupt: Bool = false
    ) -> GoAway {
        GoAway(code: code, debugData: json(reason.rawValue), last: last, isAbrupt: isAbrupt)
    }

    private static func json(_ reason: String) -> String { "{\"reason\":\(Totals.quoted(reason))}" }

    /// Reads `KIND[/CODE][:TEXT]`: `all`, `below`, `middle`, `zero`, `graceful`, `abrupt`, `twice` or `limit`. The code is that of
    /// HTTP/2, NO_ERROR unless told; a text of one word goes out as a JSON reason, any other as it stands.
    ///
    /// - Returns: the frame, and the one that follows it.
    public static func kind(_ text: String) throws(ScriptSyntaxError) -> (GoAway, GoAway?) {
        let parts = text.split(separator: ":", maxSplits: 1).map(String.init)
        let word = parts.count > 1 ? parts[1] : ""
        let data = word.isEmpty || word.contains(" ") ? word : json(word)
        let kind = (parts.first ?? "").split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        guard let code = kind.count > 1 ? UInt32(kind[1]) : 0 else {
            throw ScriptSyntaxError("'\(kind[1])' is no HTTP/2 error code, such as 2")
        }
        switch kind.first {
        case "all": return (GoAway(code: code, debugData: data), nil)
        case "below": return (GoAway(code: code, debugData: data, last: .belowThis), nil)
        case "middle": return (GoAway(code: code, debugData: data, last: .middle), nil)
        case "zero": return (GoAway(code: code, debugData: data, last: .zero), nil)
        // The notice is always NO_ERROR (RFC 9113, 6.8).
        case "graceful": return (GoAway(debugData: data, last: .notice), GoAway(code: code, debugData: data))
        case "abrupt": return (GoAway(code: code, debugData: data, isAbrupt: true), nil)
        // As pushy once met them: two at once, the second with less to hope for.
        case "twice": return (GoAway(code: code, debugData: data), GoAway(code: code, debugData: data, last: .belowThis))
        case "limit" where parts.count == 1 && kind.count == 1: return (.tooManyStreams, nil)
        default:
            throw ScriptSyntaxError(
                "'\(text)' is no GOAWAY: all, below, middle, zero, graceful, abrupt or twice, each with an optional /CODE and "
                    + ":TEXT, or limit")
        }
    }
}
