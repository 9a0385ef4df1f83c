import Clocks
import Glibc
import Harness
import RedisQueue

/// Several daemons on one queue: jobs a second go up with each of them until something is full, and this tells what.
///
/// Before instant answers one daemon alone keeps two processors busy, and a second one has nowhere to run. So each is held back here by
/// its own streams and by the latency of answers, as it is before APNs.
struct FleetBench {
    var counts = [1, 2, 4, 8]
    var rounds = 3
    /// Of each daemon's one session.
    var streams = 400
    var latency = Duration.milliseconds(20)
    var warmUp = Duration.seconds(1)
    var window = Duration.seconds(3)

    /// Prints a table; returns its part of the JSON.
    func measure() throws -> String {
        guard sysconf(CInt(_SC_NPROCESSORS_ONLN)) > 1 else {
            say("several daemons on one queue: needs two processors")
            return "  \"fleet\": []"
        }
        var rows = counts.map { FleetResult(daemons: $0, allowed: allowed($0)) }
        for _ in 1...rounds {
            for index in rows.indices { rows[index].add(try run(rows[index].daemons)) }
        }
        say(
            "\nSeveral daemons on one queue, each with 1 session x \(streams) streams, answers after \(Int(latency / .milliseconds(1))) ms. "
                + "The daemons share one processor, Redis and the simulator the other. Shares are of one processor; medians of \(rounds)."
        )
        say(FleetResult.header)
        for row in rows { say(row.line) }
        return "  \"fleet\": [\n" + rows.map(\.json).joined(separator: ",\n") + "\n  ]"
    }

    /// Jobs a second that so many daemons' streams can carry.
    private func allowed(_ daemons: Int) -> Double { Double(daemons * streams) / (latency / .seconds(1)) }

    private func run(_ count: Int) throws -> FleetRun {
        let stage = try Stage(
            simulator: ["--token-streams", "1000", "--latency", "\(Int(latency / .milliseconds(1)))ms"], ledger: false, pinned: 1)
        // Enough for the whole time, and a second for the start.
        let jobs = Int(allowed(count) * ((warmUp + window) / .seconds(1) + 1))
        try stage.push((0..<jobs).lazy.map { BenchJob.text($0) })
        let settings = try stage.write(["pool_size": "1", "apns_max_concurrent_streams": String(streams)])
        let daemons = try (0..<count).map { try stage.start(settings, name: "daemon\($0)", pinned: 0) }
        // All have sessions: else the time of the window would be that of their start.
        guard
            waitUntil(
                atMost: .seconds(20), every: .milliseconds(10), { daemons.allSatisfy { $0.standardOutput.contains("is open, ") } }
            )
        else { throw LabError(description: "not all have sessions:\n" + stage.standardErrors.suffix(3000)) }
        _ = waitUntil(atMost: warmUp) { false }
        let before = try FleetLook(stage, daemons)
        _ = waitUntil(atMost: window) { false }
        let after = try FleetLook(stage, daemons)
        let left = try stage.status().backlog
        guard daemons.allSatisfy({ $0.stop()?.status == 0 }), left > 0 else {
            throw LabError(
                description: "the queue was empty too soon, or a daemon failed:\n" + stage.standardErrors.suffix(3000))
        }
        return FleetRun(before, after)
    }
}
