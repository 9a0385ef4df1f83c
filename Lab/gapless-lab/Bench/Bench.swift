import ArgumentParser
import Glibc
import Harness

/// CPU per push and pushes per second of the whole daemon, with h2load's bare requests beside it in the same run.
struct Bench: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Processor time per push, pushes per second, memory and latency; h2load is the yardstick.",
        discussion: """
            The load runs on one processor, Redis and the server on the other. h2load sends the same request to the same \
            server, without a queue: its processor time per request is the yardstick, and the ratio to it is what may be \
            compared between machines. Runs of all rows alternate, and each ratio is taken within one round; medians of \
            --runs, with minimum and maximum.
            """)

    @Option(help: "Jobs of one run.")
    var jobs = 200_000

    @Option(help: "Runs of each row.")
    var runs = 5

    @Option(
        help: ArgumentHelp(
            "Only this row, beside its yardstick; repeatable. One of \(BenchRow.all.map(\.name).joined(separator: ", ")).",
            valueName: "name"))
    var row: [String] = []

    @Flag(help: "Also drain a backlog of a million jobs, for its memory.")
    var million = false

    @Flag(help: "Also measure latencies, and what the daemon does while idle.")
    var latency = false

    @Flag(help: "Also measure several daemons on one queue: jobs per second of 1, 2, 4 and 8, and what limits them.")
    var fleet = false

    @Flag(help: "Also compare at least once with at most once where Redis has a processor of its own.")
    var delivery = false

    @Option(help: "Write all figures to this file as JSON.")
    var json: String?

    func validate() throws {
        guard jobs >= 1000, runs >= 1 else { throw ValidationError("--jobs is 1000 or more, --runs 1 or more") }
        for name in row where !BenchRow.all.contains(where: { $0.name == name }) {
            throw ValidationError("--row is one of \(BenchRow.all.map(\.name).joined(separator: ", "))")
        }
    }

    func run() throws {
        say("gaplessd bench: \(Machine.description)")
        say("\(jobs) pushes a run, 2 sessions x 500 streams, 200-byte body, provider token; medians of \(runs) (min - max)\n")
        let results = try measureRows()
        say(BenchResult.header)
        var records: [String] = []
        for result in results {
            let yardstick = results.first { $0.row.name == result.row.yardstick }
            let ratio = yardstick.map { result.ratio(to: $0) }
            say(result.line(ratio))
            records.append(result.json(ratio))
        }
        var sections = ["  \"rows\": [\n" + records.joined(separator: ",\n") + "\n  ]"]
        say("")
        sections.append(try ScannerBench().measure())
        if fleet { sections.append(try FleetBench().measure()) }
        if delivery { sections.append(try DeliveryBench().measure()) }
        if million { sections.append(try Backlog().measure()) }
        if latency { sections += try LatencyBench().measure() }
        guard let json else { return }
        let head = "  \"machine\": \"\(Machine.description)\",\n  \"pushes_per_run\": \(jobs)"
        try File.write("{\n" + ([head] + sections).joined(separator: ",\n") + "\n}\n", to: json)
        say("\nall figures: \(json)")
    }

    private func measureRows() throws -> [BenchResult] {
        let wanted = row.isEmpty ? Set(BenchRow.all.map(\.name)) : Set(row)
        let needed = wanted.union(BenchRow.all.filter { wanted.contains($0.name) }.compactMap(\.yardstick))
        var results = BenchRow.all.filter { needed.contains($0.name) }.map(BenchResult.init)
        for round in 1...runs {
            for index in results.indices {
                progress("run \(round) of \(runs): \(results[index].row.title)")
                let run = try BenchRun(jobs: jobs).measure(results[index].row.load)
                results[index].add(run, pushes: jobs)
            }
        }
        progress("")
        return results
    }

    /// One line that is written over, on a terminal only.
    private func progress(_ text: String) {
        guard isatty(1) == 1 else { return }
        print("\r\u{1B}[K" + text, terminator: "")
        fflush(nil)
    }
}
