import Harness

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
