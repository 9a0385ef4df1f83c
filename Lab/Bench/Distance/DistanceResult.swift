import Harness

/// The figures of one run at a distance.
struct DistanceResult {
    /// `nil` for `"pool_size": "auto"`.
    var sessions: Int?
    /// Pushes per second.
    var rate: Double
    /// Microseconds of processor time per push.
    var cpu: Double
    /// Connections that the server saw.
    var connections: Int
    var retried: Int
    /// Pushes counted as `maybe_duplicate`.
    var doubted: Int
    /// Pushes that the server accepted twice.
    var twice: Int
    /// Rates over about a second, with the time since the backlog appeared.
    var rates: [(at: Duration, rate: Double)]

    var name: String { sessions.map(String.init) ?? "auto" }

    /// The time after which this rate was first reached.
    func reached(_ wanted: Double) -> Duration? { rates.first { $0.rate >= wanted }?.at }

    static let header =
        padRight("round trip", 12) + padRight("payload", 9) + padRight("pool_size", 11) + padRight("jobs/s", 9)
        + padRight("h2load/s", 10) + padRight("of h2load", 11) + padRight("of best", 9) + padRight("CPU us", 8)
        + padRight("connections", 13) + padRight("retries", 9) + padRight("twice", 7) + "90 % after"

    /// - Parameters:
    ///   - reference: requests per second of h2load with as many connections.
    ///   - best: the rate of the best fixed pool.
    func line(_ point: DistancePoint, reference: Double?, best: Double) -> String {
        let after = sessions == nil ? reached(0.9 * best).map { decimal($0 / .seconds(1), 1) + " s" } ?? "never" : ""
        return padRight("\(point.roundTrip) ms", 12) + padRight("\(point.payload) B", 9) + padRight(name, 11)
            + padRight(decimal(rate, 0), 9) + padRight(reference.map { decimal($0, 0) } ?? "", 10)
            + padRight(reference.map { decimal(100 * rate / max(1, $0), 0) + " %" } ?? "", 11)
            + padRight(decimal(100 * rate / best, 0) + " %", 9) + padRight(decimal(cpu, 2), 8)
            + padRight("\(connections)", 13) + padRight("\(retried)", 9) + padRight("\(twice)", 7) + after
    }

    func json(_ point: DistancePoint, reference: Double?, best: Double) -> JSON {
        var members: [(String, JSON)] = [
            ("round_trip_ms", .integer(point.roundTrip)), ("payload_bytes", .integer(point.payload)), ("pool_size", .text(name)),
            ("jobs_per_second", .number(rate, digits: 1)), ("share_of_best", .number(rate / best, digits: 3)),
            ("cpu_us_per_push", .number(cpu, digits: 3)), ("connections", .integer(connections)),
            ("retries", .integer(retried)), ("maybe_duplicate", .integer(doubted)), ("delivered_twice", .integer(twice)),
        ]
        if let reference { members.append(("h2load_per_second", .number(reference, digits: 1))) }
        if sessions == nil, let after = reached(0.9 * best) {
            members.append(("seconds_to_90_percent_of_best", .number(after / .seconds(1), digits: 1)))
        }
        return .object(members)
    }
}
