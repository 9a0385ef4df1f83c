import Harness
internal import RedisQueue

/// Faults of a Redis with a replica. A proxy leads the daemon to the new master, as a service address does.
extension Fault {
    static let failoverRows = [failedOver, failedOverToStale, splitBrain] + sentinelRows

    private static let failedOver = Fault(
        number: 16, name: "failover", title: "failover to an up-to-date replica", rule: .nothingTwice
    ) { trial in
        let pair = try RedisPair(seed: trial.seed)
        try trial.open(on: pair.master, proxies: true)
        let daemon = try trial.start()
        try trial.produceAtWork()
        for number in 1...trial.times(10) {
            trial.pause(100...500)
            let connections = daemon.connections
            try trial.inject(backWithin: .seconds(30)) {
                try trial.failOver(pair, byCommand: number % 2 == 1)
                // The old master stays alive and no connection is cut: the daemon leaves because its blocking read ends or a
                // write fails. The new master counts the pushes from here on.
                try trial.await("the daemon uses the new master") { daemon.connections > connections }
            }
            try pair.join()
        }
    }

    private static let failedOverToStale = Fault(
        number: 17, name: "failover-stale", title: "failover to a stale replica", rule: .ofWhatRedisKept
    ) { trial in
        let pair = try RedisPair(seed: trial.seed)
        try trial.open(on: pair.master, proxies: true)
        try trial.start()
        try trial.produceAtWork()
        for _ in 1...trial.times(10) {
            trial.pause(100...500)
            try trial.inject { try trial.failOverToStale(pair, milliseconds: 300...3000) }
        }
        if trial.complaints("Redis was put back to an earlier state") == 0 {
            trial.fail("no replica was stale: the fault was not tested")
        }
    }

    private static let splitBrain = Fault(
        number: 18, name: "split-brain", title: "two masters with one daemon each, one becomes a replica", rule: .ofWhatRedisKept,
        isQuick: false
    ) { trial in
        let pair = try RedisPair(seed: trial.seed)
        try trial.open(
            simulator: ["--latency", "20ms", "--max-streams", "20", "--token-streams", "20"], on: pair.master, proxies: true,
            settings: ["redis_lease": "1"])
        for round in 1...trial.times(10) {
            let other = try FaultProxy(toUnixSocket: pair.master.socketPath, seed: trial.seed &+ 2)
            let settings = try trial.stage.write(["redis_port": String(other.port), "redis_lease": "1"], name: "other.json")
            let daemons = [try trial.start("one-\(round)"), try trial.start("other-\(round)", settings: settings)]
            // Each round uses new log files.
            try trial.await("both daemons are connected") { daemons.allSatisfy { $0.connections == 1 } }
            try trial.inject { try trial.splitBrain(pair, other: other, daemons: daemons) }
            for daemon in daemons { trial.stop(daemon) }
        }
    }
}
