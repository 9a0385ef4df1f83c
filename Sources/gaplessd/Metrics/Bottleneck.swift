import PushPool

/// The reason why an app does not send more.
enum Bottleneck: String, Sendable, CaseIterable {
    case none, streams, window
    case rateLimit = "rate_limit"
    case hold, connection, redis
    case noJobs = "no_jobs"

    /// - Parameters:
    ///   - before: the figures of the previous call.
    ///   - elapsed: the time since then.
    init(
        _ app: ProcessSnapshot.App, _ lists: [ProcessSnapshot.List], before: PoolFigures, now figures: PoolFigures,
        elapsed: Duration
    ) {
        let limit = Limitation.allCases.max {
            figures.blocked(by: $0) - before.blocked(by: $0) < figures.blocked(by: $1) - before.blocked(by: $1)
        }
        if app.hold != nil || app.isPaused {
            self = .hold
        } else if app.capacity == 0 {
            self = .connection
        } else if lists.contains(where: { !$0.isConnected || $0.isInDoubt }) {
            self = .redis
        } else if let limit, figures.blocked(by: limit) - before.blocked(by: limit) > elapsed / 2 {
            self = Bottleneck(limit)
        } else {
            self = app.held == 0 ? .noJobs : .none
        }
    }

    private init(_ limit: Limitation) {
        self =
            switch limit {
            case .streams: .streams
            case .window: .window
            case .socket: .connection
            case .rateLimit: .rateLimit
            }
    }
}
