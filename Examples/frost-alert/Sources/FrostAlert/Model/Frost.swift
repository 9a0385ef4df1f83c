import Foundation

/// The coldest hour of the next frost at one place.
struct Frost: Equatable, Sendable {
    var time: Date
    /// The same time at the place, for example `2026-11-25T05:00`.
    var localTime: String
    var celsius: Double
}

extension Forecast {
    /// Returns the next frost: of the first consecutive hours after `now` below `limit`, the coldest one.
    func frost(after now: Date, below limit: Double) -> Frost? {
        let frosty = hours.drop { $0.time <= now || $0.celsius >= limit }.prefix { $0.celsius < limit }
        return frosty.min { $0.celsius < $1.celsius }.map {
            Frost(time: $0.time, localTime: $0.localTime, celsius: $0.celsius)
        }
    }
}
