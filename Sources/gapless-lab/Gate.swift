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
            same from run to run within about half a percent on a quiet machine, and lower where other work makes batches larger.
            """)

    /// Measured by this very command, release build, Swift 6.3.1, Debian 12 (nghttp2 1.52, OpenSSL 3.0, x86-64). Whoever makes the
    /// daemon cheaper lowers it in the same commit.
    static let stored = 17_900.0
    /// Share of `stored` that a change may cost.
    static let tolerance = 0.03

    @Option(help: "Jobs of the smaller run.")
    var fewer = 5000

    @Option(help: "Jobs of the larger run.")
    var more = 25_000

    @Option(help: ArgumentHelp("A setting of the daemon, such as log_successes=true, to see what it costs; repeatable. The gate is then open.", valueName: "key=JSON"))
    var set: [String] = []

    @Flag(help: "Also tell which parts of the program and which libraries they are in.")
    var profile = false

    func validate() throws {
        guard fewer >= 1000, more > fewer else { throw ValidationError("--fewer is 1000 or more, and --more is more") }
        guard set.allSatisfy({ $0.contains("=") }) else { throw ValidationError("--set is KEY=JSON") }
    }

    func run() throws {
        let least = try count(jobs: fewer)
        let most = try count(jobs: more)
        let each = Double(most.total - least.total) / Double(more - fewer)
        let change = each / Gate.stored - 1
        say(
            "\(decimal(each, 0)) instructions per push, whole path at least once; \(decimal(Gate.stored, 0)) are stored: "
                + "\(change < 0 ? "" : "+")\(decimal(change * 100, 1)) %")
        if profile { say(most.table(beyond: least, jobs: more - fewer)) }
        if !set.isEmpty { return }
        if change > Gate.tolerance {
            throw LabFailure(description: "more than \(Int(Gate.tolerance * 100)) % above the stored figure")
        }
        if change < -Gate.tolerance { say("Cheaper than stored: set Gate.stored to \(decimal(each, 0)).") }
    }

    private func count(jobs: Int) throws -> InstructionCount {
        let stage = try Stage(simulator: ["--token-streams", "1000"], ledger: false)
        try stage.push((0..<jobs).lazy.map { BenchJob.text($0) })
        var changes = ["apns_max_concurrent_streams": "500"]
        for word in set {
            let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            changes[String(parts[0])] = String(parts[1])
        }
        let settings = try stage.settings(changes)
        let file = stage.folder.file("callgrind")
        let daemon = try stage.start(settings, under: ["valgrind", "--tool=callgrind", "--callgrind-out-file=\(file)"])
        let isDone = try waitUntil(atMost: .seconds(120), every: .milliseconds(50)) { try stage.sent() >= jobs }
        guard isDone, daemon.stop()?.status == 0 else {
            throw LabFailure(description: "gaplessd did not send all under callgrind:\n" + daemon.standardError.suffix(3000))
        }
        return InstructionCount(callgrind: File.read(file))
    }
}
