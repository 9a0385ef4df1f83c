import Glibc
import Harness
import Platform
import RedisQueue

/// Compares "at least once" with "at most once" while Redis has one processor alone, as on another machine. The daemon and the
/// server share the other one.
///
/// Each round also measures the bare claim: the minimum that at-least-once delivery costs Redis.
struct DeliveryBench {
    var jobs = 200_000
    var rounds = 5
    var backlog = 1_000_000
    var backlogRounds = 3

    private struct Shape {
        var title: String
        var jobs: Int
        var rounds: Int
        var simulator: [String] = []
    }

    /// Prints a table, and returns its figures.
    func measure() throws -> JSON {
        guard sysconf(CInt(_SC_NPROCESSORS_ONLN)) > 1 else {
            say("at least once and at most once: needs two processors")
            return .array([])
        }
        let shapes = [
            Shape(title: "immediate responses", jobs: jobs, rounds: rounds),
            Shape(
                title: "responses out of order, after 0 to 4 ms", jobs: jobs, rounds: rounds,
                simulator: ["--latency", "0ms..4ms"]),
            Shape(title: "backlog of \(backlog)", jobs: backlog, rounds: backlogRounds),
        ]
        say(
            "\nAt least once and at most once: Redis has one processor, "
                + "the daemon and the server share the other. Medians (min - max)."
        )
        say(DeliveryResult.header)
        let results = try shapes.map { shape in
            let result = try measure(shape)
            say(result.line)
            return result
        }
        return .array(results.map(\.json))
    }

    private func measure(_ shape: Shape) throws -> DeliveryResult {
        var result = DeliveryResult(title: shape.title)
        let run = BenchRun(jobs: shape.jobs, layout: .redisAlone)
        for _ in 1...shape.rounds {
            let least = try run.measure(.daemon(simulator: shape.simulator))
            let most = try run.measure(.daemon(settings: ["redis_delivery": "\"at_most_once\""], simulator: shape.simulator))
            result.add(least: least, most: most, bare: try BareClaims(jobs: jobs).measure(), jobs: shape.jobs, bareJobs: jobs)
        }
        return result
    }
}

/// One row of the table.
struct DeliveryResult {
    let title: String
    private var least = Figures()
    private var most = Figures()
    /// The percentage of fewer jobs per second.
    private var loss = Figures()
    /// Processor time of Redis, us per job.
    private var redis = Figures()
    private var redisOfMost = Figures()
    private var redisOfBare = Figures()
    private var ratioToBare = Figures()

    init(title: String) { self.title = title }

    mutating func add(least: Measurement, most: Measurement, bare: Duration, jobs: Int, bareJobs: Int) {
        let rates = [least, most].map { Double(jobs) / $0.seconds }
        self.least.values.append(rates[0])
        self.most.values.append(rates[1])
        loss.values.append((1 - rates[0] / rates[1]) * 100)
        let costs = [least.redis, most.redis].map { $0 / .microseconds(1) / Double(jobs) }
        let bare = bare / .microseconds(1) / Double(bareJobs)
        redis.values.append(costs[0])
        redisOfMost.values.append(costs[1])
        redisOfBare.values.append(bare)
        ratioToBare.values.append(costs[0] / bare)
    }

    static let header =
        padRight("", 40) + padRight("at least once/s", 28) + padRight("at most once/s", 28)
        + padRight("fewer, %", 22) + padRight("Redis us: at least", 22) + padRight("at most", 10) + padRight("bare claim", 12)
        + "x bare"

    var line: String {
        padRight(title, 40) + padRight(least.text(0), 28) + padRight(most.text(0), 28) + padRight(loss.text(1), 22)
            + padRight(redis.text(2), 22) + padRight(decimal(redisOfMost.median, 2), 10)
            + padRight(decimal(redisOfBare.median, 2), 12)
            + ratioToBare.text(2)
    }

    var json: JSON {
        .object([
            ("title", .text(title)), ("at_least_once_per_second", least.json), ("at_most_once_per_second", most.json),
            ("fewer_percent", loss.json), ("redis_us", redis.json), ("redis_us_at_most_once", redisOfMost.json),
            ("redis_us_bare_claim", redisOfBare.json), ("ratio_to_bare_claim", ratioToBare.json),
        ])
    }
}

/// The reference for the processor time of Redis: a client that only moves 250 jobs at a time to a list, reads them, and removes
/// them. It has no fencing, no recovered lists, no limit of bytes and no counters.
struct BareClaims {
    var jobs: Int

