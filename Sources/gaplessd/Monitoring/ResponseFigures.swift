import Platform
import PushPool

/// The responses of APNs to one app since the start of this process, by kind, and their latencies.
struct ResponseFigures: Sendable, Equatable {
    private(set) var accepted = 0
    private var others: [ResponseKind: Int] = [:]
    /// All outcomes.
    private(set) var count = 0
    /// Responses that are not acceptances.
    private var rejected = 0
    /// From the claim to the moment when the request left for the wire, from there to the response, and both together. With
    /// `PoolSettings.recordsTimes` only.
    private(set) var toWire = LatencyHistogram()
    private(set) var toResponse = LatencyHistogram()
    private(set) var total = LatencyHistogram()

    mutating func countAcceptance() {
        accepted += 1
        count += 1
    }

    /// Counts an outcome that is not an acceptance. Returns whether it is a response of APNs, whose latency counts.
    mutating func count(_ outcome: Outcome) -> Bool {
        if let kind = ResponseKind(outcome) {
            others[kind, default: 0] += 1
            count += 1
        }
        guard case .rejected = outcome else { return false }
        rejected += 1
        return true
    }

    /// All responses of APNs.
    var responses: Int { accepted + rejected }

    /// Counts the latencies of a response.
    mutating func record(claimed: Instant, _ times: AttemptTimes) {
        toWire.record(times.sent - claimed)
        toResponse.record(times.ended - times.sent)
        total.record(times.ended - claimed)
    }

    /// The number of outcomes of each kind, in order of status and reason.
    var kinds: [(kind: ResponseKind, count: Int)] {
        var all = others
        if accepted > 0 { all[.accepted] = accepted }
        return all.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }
}
