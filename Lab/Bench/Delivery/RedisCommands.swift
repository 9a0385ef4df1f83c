import Harness
import Platform
import RedisQueue

/// Shows what Redis does for a job: its commands with at-least-once delivery, and those of the bare claim.
struct RedisCommands {
    var jobs: Int

    /// Prints two tables, and returns their figures.
    func measure() throws -> JSON {
        say("Redis for \(jobs) jobs; the commands inside scripts have their own lines, and evalsha includes them")
        let bare = try BareClaims(jobs: jobs).measure { client in
            report("bare claim", try client.command(["INFO", "commandstats"]).text)
        }
        let stage = try Stage(simulator: ["--token-streams", "1000"], ledger: false, pinned: 1)
        if let simulator = stage.service as? SimulatorProcess { simulator.process.pin(to: 0) }
        try stage.push((0..<jobs).lazy.map { BenchJob.text($0) })
        try stage.command("CONFIG", "RESETSTAT")
        let before = preciseProcessorTime(of: stage.redis.process.pid)
        let daemon = try stage.start(try stage.write(["apns_max_concurrent_streams": "500"]), pinned: 0)
        let isDone = try waitUntil(atMost: .seconds(180), every: .milliseconds(10)) { try stage.settled() >= jobs }
        let time = preciseProcessorTime(of: stage.redis.process.pid) - before
        report("at least once", try stage.command("INFO", "commandstats").text)
        guard isDone, daemon.stop()?.status == 0 else {
            throw LabError(description: "gaplessd did not send all jobs:\n" + stage.standardErrors.suffix(3000))
        }
        let costs = [bare, time].map { $0 / .microseconds(1) / Double(jobs) }
        let (bareText, text) = (decimal(costs[0], 2), decimal(costs[1], 2))
        say("\nprocessor time of Redis: \(bareText) us per job for the bare claim, \(text) at least once")
        return .object([("bare_claim_us", .number(costs[0], digits: 2)), ("at_least_once_us", .number(costs[1], digits: 2))])
    }

    /// Prints the commands, the most expensive first: lines such as `cmdstat_lrange:calls=800,usec=9000,usec_per_call=11.25`.
    private func report(_ title: String, _ information: String?) {
        say("\n" + padRight(title, 20) + padLeft("calls per 1000 jobs", 20) + padLeft("us per job", 14))
        let lines = (information ?? "").matches(of: #/cmdstat_([^:]+):calls=(\d+),usec=(\d+)/#)
        let costs = lines.map { (name: $0.1, calls: Double($0.2) ?? 0, time: Double($0.3) ?? 0) }
        for cost in costs.sorted(by: { $0.time > $1.time }) where cost.time / Double(jobs) >= 0.005 {
            let calls = decimal(cost.calls / Double(jobs) * 1000, 1)
            say(padRight(String(cost.name), 20) + padLeft(calls, 20) + padLeft(decimal(cost.time / Double(jobs), 3), 14))
        }
    }
}
