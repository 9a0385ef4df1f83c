import Harness
internal import RedisQueue

/// Faults of a Redis that has a replica. The daemon finds the new master through a proxy, as through a service's address.
extension Fault {
    static let failoverRows = [failedOver, failedOverToStale, splitBrain] + sentinelRows

    private static let failedOver = Fault(
        number: 16, name: "failover", title: "failover to an up-to-date replica", rule: .nothingTwice, isQuick: false
    ) { trial in
        let pair = try RedisPair(seed: trial.seed)
        try trial.open(on: pair.master, proxies: true)
        let daemon = try trial.start()
        try trial.produceAtWork()
        for number in 1...trial.times(10) {
            trial.pause(100...500)
            let connections = daemon.connections
            try trial.strike(backWithin: .seconds(30)) {
                try trial.failOver(pair, byCommand: number % 2 == 1)
                // Its old master lives, and nobody cuts anything: it leaves because it was turned out as a reader that waits, or
                // refused as a writer. What is sent from here on is counted in the books of the new master.
                try trial.await("the daemon has gone over to the new master") { daemon.connections > connections }
            }
            try pair.join()
        }
    }

    private static let failedOverToStale = Fault(
        number: 17, name: "failover-stale", title: "failover to a stale replica", rule: .ofWhatRedisKept, isQuick: false
    ) { trial in
        let pair = try RedisPair(seed: trial.seed)
        try trial.open(on: pair.master, proxies: true)
        try trial.start()
        try trial.produceAtWork()
        for _ in 1...trial.times(10) {
            trial.pause(100...500)
            try trial.strike { try trial.failOverToStale(pair, milliseconds: 300...3000) }
        }
        if trial.linesSaying("Redis was put back to an earlier state") == 0 {
            trial.fail("no replica was stale: nothing was tried")
        }
    }

    private static let splitBrain = Fault(
        number: 18, name: "split-brain", title: "two masters, a daemon at each, one gives way", rule: .ofWhatRedisKept,
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
            // A log of its own each round: what is counted in it is this daemon's.
            try trial.await("both are at work") { daemons.allSatisfy { $0.connections == 1 } }
            try trial.strike { try trial.splitBrain(pair, other: other, daemons: daemons) }
            for daemon in daemons {
                trial.forget(daemon)
                if daemon.stop()?.status != 0 { trial.fail("gaplessd did not stop well") }
            }
        }
    }
}
