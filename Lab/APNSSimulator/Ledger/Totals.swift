/// The counters of one simulator since its start.
public struct Totals: Sendable, Equatable {
    /// Every request that came in whole, whatever became of it.
    public var requests = 0
    public var accepted = 0
    /// Requests by what they got: `200`, `410 Unregistered`, `silent`, `RST_STREAM 2`, `cut`, `GOAWAY`.
    public var answers: [String: Int] = [:]
    /// Connections whose TLS handshake was completed.
    public var connections = 0
    public var openConnections = 0
    /// Connections that ended before their handshake had.
    public var failedHandshakes = 0
    /// GOAWAY frames sent.
    public var goAways = 0
    /// Streams above the limit, reset with REFUSED_STREAM.
    public var refusedStreams = 0
    /// Streams begun beyond a limit that the client had acknowledged: its own fault, not that of bytes that crossed.
    public var limitViolations = 0
    /// Connections ended for breaking HTTP/2's rules.
    public var violations = 0
    /// Connections reset by the connect limit.
    public var blockedConnections = 0
    /// PRIORITY frames, and HEADERS with priority in them. APNs ignores both; who sends them wastes bytes.
    public var priorityFrames = 0
    /// Bytes of header blocks as they came, compressed: by `requests` they are the price of a request.
    public var headerBytes = 0
    /// Good provider tokens, no two the same, by key id. More than one in 20 minutes is one too many.
    public var providerTokens: [String: Int] = [:]
    /// Requests about channels, which are no pushes and stand in no other number.
    public var channelRequests = 0

    public init() {}

    mutating func add(_ more: Totals) {
        requests += more.requests
        accepted += more.accepted
        answers.merge(more.answers, uniquingKeysWith: +)
        connections += more.connections
        openConnections += more.openConnections
        failedHandshakes += more.failedHandshakes
        goAways += more.goAways
        refusedStreams += more.refusedStreams
        limitViolations += more.limitViolations
        violations += more.violations
        blockedConnections += more.blockedConnections
        priorityFrames += more.priorityFrames
        headerBytes += more.headerBytes
        providerTokens.merge(more.providerTokens, uniquingKeysWith: +)
        channelRequests += more.channelRequests
    }

    /// One line of JSON, without a line break.
    public var json: String {
        var all = answers
        if accepted > 0 { all["200"] = accepted }
        return """
            {"requests":\(requests),"accepted":\(accepted),"answers":\(Totals.object(all)),"connections":\(connections),\
            "open_connections":\(openConnections),"failed_handshakes":\(failedHandshakes),"goaways":\(goAways),\
            "refused_streams":\(refusedStreams),"limit_violations":\(limitViolations),"violations":\(violations),\
            "blocked_connections":\(blockedConnections),"priority_frames":\(priorityFrames),"header_bytes":\(headerBytes),\
            "provider_tokens":\(Totals.object(providerTokens)),"channel_requests":\(channelRequests)}
            """
    }

    private static func object(_ counts: [String: Int]) -> String {
        "{" + counts.sorted { $0.key < $1.key }.map { "\(quoted($0.key)):\($0.value)" }.joined(separator: ",") + "}"
    }

    /// A JSON string; control characters, which only a script's own reasons could hold, become spaces.
    static func quoted(_ text: String) -> String {
        var result = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"", "\\": result += "\\\(scalar)"
            case _ where scalar.value < 0x20: result += " "
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result + "\""
    }
}
