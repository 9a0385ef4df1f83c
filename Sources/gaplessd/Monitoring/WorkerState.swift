import JSONBytes
import Platform

/// Decides when the state of the apps is written to the worker's record in Redis: within a second of a change of what an
/// operator acts on, and every ten seconds while only figures change.
struct WorkerState {
    /// The facts on which an operator acts.
    private struct Essence: Equatable {
        var bottleneck: Bottleneck
        var hold: String?
        var isPaused: Bool
        var sessions: Int
    }

    static let interval = Duration.seconds(10)

    private var written: (essence: [Essence], record: [UInt8], at: Instant)?
    private var before: [ResponseFigures] = []
    private var latencies: [LatencyHistogram] = []
    private var nextLatencies: Instant?

    /// Returns the record to write; `nil` if the last one is recent enough.
    mutating func record(of apps: [ProcessSnapshot.App], now: Instant) -> [UInt8]? {
        measure(apps, now: now)
        let essence = apps.map { app in
            Essence(
                bottleneck: app.bottleneck.isQuiet ? .none : app.bottleneck, hold: app.hold?.kind, isPaused: app.isPaused,
                sessions: app.sessions)
        }
        if let written, written.essence == essence, now - written.at < Self.interval { return nil }
        let record = JSONValue.array(apps.indices.map { object(apps[$0], latencies[$0]) }).bytes
        if let written, written.record == record { return nil }
        written = (essence, record, now)
        return record
    }

    /// The latencies are those of the last ten seconds.
    private mutating func measure(_ apps: [ProcessSnapshot.App], now: Instant) {
        let current = apps.map(\.responses)
        if let next = nextLatencies, next > now { return }
        latencies = current.indices.map { index in
            before.indices.contains(index) ? current[index].total.since(before[index].total) : LatencyHistogram()
        }
        (before, nextLatencies) = (current, now + Self.interval)
    }

    private func object(_ app: ProcessSnapshot.App, _ latencies: LatencyHistogram) -> JSONValue {
        let seconds = { (share: Double) in
            latencies.quantile(share).map { JSONValue.number("\(($0 * 10_000).rounded() / 10_000)") } ?? .null
        }
        return .members([
            "app": .string(app.label), "bottleneck": .string((app.bottleneck.isQuiet ? .none : app.bottleneck).rawValue),
            "held": .optional(app.hold?.kind), "reason": .optional(app.hold?.wholeSentence), "paused": .bool(app.isPaused),
            "sessions": .integer(app.sessions), "streams": .integer(app.streams), "capacity": .integer(app.capacity),
            "p50": seconds(0.5), "p99": seconds(0.99),
        ])
    }
}
