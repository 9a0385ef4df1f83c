import Threads

/// What came of one request, as the simulator sees it.
public enum Verdict: Sendable, Equatable {
    /// APNs has the push. `isAnswered` is false where the connection was cut before the client could learn of it.
    case accepted(isAnswered: Bool)
    case refused(status: Int, reason: String)
    case silent
    case streamReset(code: UInt32)
    case connectionCut
    /// Not accepted, and nobody will ever say anything on its connection again.
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

    /// For the ledger file: 000 is neither accepted nor refused.
    var status: Int {
        switch self {
        case .accepted: 200
        case .refused(let status, _): status
        case .silent, .streamReset, .connectionCut, .halfOpen, .goneAway: 0
        }
    }
}
