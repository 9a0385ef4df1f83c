import Harness

/// One row of the benchmark table.
struct BenchRow {
    enum Load: Equatable {
        /// nghttp2's load generator against the simulator: bare requests without a queue. The reference.
        case h2load(bodyBytes: Int)
        /// The same against nghttp2's server.
        case h2loadToNghttpd
        /// The session pool alone against the simulator, without Redis and JSON.
        case pool
        case poolToNghttpd
        /// The client library in a program of Client/Examples.
        case client([String])
        /// The daemon.
        case daemon(settings: [String: String] = [:], simulator: [String] = [], bodyBytes: Int = 200)
    }

    /// A program that this build does not make. The option of the same name has its path.
    enum OtherProgram: String {
        case client, older
    }

    let name: String
    let title: String
    let load: Load
    /// The row for comparison of the CPU per request.
    let reference: String?
    let program: OtherProgram?

    private init(
        _ name: String, _ title: String, _ load: Load, against reference: String? = "h2load", of program: OtherProgram? = nil
    ) {
        (self.name, self.title, self.load, self.reference, self.program) = (name, title, load, reference, program)
    }

    static let all = [
        BenchRow("h2load", "h2load, bare requests", .h2load(bodyBytes: 200), against: nil),
        BenchRow("pool", "session pool alone", .pool),
        BenchRow("client", "APNSClient, await in 1,000 tasks", .client([]), of: .client),
        BenchRow("client-sequence", "APNSClient, results of a sequence", .client(["--sequence"]), of: .client),
        BenchRow("whole", "gaplessd, at least once", .daemon()),
        BenchRow("older", "older gaplessd, at least once", .daemon(), of: .older),
        BenchRow("at-most-once", "gaplessd, at most once", .daemon(settings: ["redis_delivery": "\"at_most_once\""])),
        BenchRow("log", "gaplessd, log_successes", .daemon(settings: ["log_successes": "true"])),
        BenchRow("h2load-4k", "h2load, 4 KiB bodies", .h2load(bodyBytes: 4000), against: nil),
        BenchRow("4k", "gaplessd, 4 KiB payloads", .daemon(bodyBytes: 4000), against: "h2load-4k"),
        BenchRow("older-4k", "older gaplessd, 4 KiB payloads", .daemon(bodyBytes: 4000), against: "h2load-4k", of: .older),
        BenchRow("1-session", "gaplessd, 1 session", .daemon(settings: ["pool_size": "1"])),
        BenchRow("10-sessions", "gaplessd, 10 sessions", .daemon(settings: ["pool_size": "10"])),
        BenchRow("20ms", "gaplessd, responses after 20 ms", .daemon(simulator: ["--latency", "20ms"])),
        BenchRow("100ms", "gaplessd, responses after 100 ms", .daemon(simulator: ["--latency", "100ms"])),
        BenchRow(
            "errors", "gaplessd, 5 % errors",
            .daemon(settings: ["retry_delays": "[0.1]"], simulator: ["--fail", "503:3%", "--dead", "2%"])),
        BenchRow("h2load-nghttpd", "h2load to nghttpd", .h2loadToNghttpd, against: nil),
        BenchRow("pool-nghttpd", "session pool to nghttpd", .poolToNghttpd, against: "h2load-nghttpd"),
    ]
}
