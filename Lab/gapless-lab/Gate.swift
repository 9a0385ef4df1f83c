import ArgumentParser
import Glibc
import Harness

/// How many instructions one push costs the daemon: the gate against slow code that a noisy machine cannot move.
struct Gate: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "bench-gate",
        abstract: "Instructions per push of the whole daemon, by callgrind, against the figures kept in the code.",
        discussion: """
            The daemon runs under valgrind's callgrind twice, with fewer and with more jobs; the difference of instructions is \
            divided by the difference of jobs, so that what start and stop cost falls out. It is measured for a backlog, and for jobs \
            that come one at a time to an idle daemon: there all that a turn of its loops costs, whatever it finds, stands in one \
            job. The figure of a backlog is the same from run to run within about half a percent on a quiet machine, and lower where \
            other work makes batches larger; that of a single job is the same within some five.
            """)

    /// How jobs come, and what is stored of it: measured by this very command, release build, Swift 6.3.1, Debian 12 (nghttp2
    /// 1.52, OpenSSL 3.0, x86-64). Whoever makes the daemon cheaper lowers it in the same commit.
    struct Load {
        let name: String
        let stored: Double
        /// Share of it that a change may cost: more than runs differ by. A beat or a look at Redis more or less is 5 % of a single job.
        let tolerance: Double
        let fewer: Int
        let more: Int
        /// Each job only when the one before it is in the books.
        let isOneByOne: Bool

        static let backlog = Load(
            name: "of a backlog", stored: 17_100, tolerance: 0.03, fewer: 5000, more: 25_000, isOneByOne: false)
        static let single = Load(
            name: "of a single job on an idle daemon", stored: 81_000, tolerance: 0.1, fewer: 50, more: 250, isOneByOne: true)
    }

    @Option(
        help: ArgumentHelp(
            "A setting of the daemon, such as log_successes=true, to see what it costs; repeatable. The gate is then open.",
            valueName: "key=JSON"))
    var set: [String] = []

    @Flag(help: "Also tell which parts of the program and which libraries they are in.")
    var profile = false

    func validate() throws {
        guard set.allSatisfy({ $0.contains("=") }) else { throw ValidationError("--set is KEY=JSON") }
    }

    func run() throws {
        let dearer = try [Load.backlog, .single].filter { try !passes($0) }
        if dearer.isEmpty || !set.isEmpty { return }
        let words = dearer.map { "a push \($0.name) costs over \(Int($0.tolerance * 100)) % more than is stored" }
        throw LabError(description: words.joined(separator: "; "))
    }

    private func passes(_ load: Load) throws -> Bool {
        let least = try count(load, jobs: load.fewer)
        let most = try count(load, jobs: load.more)
        let jobs = load.more - load.fewer
        let each = Double(most.total - least.total) / Double(jobs)
        let change = each / load.stored - 1
        say(
            "\(decimal(each, 0)) instructions per push \(load.name), at least once; \(decimal(load.stored, 0)) are stored: "
                + "\(change < 0 ? "" : "+")\(decimal(change * 100, 1)) %")
        if profile { say(most.table(beyond: least, jobs: jobs)) }
        if change < -load.tolerance && set.isEmpty { say("Cheaper than stored: store \(decimal(each, 0)) in Gate.Load.") }
        return change <= load.tolerance
    }

    private func count(_ load: Load, jobs: Int) throws -> InstructionCount {
        let stage = try Stage(simulator: ["--token-streams", "1000"], ledger: false)
        if !load.isOneByOne { try stage.push((0..<jobs).lazy.map { BenchJob.text($0) }) }
        let file = stage.folder.file("callgrind")
        let daemon = try stage.start(
            try settings(stage), under: ["valgrind", "--tool=callgrind", "--callgrind-out-file=\(file)"])
        if load.isOneByOne {
            for job in 0..<jobs {
                try stage.push([BenchJob.text(job)])
                try wait(for: job + 1, stage, daemon)
            }
        }
        try wait(for: jobs, stage, daemon)
        guard daemon.stop()?.status == 0 else { throw failure(daemon) }
        return InstructionCount(callgrind: File.read(file))
    }

    private func settings(_ stage: Stage) throws -> String {
        var changes = ["apns_max_concurrent_streams": "500"]
        for word in set {
            let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            changes[String(parts[0])] = String(parts[1])
        }
        return try stage.write(changes)
    }

    private func wait(for jobs: Int, _ stage: Stage, _ daemon: DaemonProcess) throws {
        let isDone = try waitUntil(atMost: .seconds(120), every: .milliseconds(5)) { try stage.sent() >= jobs }
        if !isDone { throw failure(daemon) }
    }

    private func failure(_ daemon: DaemonProcess) -> LabError {
        LabError(description: "gaplessd did not send all under callgrind:\n" + daemon.standardError.suffix(3000))
    }
}
