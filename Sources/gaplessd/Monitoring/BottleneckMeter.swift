import Platform
import PushPool

/// Finds the bottleneck of each app from the figures of the last one to two seconds: at a distance a session is blocked and
/// released with every round trip.
struct BottleneckMeter {
    private static let interval = Duration.seconds(1)

    private typealias Reading = (figures: [PoolFigures], responses: [Int], at: Instant)

    private var older: Reading?
    private var newer: Reading?

    /// Adds figures and bottlenecks to a snapshot.
    mutating func add(_ figures: [PoolFigures], to snapshot: inout ProcessSnapshot, now: Instant) {
        let responses = snapshot.apps.map(\.responses.count)
        if newer.map({ now - $0.at >= Self.interval }) ?? true {
            (older, newer) = (newer ?? (figures, responses, now), (figures, responses, now))
        }
        guard let older else { return }
        let elapsed = now - older.at
        let sharesRateLimit = figures.indices.contains { app in
            figures[app].blocked(by: .rateLimit) - older.figures[app].blocked(by: .rateLimit) > elapsed / 2
        }
        for app in snapshot.apps.indices {
            snapshot.apps[app].figures = figures[app]
            snapshot.apps[app].bottleneck = Bottleneck(
                snapshot.apps[app], snapshot.lists, before: older.figures[app], now: figures[app],
                responses: responses[app] - older.responses[app], sharesRateLimit: sharesRateLimit, elapsed: elapsed)
        }
    }
}
