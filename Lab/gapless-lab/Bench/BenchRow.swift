import Harness

/// One line of the bench's table: what runs, and what was measured of it.
struct BenchRow {
    enum Load: Equatable {
        /// nghttp2's load generator against the simulator: bare requests, no queue. The yardstick.
        case h2load(bodyBytes: Int)
        /// The same against nghttp2's own server.
        case h2loadToNghttpd
        /// Our session pool alone against the simulator, without Redis and without JSON.
        case pool
        case poolToNghttpd
        /// The daemon.
        case daemon(settings: [String: String] = [:], simulator: [String] = [], bodyBytes: Int = 200)
    }

    let name: String
    let title: String
    let load: Load
    /// The row whose CPU per request this one is compared with.
    let yardstick: String?

    private init(_ name: String, _ title: String, _ load: Load, against yardstick: String? = "h2load") {
        (self.name, self.title, self.load, self.yardstick) = (name, title, load, yardstick)
    }

    static let all = [
        BenchRow("h2load", "h2load, bare requests", .h2load(bodyBytes: 200), against: nil),
        BenchRow("pool", "our HTTP/2 alone", .pool),
        BenchRow("whole", "gaplessd, at least once", .daemon()),
        BenchRow("at-most-once", "gaplessd, at most once", .daemon(settings: ["redis_delivery": "\"at_most_once\""])),
        BenchRow("log", "gaplessd, log_successes", .daemon(settings: ["log_successes": "true"])),
        BenchRow("h2load-4k", "h2load, 4 KiB bodies", .h2load(bodyBytes: 4000), against: nil),
        BenchRow("4k", "gaplessd, 4 KiB payloads", .daemon(bodyBytes: 4000), against: "h2load-4k"),
        BenchRow("1-session", "gaplessd, 1 session", .daemon(settings: ["pool_size": "1"])),
        BenchRow("10-sessions", "gaplessd, 10 sessions", .daemon(settings: ["pool_size": "10"])),
        BenchRow("20ms", "gaplessd, answers after 20 ms", .daemon(simulator: ["--latency", "20ms"])),
        BenchRow("100ms", "gaplessd, answers after 100 ms", .daemon(simulator: ["--latency", "100ms"])),
        BenchRow(
            "errors", "gaplessd, 5 % errors",
            .daemon(settings: ["retry_delays": "[0.1]"], simulator: ["--fail", "503:3%", "--dead", "2%"])),
        BenchRow("h2load-nghttpd", "h2load to nghttpd", .h2loadToNghttpd, against: nil),
        BenchRow("pool-nghttpd", "our HTTP/2 to nghttpd", .poolToNghttpd, against: "h2load-nghttpd"),
    ]
}

/// What one run of a row cost.
struct Measurement {
    /// Processor time of what is measured, user and system: the daemon, the pool or h2load.
    var cpu: Duration
    var seconds: Double
    /// Processor time of Redis.
    var redis = Duration.zero
    /// The most resident memory, in bytes.
    var peak: Int
}

/// All runs of one row.
struct BenchResult {
    let row: BenchRow
    private(set) var cpu = Figures()
    private(set) var rate = Figures()
    private(set) var redis = Figures()
    private(set) var peak = 0

    init(_ row: BenchRow) { self.row = row }

    mutating func add(_ run: Measurement, pushes: Int) {
        cpu.values.append(run.cpu / .microseconds(1) / Double(pushes))
        redis.values.append(run.redis / .microseconds(1) / Double(pushes))
        rate.values.append(Double(pushes) / run.seconds)
        peak = max(peak, run.peak)
    }

    /// CPU of one push beside that of the yardstick, run by run: both ran one after the other, whatever else the machine did.
    func ratio(to yardstick: BenchResult) -> Figures {
        Figures(values: zip(cpu.values, yardstick.cpu.values).map { $0 / $1 })
    }

    static let header = padRight("", 32) + padRight("CPU us/push", 26) + padRight("pushes/s", 28) + padRight("x h2load", 21)
        + padRight("Redis us", 10) + "peak MB"

    func line(_ ratio: Figures?) -> String {
        padRight(row.title, 32) + padRight(cpu.text(2), 26) + padRight(rate.text(0), 28)
            + padRight(ratio?.text(2) ?? "", 21) + padRight(redis.median > 0 ? decimal(redis.median, 2) : "", 10) + megabytes(peak)
    }

    func json(_ ratio: Figures?) -> String {
        "    {\"row\": \"\(row.name)\", \"title\": \"\(row.title)\", \"runs\": \(cpu.values.count), \"cpu_us_per_push\": \(cpu.json), "
            + "\"pushes_per_second\": \(rate.json), \"redis_us_per_push\": \(redis.json), "
            + (ratio.map { "\"ratio_to_h2load\": \($0.json), " } ?? "") + "\"peak_bytes\": \(peak)}"
    }
}
