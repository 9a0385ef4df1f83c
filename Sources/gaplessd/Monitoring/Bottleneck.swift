import Platform
import PushPool

/// The reason why an app does not send more.
enum Bottleneck: String, Sendable, CaseIterable {
    case none, streams, window
    case rateLimit = "rate_limit"
    case hold, connection, redis
    /// All streams wait for responses, and not because of the distance.
    case apns
    case noJobs = "no_jobs"

    /// Whether it needs no action.
    var isQuiet: Bool { self == .none || self == .noJobs }

    /// A Redis that takes longer for a reply limits a queue that has jobs.
    private static let slowReply = Duration.milliseconds(50)
    /// Beyond some round trips, a response takes longer than this only because APNs is slow.
    private static let slowResponse = Duration.milliseconds(100)

    /// - Parameters:
    ///   - app: with the figures of its pool.
    ///   - limit: the limitation for which its pushes waited most of the time.
    ///   - perResponse: the time since the previous call, divided by the number of responses.
    ///   - sharesRateLimit: whether the rate limit, which all apps share, holds back another app.
    init(
        _ app: ProcessSnapshot.App, _ lists: [ProcessSnapshot.List], limit: Limitation?, perResponse: Duration,
        sharesRateLimit: Bool
    ) {
        let hasJobs = app.held > 0 || app.hasAside
        if app.hold != nil || app.isPaused {
            self = .hold
        } else if app.isIdle && app.held == 0 {
            self = .noJobs
        } else if app.capacity == 0 {
            self = .connection
        } else if lists.contains(where: { !$0.isConnected || $0.isInDoubt }) {
            self = .redis
        } else if let limit {
            // The time to a response is the number of streams divided by the rate of the responses (Little's law).
            let isSlow = perResponse * app.streams > (app.figures.roundTrip ?? .zero) * 3 + Self.slowResponse
            self = limit == .streams && isSlow ? .apns : Bottleneck(limit)
        } else if sharesRateLimit && hasJobs {
            self = .rateLimit
        } else if lists.contains(where: { $0.latency >= Self.slowReply && $0.hasBacklog }) {
            self = .redis
        } else {
            self = hasJobs ? .none : .noJobs
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

/// Finds the bottleneck of each app from the figures of the last one to two seconds: at a distance a session is blocked and
/// released with every round trip.
struct BottleneckMeter {
    private static let interval = Duration.seconds(1)

    /// Of the apps with pools or jobs, by their numbers.
    private typealias Reading = (apps: [Int: (pool: PoolFigures, responses: Int)], at: Instant)

    private var older: Reading?
    private var newer: Reading?

    /// Adds figures and bottlenecks to the apps of a snapshot that have pools or jobs, and so costs the same for any number of
    /// others.
    mutating func add(_ figures: [(app: Int, pool: PoolFigures)], to snapshot: inout ProcessSnapshot, now: Instant) {
        if newer.map({ now - $0.at >= Self.interval }) ?? true {
            var apps: [Int: (pool: PoolFigures, responses: Int)] = [:]
            for (app, pool) in figures { apps[app] = (pool, snapshot.apps[app].responses.count) }
            (older, newer) = (newer ?? (apps, now), (apps, now))
        }
        guard let older else { return }
        let elapsed = now - older.at
        let sharesRateLimit = figures.contains { app, pool in
            let before = older.apps[app]?.pool.blocked(by: .rateLimit) ?? .zero
            return pool.blocked(by: .rateLimit) - before > elapsed / 2
        }
        for (app, pool) in figures {
            // Without an earlier reading its pool is new.
            let before = older.apps[app] ?? (PoolFigures(), 0)
            snapshot.apps[app].figures = pool
            snapshot.apps[app].bottleneck = Bottleneck(
                snapshot.apps[app], snapshot.lists, limit: pool.limit(since: before.pool, within: elapsed),
                perResponse: elapsed / max(1, snapshot.apps[app].responses.count - before.responses),
                sharesRateLimit: sharesRateLimit)
        }
    }
}

extension PoolFigures {
    /// The limitation for which pushes waited longest since an earlier state; `nil` if that was at most half of the time.
    func limit(since before: PoolFigures, within elapsed: Duration) -> Limitation? {
        if blocked == before.blocked { return nil }
        let waits = Limitation.allCases.map { (limit: $0, time: blocked(by: $0) - before.blocked(by: $0)) }
        return waits.max { $0.time < $1.time }.flatMap { $0.time > elapsed / 2 ? $0.limit : nil }
    }
}
