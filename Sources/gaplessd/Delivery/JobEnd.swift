import PushPool

/// The end of a job, as its records show it.
struct JobEnd: Equatable {
    /// APNs' HTTP status; `nil` without a response.
    var status: Int?
    var reason: String
    var apnsID: String?
    /// With 410: milliseconds since 1970.
    var timestamp: Int64?

    init(status: Int? = nil, reason: String, apnsID: String? = nil, timestamp: Int64? = nil) {
        self.status = status
        self.reason = reason
        self.apnsID = apnsID
        self.timestamp = timestamp
    }

    init(_ outcome: Outcome) {
        switch outcome {
        case .delivered(let apnsID): self.init(status: 200, reason: "", apnsID: apnsID)
        case .rejected(let rejection):
            self.init(
                status: rejection.status, reason: rejection.reason, apnsID: rejection.apnsID,
                timestamp: rejection.timestamp)
        case .timedOut: self.init(reason: "Timeout")
        case .notProcessed(let fault), .maybeProcessed(let fault): self.init(reason: fault.logText)
        case .outdated, .begun: self.init(reason: outcome.logText)
        }
    }
}
