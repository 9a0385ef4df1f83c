import Foundation

/// One round of forecasts for all places.
struct Cycle: Equatable, Sendable {
    var number: Int64
    var start: Date
    var isFinished: Bool
}

extension Cycle {
    /// Seconds until the next look for the first place.
    static let placeInterval: TimeInterval = 1

    enum Step: Equatable {
        /// The last cycle was interrupted, or some of its forecasts are missing: continue it.
        case resume(Cycle)
        case begin
        case wait(until: Date)
    }

    /// Decides the next step.
    ///
    /// - Parameters:
    ///   - latest: `nil` before the first cycle.
    ///   - hasPlaces: whether a device watches a place. Without one, no cycle begins.
    static func next(after latest: Cycle?, now: Date, every interval: TimeInterval, hasPlaces: Bool) -> Step {
        let due = latest.map { $0.start + interval } ?? now
        guard let latest, now < due else { return hasPlaces ? .begin : .wait(until: now + placeInterval) }
        if !latest.isFinished { return .resume(latest) }
        // A clock that was set back does not delay the next cycle for longer than the interval.
        return .wait(until: min(due, now + interval))
    }
}
