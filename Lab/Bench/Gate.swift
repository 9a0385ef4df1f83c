import ArgumentParser
import Glibc
import Harness

/// Compares the instructions per push with a stored figure, independently of the load of the machine.
struct Gate: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "bench-gate",
        abstract: "Compares the instructions per push of the daemon, by callgrind, with the stored figures.",
        discussion: """
            The daemon runs under valgrind's callgrind twice, with fewer and with more jobs. The difference of instructions \
            is divided by the difference of jobs, which excludes the start and the stop. There are three loads: a backlog, a \
            campaign, and single jobs on an idle daemon, each of which includes a whole turn of the loops. The figure of a \
            backlog varies by about half a percent on a quiet machine, and is lower if other processes make the batches \
            larger. The figure of a single job varies by about five percent.
            """)

    /// A load and its stored figure, measured by this command: release build, Swift 6.3.1, Debian 12 (nghttp2 1.52, OpenSSL 3.0,
    /// x86-64). A commit that makes the daemon cheaper lowers the figure.
    struct Load {
        let name: String
        let stored: Double
        /// The accepted increase: more than the variation between runs. One more heartbeat is 5 % of a single job.
        let tolerance: Double
        let fewer: Int
        let more: Int
        /// Whether each job is pushed only after the settlement of the previous one.
        var isOneByOne = false
        var isCampaign = false

        static let backlog = Load(
            name: "of a backlog", stored: 14_300, tolerance: 0.03, fewer: 5000, more: 25_000)
        static let campaign = Load(
            name: "of a campaign", stored: 11_600, tolerance: 0.1, fewer: 5000, more: 25_000, isCampaign: true)
        static let single = Load(
            name: "of a single job on an idle daemon", stored: 85_500, tolerance: 0.1, fewer: 50, more: 250, isOneByOne: true)
    }

    @Option(
        help: ArgumentHelp(
            "A setting of the daemon, such as log_successes=true, to measure its cost; repeatable. "
                + "The comparison then never fails.",
            valueName: "key=JSON"))
    var set: [String] = []

    @Flag(help: "Also print the instructions by module and library.")
    var profile = false

    func validate() throws {
        guard set.allSatisfy({ $0.contains("=") }) else { throw ValidationError("--set must have the form KEY=JSON") }
    }

    func run() throws {
        let dearer = try [Load.backlog, .campaign, .single].filter { try !passes($0) }
        if dearer.isEmpty || !set.isEmpty { return }
        let words = dearer.map { "a push \($0.name) costs over \(Int($0.tolerance * 100)) % more than the stored figure" }
        throw LabError(description: words.joined(separator: "; "))
    }

    private func passes(_ load: Load) throws -> Bool {
        let least = try count(load, jobs: load.fewer)
        let most = try count(load, jobs: load.more)
        let jobs = load.more - load.fewer
        let each = Double(most.total - least.total) / Double(jobs)
        let change = each / load.stored - 1
        say(
            "\(decimal(each, 0)) instructions per push \(load.name), at least once; stored: \(decimal(load.stored, 0)), "
                + "\(change < 0 ? "" : "+")\(decimal(change * 100, 1)) %")
        if profile { say(most.table(beyond: least, jobs: jobs)) }
        if change < -load.tolerance && set.isEmpty {
            say("Cheaper than the stored figure: store \(decimal(each, 0)) in Gate.Load.")
        }
        return change <= load.tolerance
    }

    private func count(_ load: Load, jobs: Int) throws -> InstructionCount {
        let stage = try Stage(simulator: ["--token-streams", "1000"], ledger: false)
        if load.isCampaign {
            try stage.push((0..<jobs).lazy.map(deviceToken), to: "audience")
            try stage.push(#"{"tokens_from":"audience","campaign":"sale","data":\#(BenchJob.payload(200))}"#)
        } else if !load.isOneByOne {
            try stage.push((0..<jobs).lazy.map { BenchJob.text($0) })
        }
        let file = stage.folder.file("callgrind")
        // Equal seeds of hash tables, whose collisions would differ between the two runs.
        let daemon = try stage.start(
            try settings(stage),
            under: ["env", "SWIFT_DETERMINISTIC_HASHING=1", "valgrind", "--tool=callgrind", "--callgrind-out-file=\(file)"])
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
        LabError(description: "gaplessd did not send all jobs under callgrind:\n" + daemon.standardError.suffix(3000))
    }
}

/// The instructions of one run by module and library, counted by callgrind.
struct InstructionCount {
    private var byPart: [Substring: Int] = [:]

    var total: Int { byPart.values.reduce(0, +) }

    /// - Parameter text: the format of callgrind. Names occur once and then as numbers. The line after `calls=` is the cost of
    ///   the called function, which also has its own lines.
    init(callgrind text: String) {
        var objects = Names()
        var functions = Names()
        var (object, function): (Substring, Substring) = ("", "")
        var part: Substring = ""
        var isOfCall = false
        for line in text.split(separator: "\n") {
            if let first = line.utf8.first, (0x30...0x39).contains(first) || first == 0x2B || first == 0x2D || first == 0x2A {
                if !isOfCall, let cost = line.split(separator: " ").last.flatMap({ Int($0) }) { byPart[part, default: 0] += cost }
                isOfCall = false
            } else if line.hasPrefix("calls=") {
                isOfCall = true
            } else if line.hasPrefix("ob=") {
                object = objects.read(line.dropFirst(3))
            } else if line.hasPrefix("fn=") {
                function = functions.read(line.dropFirst(3))
                part = InstructionCount.part(of: function, in: object)
            } else if line.hasPrefix("cob=") {
                _ = objects.read(line.dropFirst(4))
            } else if line.hasPrefix("cfn=") {
                _ = functions.read(line.dropFirst(4))
            }
        }
    }

    /// Names that occur in full the first time, and as numbers later: `(7) memcpy`, `(7)`.
    private struct Names {
        private var known: [Substring: Substring] = [:]

        mutating func read(_ text: Substring) -> Substring {
            let parts = text.split(separator: " ", maxSplits: 1)
            guard parts.count == 2 else { return known[text] ?? "?" }
            known[parts[0]] = parts[1]
            return parts[1]
        }
    }

    /// Returns the library, or the module of gaplessd by the mangled name of the function.
    private static func part(of function: Substring, in object: Substring) -> Substring {
        let file = object.split(separator: "/").last ?? "?"
        guard file == "gaplessd" || file.hasPrefix("libswift") else { return file }
        let modules = ["gaplessd", "PushPool", "RedisQueue", "JSONBytes", "Platform"]
        for module in modules where function.hasPrefix("$s\(module.utf8.count)\(module)") { return Substring(module) }
        return "Swift runtime and standard library"
    }

    /// Formats the cost of the additional jobs by part, the most expensive first.
    func table(beyond less: InstructionCount, jobs: Int) -> String {
        let costs = byPart.map { (name: $0.key, each: Double($0.value - less.byPart[$0.key, default: 0]) / Double(jobs)) }
        return costs.filter { $0.each >= 10 }.sorted { $0.each > $1.each }
            .map { padLeft(decimal($0.each, 0), 8) + "  " + $0.name }.joined(separator: "\n")
    }
}
