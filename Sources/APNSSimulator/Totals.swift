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
    /// Connections ended for breaking HTTP/2's rules.
    public var violations = 0

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
        violations += more.violations
    }

    /// One line of JSON, without a line break.
    public var json: String {
        var all = answers
        if accepted > 0 { all["200"] = accepted }
        let list = all.sorted { $0.key < $1.key }.map { "\(Totals.quoted($0.key)):\($0.value)" }.joined(separator: ",")
        return """
            {"requests":\(requests),"accepted":\(accepted),"answers":{\(list)},"connections":\(connections),\
            "open_connections":\(openConnections),"failed_handshakes":\(failedHandshakes),"goaways":\(goAways),\
            "refused_streams":\(refusedStreams),"violations":\(violations)}
            """
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
