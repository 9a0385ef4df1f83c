import ArgumentParser
import Glibc
import Harness

/// Measures CPU per push and pushes per second of the daemon, next to bare requests of h2load in the same run.
struct Bench: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Measures processor time per push, pushes per second, memory and latency, with h2load as the reference.",
        discussion: """
            The load runs on one processor, Redis and the server on the other. h2load sends the same request to the same \
            server, without a queue: its processor time per request is the reference, and the ratio to it is comparable \
            between machines. Runs of all rows alternate, and each ratio is computed within one round. The table shows \
            medians of --runs, with minimum and maximum.
            """)

    @Option(help: "Jobs per run.")
    var jobs = 200_000

    @Option(help: "Runs per row.")
    var runs = 5

    @Option(
        help: ArgumentHelp(
            "Only this row and its reference; repeatable. One of \(BenchRow.all.map(\.name).joined(separator: ", ")).",
            valueName: "name"))
    var row: [String] = []

    @Flag(help: "Also measure the memory while a backlog of a million jobs drains.")
    var million = false

    @Flag(help: "Also measure latencies and the idle daemon.")
    var latency = false

    @Flag(help: "Also measure 1, 2, 4 and 8 daemons on one list, and the limit of each.")
    var fleet = false

    @Flag(help: "Also compare at least once with at most once, with one processor for Redis alone.")
    var delivery = false

    @Option(help: "The program client-load of Client/Examples, for the rows of the client library.")
    var client: String?

    @Flag(help: "Measure only pools at 20, 100 and 300 ms from the server, next to h2load through the same relay.")
    var distance = false

    @Option(
        help: ArgumentHelp(
            "With --distance: only this round trip in ms and payload in bytes, such as 100x1024; repeatable.", valueName: "point")
    )
    var point: [String] = []

    @Flag(help: "Measure only the memory of Redis with a million jobs that wait, and in flight.")
    var redisMemory = false

    @Flag(help: "Measure only what Redis does for a job, by command.")
    var redisCommands = false

    @Flag(help: "Measure only thousands of apps, of which few have jobs.")
    var apps = false

    @Flag(help: "Measure only campaigns, next to single jobs and jobs for 250 devices.")
    var campaign = false

    @Flag(help: "Measure only channels with states beside pushes to devices, and the memory of states that wait.")
    var match = false

    @Option(help: "With --match: the seconds in which responses of 429 are counted.")
    var seconds = 600

    @Option(help: "With --campaign: the number of daemons.")
    var daemons = 1

    @Option(help: "With --campaign: the bytes of the payload.")
    var body = 200

    @Option(help: "With --campaign: the milliseconds of a response.")
    var delay = 0

    @Option(help: "With --apps: the number of apps.")
    var appCount = 5000

    @Option(help: "With --apps: the seconds of changing files.")
    var changing = 60

    @Flag(help: "Measure only two apps beside a disturbed one.")
    var isolation = false

    @Option(
        help: ArgumentHelp(
            "With --isolation: only this kind; repeatable. One of "
                + Disturbance.allCases.map(\.rawValue).joined(separator: ", ") + ".",
            valueName: "kind"))
    var disturbance: [String] = []

    @Option(
        help: ArgumentHelp(
            "An older daemon to measure. Without it, --redis-memory measures that of scripts/older-daemon.",
            valueName: "path"))
    var older: String?

    @Option(help: "Write all figures to this file as JSON.")
    var json: String?

    func validate() throws {
        guard jobs >= 1000, runs >= 1 else { throw ValidationError("--jobs must be at least 1000, and --runs at least 1") }
        for row in BenchRow.all where self.row.contains(row.name) {
            if let program = row.program, path(of: program) == nil {
                throw ValidationError("--row \(row.name) needs --\(program.rawValue)")
            }
        }
        for name in row where !BenchRow.all.contains(where: { $0.name == name }) {
            throw ValidationError("--row must be one of \(BenchRow.all.map(\.name).joined(separator: ", "))")
        }
        for name in point where !DistancePoint.all.contains(where: { $0.name == name }) {
            throw ValidationError("--point must be one of \(DistancePoint.all.map(\.name).joined(separator: ", "))")
        }
        if let older, unsafe access(older, X_OK) != 0 { throw ValidationError("--older: \(older) is not a program") }
        if !point.isEmpty && !distance { throw ValidationError("--point needs --distance") }
        for name in disturbance where Disturbance(rawValue: name) == nil {
            throw ValidationError("--disturbance \(name): unknown kind")
        }
        if !disturbance.isEmpty && !isolation { throw ValidationError("--disturbance needs --isolation") }
    }

    private var disturbances: [Disturbance] {
        disturbance.isEmpty ? Disturbance.allCases : disturbance.compactMap(Disturbance.init)
    }

    func run() throws {
        say("gaplessd bench: \(Machine.description)")
        if distance { return try measureDistance() }
        if redisMemory { return try write([("redis_memory", RedisMemory(older: older ?? BuiltProducts.olderDaemon).measure())]) }
        if apps { return try write([("apps", AppsBench(apps: appCount, jobs: jobs, changing: changing).measure())]) }
        if isolation {
            let bench = IsolationBench(kinds: disturbances, jobs: jobs / 10, pairs: runs)
            return try write([("isolation", bench.measure())])
        }
        if campaign {
            let bench = CampaignBench(tokens: jobs, daemons: daemons, bodyBytes: body, latency: delay)
            return try write([("campaign", bench.measure())])
        }
        if match { return try write([("match", MatchBench(jobs: jobs, rounds: runs, seconds: seconds).measure())]) }
        if redisCommands { return try write([("redis_commands", RedisCommands(jobs: jobs).measure())]) }
        say("\(jobs) pushes per run, 2 sessions x 500 streams, 200-byte body, provider token; medians of \(runs) (min - max)\n")
        let results = try measureRows()
        say(BenchResult.header)
        var records: [JSON] = []
        for result in results {
            let reference = results.first { $0.row.name == result.row.reference }
            let ratio = reference.map { result.ratio(to: $0) }
            say(result.line(ratio))
            records.append(result.json(ratio))
        }
        var sections = [("rows", JSON.array(records))]
        say("")
        sections.append(("scanner", try ScannerBench().measure()))
        if fleet { sections.append(("fleet", try FleetBench().measure())) }
        if delivery { sections.append(("delivery", try DeliveryBench().measure())) }
        if million { sections.append(("backlog", try Backlog().measure())) }
        if latency { sections += try LatencyBench().measure() }
        try write([("pushes_per_run", .integer(jobs))] + sections)
    }

    private func measureDistance() throws {
        let points = DistancePoint.all.filter { point.isEmpty || point.contains($0.name) }
        try write([("distance", try DistanceBench(points: points).measure())])
    }

    private func write(_ sections: [(String, JSON)]) throws {
        guard let json else { return }
        let bytes = JSON.object([("machine", .text(Machine.description))] + sections).bytes()
        try File.write(String(decoding: bytes, as: UTF8.self) + "\n", to: json)
        say("\nAll figures are in \(json).")
    }

    private func path(of program: BenchRow.OtherProgram) -> String? {
        switch program {
        case .client: client
        case .older: older
        }
    }

    private func measureRows() throws -> [BenchResult] {
        let all = BenchRow.all.filter { $0.program == nil || $0.program.flatMap(path) != nil }
        let wanted = row.isEmpty ? Set(all.map(\.name)) : Set(row)
        let needed = wanted.union(BenchRow.all.filter { wanted.contains($0.name) }.compactMap(\.reference))
        var results = BenchRow.all.filter { needed.contains($0.name) }.map(BenchResult.init)
        for round in 1...runs {
            for index in results.indices {
                progress("run \(round) of \(runs): \(results[index].row.title)")
                let row = results[index].row
                let run = try BenchRun(jobs: jobs, program: row.program.flatMap(path)).measure(row.load)
                results[index].add(run, pushes: jobs)
            }
        }
        progress("")
        return results
    }

    /// Writes a line that the next one replaces, only on a terminal.
    private func progress(_ text: String) {
        guard isatty(1) == 1 else { return }
        print("\r\u{1B}[K" + text, terminator: "")
        fflush(nil)
    }
}

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
