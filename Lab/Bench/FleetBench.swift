import Glibc
import Harness
import Platform
import RedisQueue

/// Measures several daemons on one list: the jobs per second grow with each daemon up to a limit, which the table names.
///
/// With instant responses one daemon uses two processors, and a second one has none. So the streams and the latency of responses
/// limit each daemon here, as with APNs.
struct FleetBench {
    var counts = [1, 2, 4, 8]
    var rounds = 3
    /// Streams of the one session of each daemon.
    var streams = 400
    var latency = Duration.milliseconds(20)
    var warmUp = Duration.seconds(1)
    var window = Duration.seconds(3)

    /// Prints a table, and returns its figures.
    func measure() throws -> JSON {
        guard sysconf(CInt(_SC_NPROCESSORS_ONLN)) > 1 else {
            say("several daemons on one list: needs two processors")
            return .array([])
        }
        var rows = counts.map { FleetResult(daemons: $0, allowed: allowed($0)) }
        for _ in 1...rounds {
            for index in rows.indices {
                let (before, after) = try run(rows[index].daemons)
                rows[index].add(before, after)
            }
        }
        say(
            "\nSeveral daemons on one list, each with 1 session x \(streams) streams, "
                + "responses after \(Int(latency / .milliseconds(1))) ms. "
                + "The daemons share one processor, Redis and the simulator the other. "
                + "Shares are of one processor; medians of \(rounds)."
        )
        say(FleetResult.header)
        for row in rows { say(row.line) }
        return .array(rows.map(\.json))
    }

    /// The jobs per second that the streams of this many daemons allow.
    private func allowed(_ daemons: Int) -> Double { Double(daemons * streams) / (latency / .seconds(1)) }

    /// Returns the looks at the begin and at the end of the window.
    private func run(_ count: Int) throws -> (FleetLook, FleetLook) {
        let stage = try Stage(
            simulator: ["--token-streams", "1000", "--latency", "\(Int(latency / .milliseconds(1)))ms"], ledger: false, pinned: 1)
        // Enough for the whole time and a second for the start.
        let jobs = Int(allowed(count) * ((warmUp + window) / .seconds(1) + 1))
        try stage.push((0..<jobs).lazy.map { BenchJob.text($0) })
        let settings = try stage.write(["pool_size": "1", "apns_max_concurrent_streams": String(streams)])
        let daemons = try (0..<count).map { try stage.start(settings, name: "daemon\($0)", pinned: 0) }
        // The window starts when all daemons have sessions.
        try stage.await("not all daemons have sessions:", atMost: .seconds(20), every: .milliseconds(10)) {
            daemons.allSatisfy { $0.standardOutput.contains("is open, ") }
        }
        wait(warmUp)
        let before = try FleetLook(stage, daemons)
        wait(window)
        let after = try FleetLook(stage, daemons)
        let left = try stage.status().backlog
        guard daemons.allSatisfy({ $0.stop()?.status == 0 }), left > 0 else {
            throw stage.failure("the list was empty too early, or a daemon failed:")
        }
        return (before, after)
    }
}

/// The work of all processes up to one moment.
struct FleetLook {
    let time = Instant.now
    /// Sent jobs by daemon.
    let sent: [Int]
    let daemons: [Duration]
    let redis: Duration
    let simulator: Duration
    let processors: [ProcessorTicks]

    init(_ stage: Stage, _ fleet: [DaemonProcess]) throws {
        daemons = fleet.map(\.preciseProcessorTime)
        redis = preciseProcessorTime(of: stage.redis.process.pid)
        simulator = preciseProcessorTime(of: (stage.service as? SimulatorProcess)?.process.pid ?? 0)
        processors = ProcessorTicks.now()
        let known = fleet.map { FleetLook.reports($0).count }
        for daemon in fleet { daemon.process.kill(SIGUSR1) }
        var reports: [[Int]] = []
        let areHere = waitUntil(every: .milliseconds(5)) {
            reports = fleet.map(FleetLook.reports)
            return zip(reports, known).allSatisfy { $0.count > $1 }
        }
        if !areHere { throw LabError(description: "a daemon does not react to SIGUSR1") }
        sent = reports.compactMap(\.last)
    }

    /// Returns the number of sent jobs of each line `Counters: claimed 5, sent 3, …`.
    private static func reports(_ daemon: DaemonProcess) -> [Int] {
        daemon.standardOutput.split(separator: "\n").filter { $0.contains(" Counters: ") }.compactMap { line in
            let words = line.split { $0 == " " || $0 == "," }
            return words.firstIndex(of: "sent").flatMap { $0 + 1 < words.count ? Int(words[$0 + 1]) : nil }
        }
    }
}

