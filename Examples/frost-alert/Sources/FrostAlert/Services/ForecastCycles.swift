internal import Foundation
internal import Logging
internal import ServiceLifecycle

/// Runs one forecast cycle after another: requests the forecast of each place once, and stores its alerts.
///
/// A cycle that a crash interrupted continues with the places that it lacks.
struct ForecastCycles: Service {
    /// Requests to the forecast service at a time.
    private static let concurrency = 4

    let cycles: CycleTable
    /// Seconds from the start of a cycle to the start of the next.
    let interval: TimeInterval
    /// Degrees Celsius. An hour below it is a frost.
    let limit: Double
    let logger: Logger
    let forecast: @Sendable (Place) async throws -> Forecast

    func run() async throws {
        await repeatUntilShutdown("The forecast cycle", logger) { try await step() }
    }

    private func step() async throws {
        let (latest, hasPlaces) = (try await cycles.latest(), try await cycles.hasPlaces())
        switch Cycle.next(after: latest, now: .now, every: interval, hasPlaces: hasPlaces) {
        case .begin: try await run(try await cycles.begin(at: .now))
        case .resume(let cycle):
            logger.info("Cycle \(cycle.number) continues.")
            try await run(cycle)
        case .wait(let date): try await Task.sleep(for: .seconds(date.timeIntervalSinceNow))
        }
    }

    /// Runs a cycle until it is complete, or until the next one is due.
    func run(_ cycle: Cycle) async throws {
        var pause: TimeInterval = 1
        while Date.now < cycle.start + interval {
            let places = try await cycles.missingPlaces(in: cycle)
            if places.isEmpty {
                try await cycles.finish(cycle)
                logger.info("Cycle \(cycle.number) is complete.")
                return
            }
            let failures = try await fetch(places, in: cycle)
            // Places that were added meanwhile belong to this cycle too.
            guard let failure = failures.first else { continue }
            logger.warning("\(failures.count) of \(places.count) forecasts failed; next attempt in \(pause) s: \(failure)")
            try await Task.sleep(for: .seconds(min(pause, max(0, (cycle.start + interval).timeIntervalSinceNow))))
            pause = min(pause * 2, 600)
        }
    }

    /// Fetches and records forecasts, a few at a time. Returns the errors of those that failed.
    private func fetch(_ places: [Place], in cycle: Cycle) async throws -> [any Error] {
        try await withThrowingTaskGroup(of: (any Error)?.self) { group in
            var failures: [any Error] = []
            for (index, place) in places.enumerated() {
                if index >= Self.concurrency, let failure = try await group.next() { failures += failure.map { [$0] } ?? [] }
                group.addTask { try await record(place, in: cycle) }
            }
            for try await failure in group { failures += failure.map { [$0] } ?? [] }
            return failures
        }
    }

    /// Returns the error of the forecast service; an error of the database is thrown.
    private func record(_ place: Place, in cycle: Cycle) async throws -> (any Error)? {
        let frost: Frost?
        do {
            frost = try await forecast(place).frost(after: .now, below: limit)
        } catch {
            try Task.checkCancellation()
            return error
        }
        try await cycles.record(frost, for: place, in: cycle)
        return nil
    }
}
