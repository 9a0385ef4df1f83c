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
