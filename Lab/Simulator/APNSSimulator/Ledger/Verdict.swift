import Platform

/// The outcome of a request.
public enum Verdict: Sendable, Equatable {
    /// The push was accepted. `isAnswered` is false if the connection was cut before the answer.
    case accepted(isAnswered: Bool)
    case refused(status: Int, reason: String)
    case silent
    case streamReset(code: UInt32)
    case connectionCut
    /// Not accepted, on a connection that stays silent from now on.
    case halfOpen
    case goneAway

    /// The key of `Totals.answers`.
    var label: String {
        switch self {
        case .accepted: "200"
        case .refused(let status, let reason): reason.isEmpty ? "\(status)" : "\(status) \(reason)"
        case .silent: "silent"
        case .streamReset(let code): "RST_STREAM \(code)"
        case .connectionCut: "cut"
        case .halfOpen: "half-open"
        case .goneAway: "GOAWAY"
        }
    }

    /// The status in the ledger file; 0 is neither accepted nor rejected.
    var status: Int {
        switch self {
        case .accepted: 200
        case .refused(let status, _): status
        case .silent, .streamReset, .connectionCut, .halfOpen, .goneAway: 0
        }
    }
}
