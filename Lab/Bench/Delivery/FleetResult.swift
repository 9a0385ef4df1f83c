/// The results of all runs with this many daemons.
struct FleetResult {
    let daemons: Int
    /// The jobs per second that the streams allow.
    let allowed: Double
    private var rate = Figures()
    private var each = Figures()
    private var share = Figures()
    private var together = Figures()
    private var redis = Figures()
    private var simulator = Figures()
    private var idleOfDaemons = Figures()
    private var idleOfServers = Figures()

    init(daemons: Int, allowed: Double) {
        self.daemons = daemons
        self.allowed = allowed
    }

    mutating func add(_ run: FleetRun) {
        rate.values.append(run.rates.reduce(0, +))
        each.values += run.rates
        share.values += run.daemons
        together.values.append(run.daemons.reduce(0, +))
        redis.values.append(run.redis)
        simulator.values.append(run.simulator)
        idleOfDaemons.values.append(run.idle[0])
        idleOfServers.values.append(run.idle[1])
    }

    /// A processor with a lower idle share is full.
    private static let leastIdle = 0.05

    /// The limit of the jobs per second.
    private var limit: String {
        let others = "others used \(percent(1 - idleOfServers.median - redis.median - simulator.median))"
        if idleOfServers.median < Self.leastIdle, rate.median < 0.8 * allowed {
            return
                "the processor of Redis (\(percent(redis.median))) "
                + "and the simulator (\(percent(simulator.median))) is full, \(others)"
        }
        if idleOfDaemons.median < Self.leastIdle, rate.median < 0.8 * allowed {
            let others = "others used \(percent(1 - idleOfDaemons.median - together.median))"
            return "the processor of the daemons is full, \(others)"
        }
        return "the streams: at most \(decimal(allowed, 0)) per second"
    }

    private static let widths = [9, 26, 26, 18, 9, 10, 12, 12]

    static let header = row([
        "daemons", "jobs/s", "jobs/s of each", "CPU of each", "of all", "of Redis", "of simulator", "idle (a/b)",
        "limit",
    ])

    var line: String {
        Self.row([
            String(daemons), rate.text(0), each.text(0),
            "\(percent(share.median)) (\(percent(share.least)) - \(percent(share.most)))", percent(together.median),
            percent(redis.median),
            percent(simulator.median), "\(percent(idleOfDaemons.median)) / \(percent(idleOfServers.median))", limit,
        ])
    }

    private static func row(_ cells: [String]) -> String {
        cells.enumerated().map { $0 < widths.count ? padRight($1, widths[$0]) + " " : $1 }.joined()
    }

    var json: JSON {
        .object([
            ("daemons", .integer(daemons)), ("jobs_per_second", rate.json), ("allowed_by_streams", .number(allowed, digits: 0)),
            ("jobs_per_second_of_each", each.json), ("processor_share_of_each", share.json),
            ("processor_share_of_all", together.json), ("processor_share_of_redis", redis.json),
            ("processor_share_of_simulator", simulator.json), ("idle_share_beside_daemons", idleOfDaemons.json),
            ("idle_share_beside_redis", idleOfServers.json), ("limit", .text(limit)),
        ])
    }
}

/// Formats a share as a whole percentage.
private func percent(_ share: Double) -> String { "\(decimal(share * 100, 0)) %" }
