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
