/// The counters of a simulator since its start.
public struct Totals: Sendable, Equatable {
    /// Complete requests, with any outcome.
    public var requests = 0
    public var accepted = 0
    /// Requests by answer: `200`, `410 Unregistered`, `silent`, `RST_STREAM 2`, `cut`, `GOAWAY`.
    public var answers: [String: Int] = [:]
    /// Connections with a completed TLS handshake.
    public var connections = 0
    public var openConnections = 0
    /// Connections that ended during the handshake.
    public var failedHandshakes = 0
    /// GOAWAY frames sent.
    public var goAways = 0
    /// Streams above the limit, reset with REFUSED_STREAM.
    public var refusedStreams = 0
    /// Streams begun above a limit that the client had acknowledged.
    public var limitViolations = 0
    /// Connections ended because of an HTTP/2 protocol error.
    public var violations = 0
    /// Connections reset by the connect limit.
    public var blockedConnections = 0
    /// PRIORITY frames, and HEADERS frames with priority. APNs ignores both.
    public var priorityFrames = 0
    /// Bytes of compressed header blocks.
    public var headerBytes = 0
    /// Distinct valid provider tokens by key id. Apple allows one per 20 minutes.
    public var providerTokens: [String: Int] = [:]
    /// Channel management requests. The other counters do not include them.
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
        "{" + counts.sorted { $0.key < $1.key }.map { "\($0.key.quotedJSON):\($0.value)" }.joined(separator: ",") + "}"
    }
}