/// The ticks of one processor since the start of the machine.
struct ProcessorTicks {
    var idle: Int
    var all: Int

    static func now() -> [ProcessorTicks] {
        File.read("/proc/stat").split(separator: "\n").filter { $0.hasPrefix("cpu") && !$0.hasPrefix("cpu ") }.map { line in
            // user nice system idle iowait irq softirq steal; user includes the time of guests (proc(5)).
            let ticks = line.split(separator: " ").dropFirst().prefix(8).map { Int($0) ?? 0 }
            return ProcessorTicks(idle: ticks.dropFirst(3).prefix(2).reduce(0, +), all: ticks.reduce(0, +))
        }
    }

    func idleShare(since before: ProcessorTicks) -> Double {
        all > before.all ? Double(idle - before.idle) / Double(all - before.all) : 0
    }
}

/// The results of all runs with this many daemons. Shares refer to one processor.
struct FleetResult {
    let daemons: Int
    /// The jobs per second that the streams allow.
    let allowed: Double
    private var rate = Figures()
    private var each = Figures()
    private var share = Figures()
    private var together = Figures()
    private var redis = Figures()
    private var simulator = Figures()
    private var idleOfDaemons = Figures()
    private var idleOfServers = Figures()

    init(daemons: Int, allowed: Double) {
        self.daemons = daemons
        self.allowed = allowed
    }

    /// Adds the window of one run.
    mutating func add(_ before: FleetLook, _ after: FleetLook) {
        let seconds = (after.time - before.time) / .seconds(1)
        let rates = zip(after.sent, before.sent).map { Double($0 - $1) / seconds }
        let shares = zip(after.daemons, before.daemons).map { ($0 - $1) / .seconds(1) / seconds }
        let idle = zip(after.processors, before.processors).map { $0.idleShare(since: $1) }
        rate.values.append(rates.reduce(0, +))
        each.values += rates
        share.values += shares
        together.values.append(shares.reduce(0, +))
        redis.values.append((after.redis - before.redis) / .seconds(1) / seconds)
        simulator.values.append((after.simulator - before.simulator) / .seconds(1) / seconds)
        idleOfDaemons.values.append(idle[0])
        idleOfServers.values.append(idle[1])
    }

    /// A processor with a lower idle share is full.
    private static let leastIdle = 0.05

    /// The limit of the jobs per second.
    private var limit: String {
        let others = "others used \(percent(1 - idleOfServers.median - redis.median - simulator.median))"
        if idleOfServers.median < Self.leastIdle, rate.median < 0.8 * allowed {
            return
                "the processor of Redis (\(percent(redis.median))) "
                + "and the simulator (\(percent(simulator.median))) is full, \(others)"
        }
        if idleOfDaemons.median < Self.leastIdle, rate.median < 0.8 * allowed {
            let others = "others used \(percent(1 - idleOfDaemons.median - together.median))"
            return "the processor of the daemons is full, \(others)"
        }
        return "the streams: at most \(decimal(allowed, 0)) per second"
    }

    private static let widths = [9, 26, 26, 18, 9, 10, 12, 12]

    static let header = row([
        "daemons", "jobs/s", "jobs/s of each", "CPU of each", "of all", "of Redis", "of simulator", "idle (a/b)",
        "limit",
    ])

    var line: String {
        Self.row([
            String(daemons), rate.text(0), each.text(0),
            "\(percent(share.median)) (\(percent(share.least)) - \(percent(share.most)))", percent(together.median),
            percent(redis.median),
            percent(simulator.median), "\(percent(idleOfDaemons.median)) / \(percent(idleOfServers.median))", limit,
        ])
    }

    private static func row(_ cells: [String]) -> String {
        cells.enumerated().map { $0 < widths.count ? padRight($1, widths[$0]) + " " : $1 }.joined()
    }

    var json: JSON {
        .object([
            ("daemons", .integer(daemons)), ("jobs_per_second", rate.json), ("allowed_by_streams", .number(allowed, digits: 0)),
            ("jobs_per_second_of_each", each.json), ("processor_share_of_each", share.json),
            ("processor_share_of_all", together.json), ("processor_share_of_redis", redis.json),
            ("processor_share_of_simulator", simulator.json), ("idle_share_beside_daemons", idleOfDaemons.json),
            ("idle_share_beside_redis", idleOfServers.json), ("limit", .text(limit)),
        ])
    }
}

/// Formats a share as a whole percentage.
private func percent(_ share: Double) -> String { "\(decimal(share * 100, 0)) %" }
