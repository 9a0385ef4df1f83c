import Harness
internal import RedisQueue

/// Upgrades from 0.1.0, which kept the jobs in flight of a worker in a hash.
extension Fault {
    static let upgradeRows = [upgraded, rollingUpgrade]

    /// Workers of the first version died while they held jobs. The row writes the keys as that version left them.
    private static let upgraded = Fault(
        number: 49, name: "upgrade", title: "jobs held by dead workers of 0.1.0", rule: .onlyWhatWasInFlight,
        isQuick: true
    ) { trial in
        try trial.open(settings: ["redis_lease": "1"])
        let keys = trial.stage.keys
        for turn in 0..<trial.times(10) {
            try trial.queue(100)
            // Half of the jobs were claimed, some had been in a crash before, and some workers left no details.
            let worker = "00000000000000\(10 + turn)-\(1000 + turn)-77-0"
            let jobs = try trial.stage.command(["LRANGE", keys.list, "0", "49"]).items?.compactMap(\.text) ?? []
            try trial.stage.command(["LTRIM", keys.list, "50", "-1"])
            let fields = jobs.enumerated().flatMap { ["\($0.offset + 1)" + ["", ":1", ":2"][turn % 3], $0.element] }
            try trial.stage.command(["HSET", keys.inflight(worker)] + fields)
            try trial.stage.command(["ZADD", keys.workers, String(trial.draw(1...1000)), worker])
            try trial.stage.command(["HINCRBY", keys.stats, "claimed", "50"])
            if turn % 2 == 0 {
                let details = ["host", "before", "pid", "1", "version", "0.1.0", "started", "1", "number", "1", "settled", "0"]
                try trial.stage.command(["HSET", keys.worker(worker)] + details)
            }
            trial.count(1)
            trial.allowTwice(50)
        }
        try trial.start()
        try trial.await("all are settled") { try trial.status().isDrained && trial.status().workers.count == 1 }
        trial.afterwards = { status in
            if status.counter(.recovered) != 50 * trial.times { trial.fail("\(status.counter(.recovered)) jobs recovered") }
        }
    }

    /// Daemons of 0.1.0 and of this version claim the jobs of one list.
    private static let rollingUpgrade = Fault(
        number: 74, name: "rolling-upgrade", title: "a rolling upgrade from 0.1.0, kill -9 of both versions",
        rule: .onlyWhatWasInFlight, isQuick: true
    ) { trial in
        guard let older = trial.older else {
            throw TrialNotPossibleError(description: "it needs a daemon of 0.1.0 (scripts/older-daemon, or --older PATH)")
        }
        try trial.open(simulator: ["--latency", "20ms..60ms"])
        try trial.produce()
        var upgrade = RollingUpgrade(trial, from: older)
        for _ in 1...(trial.scale == .full ? 10 : 1) { try upgrade.roll() }
    }
}
