import Harness

/// A round trip and a payload.
struct DistancePoint: Equatable {
    /// Milliseconds.
    var roundTrip: Int
    /// Bytes of the payload.
    var payload: Int

    static let all = [20, 100, 300].flatMap { trip in [200, 1024, 4096].map { DistancePoint(roundTrip: trip, payload: $0) } }

    /// For `--point`.
    var name: String { "\(roundTrip)x\(payload)" }

    var delay: Duration { .milliseconds(roundTrip) / 2 }

    /// A relay to the port that delays both directions.
    func relay(to port: Int) throws -> FaultProxy {
        let relay = try FaultProxy(toPort: port, seed: 1)
        relay.behaviour.delay = delay
        return relay
    }

    /// The pushes per second that a session carries if a round trip takes its whole window, or all its streams.
    var mostPerSession: Double { min(65_535 / Double(payload), 1000) * 1000 / Double(roundTrip) }
}