    private static let batch = 250
    private static let claim = """
        redis.call('SORT', KEYS[1], 'BY', 'nosort', 'LIMIT', 0, ARGV[1], 'STORE', KEYS[2])
        redis.call('LTRIM', KEYS[1], ARGV[1], -1)
        """

    /// Returns the processor time of Redis for all jobs.
    ///
    /// - Parameter atEnd: asks Redis for what it has done.
    func measure(atEnd: (inout RedisClient) throws -> Void = { _ in }) throws -> Duration {
        let redis = try RedisServer()
        redis.process.pin(to: 1)
        var settings = QueueSettings(list: Stage.list, server: .unix(path: redis.socketPath))
        settings.timeout = .seconds(30)
        var client = try RedisClient(settings: settings)
        for first in stride(from: 0, to: jobs, by: 500) {
            _ = try client.command(["RPUSH", Stage.list] + (first..<min(jobs, first + 500)).map { BenchJob.text($0) })
        }
        guard let script = try client.command(["SCRIPT", "LOAD", BareClaims.claim]).text else {
            throw LabError(description: "no script")
        }
        _ = try client.command(["CONFIG", "RESETSTAT"])
        let start = preciseProcessorTime(of: redis.process.pid)
        var done = 0
        while done < jobs {
            _ = try client.command(["EVALSHA", script, "2", Stage.list, "held", String(BareClaims.batch)])
            let claimed = try client.command(["LRANGE", "held", "0", "-1"]).items?.count ?? 0
            guard claimed > 0 else { throw LabError(description: "the list was empty after \(done) of \(jobs) jobs") }
            _ = try client.command(["UNLINK", "held"])
            done += claimed
        }
        let time = preciseProcessorTime(of: redis.process.pid) - start
        try atEnd(&client)
        return time
    }
}

/// Shows what Redis does for a job: its commands with at-least-once delivery, and those of the bare claim.
struct RedisCommands {
    var jobs: Int

    /// Prints two tables, and returns their figures.
    func measure() throws -> JSON {
        say("Redis for \(jobs) jobs; the commands inside scripts have their own lines, and evalsha includes them")
        let bare = try BareClaims(jobs: jobs).measure { client in
            report("bare claim", try client.command(["INFO", "commandstats"]).text)
        }
        let stage = try Stage(simulator: ["--token-streams", "1000"], ledger: false, pinned: 1)
        if let simulator = stage.service as? SimulatorProcess { simulator.process.pin(to: 0) }
        try stage.push((0..<jobs).lazy.map { BenchJob.text($0) })
        try stage.command("CONFIG", "RESETSTAT")
        let before = preciseProcessorTime(of: stage.redis.process.pid)
        let daemon = try stage.start(try stage.write(["apns_max_concurrent_streams": "500"]), pinned: 0)
        let isDone = try waitUntil(atMost: .seconds(180), every: .milliseconds(10)) { try stage.settled() >= jobs }
        let time = preciseProcessorTime(of: stage.redis.process.pid) - before
        report("at least once", try stage.command("INFO", "commandstats").text)
        guard isDone, daemon.stop()?.status == 0 else {
            throw stage.failure("gaplessd did not send all jobs:")
        }
        let costs = [bare, time].map { $0 / .microseconds(1) / Double(jobs) }
        let (bareText, text) = (decimal(costs[0], 2), decimal(costs[1], 2))
        say("\nprocessor time of Redis: \(bareText) us per job for the bare claim, \(text) at least once")
        return .object([("bare_claim_us", .number(costs[0], digits: 2)), ("at_least_once_us", .number(costs[1], digits: 2))])
    }

    /// Prints the commands, the most expensive first: lines such as `cmdstat_lrange:calls=800,usec=9000,usec_per_call=11.25`.
    private func report(_ title: String, _ information: String?) {
        say("\n" + padRight(title, 20) + padLeft("calls per 1000 jobs", 20) + padLeft("us per job", 14))
        let lines = (information ?? "").matches(of: #/cmdstat_([^:]+):calls=(\d+),usec=(\d+)/#)
        let costs = lines.map { (name: $0.1, calls: Double($0.2) ?? 0, time: Double($0.3) ?? 0) }
        for cost in costs.sorted(by: { $0.time > $1.time }) where cost.time / Double(jobs) >= 0.005 {
            let calls = decimal(cost.calls / Double(jobs) * 1000, 1)
            say(padRight(String(cost.name), 20) + padLeft(calls, 20) + padLeft(decimal(cost.time / Double(jobs), 3), 14))
        }
    }
}
