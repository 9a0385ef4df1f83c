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
            for index in rows.indices { rows[index].add(try run(rows[index].daemons)) }
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

    private func run(_ count: Int) throws -> FleetRun {
        let stage = try Stage(
            simulator: ["--token-streams", "1000", "--latency", "\(Int(latency / .milliseconds(1)))ms"], ledger: false, pinned: 1)
        // Enough for the whole time and a second for the start.
        let jobs = Int(allowed(count) * ((warmUp + window) / .seconds(1) + 1))
        try stage.push((0..<jobs).lazy.map { BenchJob.text($0) })
        let settings = try stage.write(["pool_size": "1", "apns_max_concurrent_streams": String(streams)])
        let daemons = try (0..<count).map { try stage.start(settings, name: "daemon\($0)", pinned: 0) }
        // The window starts when all daemons have sessions.
        guard
            waitUntil(
                atMost: .seconds(20), every: .milliseconds(10), { daemons.allSatisfy { $0.standardOutput.contains("is open, ") } }
            )
        else { throw LabError(description: "not all daemons have sessions:\n" + stage.standardErrors.suffix(3000)) }
        wait(warmUp)
        let before = try FleetLook(stage, daemons)
        wait(window)
        let after = try FleetLook(stage, daemons)
        let left = try stage.status().backlog
        guard daemons.allSatisfy({ $0.stop()?.status == 0 }), left > 0 else {
            throw LabError(
                description: "the list was empty too early, or a daemon failed:\n" + stage.standardErrors.suffix(3000))
        }
        return FleetRun(before, after)
    }
}
