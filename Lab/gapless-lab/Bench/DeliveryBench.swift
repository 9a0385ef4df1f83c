import Glibc
import Harness

/// What "at least once" costs beside "at most once", where Redis has a processor of its own, as it has on another machine. Daemon and
/// server share the other one.
///
/// In each round the bare claim runs as well: what Redis pays for the least that at-least-once can mean.
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

    /// Prints a table; returns its part of the JSON.
    func measure() throws -> String {
        guard sysconf(CInt(_SC_NPROCESSORS_ONLN)) > 1 else {
            say("at least once beside at most once: needs two processors")
            return "  \"delivery\": []"
        }
        let shapes = [
            Shape(title: "answers at once", jobs: jobs, rounds: rounds),
            Shape(title: "answers out of order, after 0 to 4 ms", jobs: jobs, rounds: rounds, simulator: ["--latency", "0ms..4ms"]),
            Shape(title: "backlog of \(backlog)", jobs: backlog, rounds: backlogRounds),
        ]
        say("\nAt least once beside at most once: Redis has one processor to itself, daemon and server share the other. Medians (min - max).")
        say(DeliveryResult.header)
        let results = try shapes.map { shape in
            let result = try measure(shape)
            say(result.line)
            return result
        }
        return "  \"delivery\": [\n" + results.map(\.json).joined(separator: ",\n") + "\n  ]"
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

/// One line of the table.
struct DeliveryResult {
    let title: String
    private var least = Figures()
    private var most = Figures()
    /// How many percent fewer jobs a second.
    private var loss = Figures()
    /// Processor time of Redis, us a job.
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

    static let header = padRight("", 40) + padRight("at least once/s", 28) + padRight("at most once/s", 28)
        + padRight("fewer, %", 22) + padRight("Redis us: at least", 22) + padRight("at most", 10) + padRight("bare claim", 12) + "x bare"

    var line: String {
        padRight(title, 40) + padRight(least.text(0), 28) + padRight(most.text(0), 28) + padRight(loss.text(1), 22)
            + padRight(redis.text(2), 22) + padRight(decimal(redisOfMost.median, 2), 10) + padRight(decimal(redisOfBare.median, 2), 12)
            + ratioToBare.text(2)
    }

    var json: String {
        "    {\"title\": \"\(title)\", \"at_least_once_per_second\": \(least.json), \"at_most_once_per_second\": \(most.json), "
            + "\"fewer_percent\": \(loss.json), \"redis_us\": \(redis.json), \"redis_us_at_most_once\": \(redisOfMost.json), "
            + "\"redis_us_bare_claim\": \(redisOfBare.json), \"ratio_to_bare_claim\": \(ratioToBare.json)}"
    }
}
