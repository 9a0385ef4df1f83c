import ArgumentParser
import Glibc
import Harness

/// How many instructions one push costs the daemon: the gate against slow code that a noisy machine cannot move.
struct Gate: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "bench-gate",
        abstract: "Instructions per push of the whole daemon, by callgrind, against the figure kept in the code.",
        discussion: """
            The daemon runs under valgrind's callgrind twice, with a smaller and a larger queue; the difference of \
            instructions is divided by the difference of jobs, so that what start and stop cost falls out. The figure is the \
            same from run to run within about half a percent, whatever else the machine does.
            """)

    /// Measured by this very command, release build, Swift 6.3.1, Debian 12 (nghttp2 1.52, OpenSSL 3.0, x86-64). Whoever makes the
    /// daemon cheaper lowers it in the same commit.
    static let stored = 34_400.0
    /// Share of `stored` that a change may cost.
    static let tolerance = 0.03

    @Option(help: "Jobs of the smaller run.")
    var fewer = 5000

    @Option(help: "Jobs of the larger run.")
    var more = 25_000

    func validate() throws {
        guard fewer >= 1000, more > fewer else { throw ValidationError("--fewer is 1000 or more, and --more is more") }
    }

    func run() throws {
        let least = try instructions(jobs: fewer)
        let most = try instructions(jobs: more)
        let each = Double(most - least) / Double(more - fewer)
        let change = each / Gate.stored - 1
        say(
            "\(decimal(each, 0)) instructions per push, whole path at least once; \(decimal(Gate.stored, 0)) are stored: "
                + "\(change < 0 ? "" : "+")\(decimal(change * 100, 1)) %")
        if change > Gate.tolerance {
            throw LabFailure(description: "more than \(Int(Gate.tolerance * 100)) % above the stored figure")
        }
        if change < -Gate.tolerance { say("Cheaper than stored: set Gate.stored to \(decimal(each, 0)).") }
    }

    private func instructions(jobs: Int) throws -> Int {
        let stage = try Stage(simulator: ["--token-streams", "1000"], ledger: false)
        try stage.push((0..<jobs).lazy.map { BenchJob.text($0) })
        let settings = try stage.settings(["apns_max_concurrent_streams": "500"])
        let counts = stage.folder.file("callgrind")
        let daemon = try stage.start(
            settings, under: ["valgrind", "--tool=callgrind", "--callgrind-out-file=\(counts)"])
        let isDone = try waitUntil(atMost: .seconds(120), every: .milliseconds(50)) { try stage.sent() >= jobs }
        guard isDone, daemon.stop()?.status == 0 else {
            throw LabFailure(description: "gaplessd did not send all under callgrind:\n" + daemon.standardError.suffix(3000))
        }
        let summary = File.read(counts).split(separator: "\n").last { $0.hasPrefix("totals:") || $0.hasPrefix("summary:") }
        guard let count = summary.flatMap({ $0.split(separator: " ").last }).flatMap({ Int($0) }) else {
            throw LabFailure(description: "callgrind counted nothing")
        }
        return count
    }
}
