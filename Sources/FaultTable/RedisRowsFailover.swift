import Harness
internal import RedisQueue

/// Faults of a Redis that has a replica. The daemon finds the new master through a proxy, as through a service's address.
extension Fault {
    static let failoverRows = [failedOver, followsSentinel, failedOverToStale, splitBrain, sentinelsFail]

    private static let failedOver = Fault(
        number: 16, name: "failover", title: "failover to an up-to-date replica", rule: .nothingTwice, isQuick: false
    ) { trial in
        let pair = try RedisPair(seed: trial.seed)
        try trial.open(on: pair.master, proxies: true)
        try trial.start()
        try trial.produceAtWork()
        for number in 1...trial.times(10) {
            trial.pause(100...500)
            try trial.strike(backWithin: .seconds(30)) { try trial.failOver(pair, byCommand: number % 2 == 1) }
            try pair.join()
        }
        let texts = ["READONLY", "UNBLOCKED"]
        if texts.allSatisfy({ trial.linesSaying($0) == 0 }) { trial.fail("the daemon never met a replica: nothing was tried") }
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
        if trial.linesSaying("Redis was put back to an earlier state") == 0 { trial.fail("no replica was stale: nothing was tried") }
    }

    private static let splitBrain = Fault(
        number: 18, name: "split-brain", title: "two masters, a daemon at each, one gives way", rule: .ofWhatRedisKept, isQuick: false
    ) { trial in
        let pair = try RedisPair(seed: trial.seed)
        try trial.open(
            simulator: ["--latency", "20ms", "--max-streams", "20", "--token-streams", "20"], on: pair.master, proxies: true,
            settings: ["redis_lease": "1"])
        for round in 1...trial.times(10) {
            let other = try FaultProxy(toUnixSocket: pair.master.socketPath, seed: trial.seed &+ 2)
            let settings = try trial.stage.settings(["redis_port": String(other.port), "redis_lease": "1"], name: "other.json")
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

    private static let followsSentinel = Fault(
        number: 16, name: "failover-sentinel", title: "the master dies, Sentinel names its replica", rule: .nothingTwice,
        isQuick: false
    ) { trial in
        let pair = try RedisPair(seed: trial.seed)
        try pair.join(past: true)
        let sentinel = try SentinelServer(
            master: "main", at: pair.master.port!, lines: ["sentinel failover-timeout main 1000"])
        try trial.open(on: pair.master, settings: Trial.settings(of: [sentinel]))
        try trial.start()
        try trial.produceAtWork()
        for _ in 1...trial.times(10) {
            try trial.await("Sentinel knows the replica", atMost: .seconds(60)) { sentinel.replicasInService == 1 }
            try trial.strike(backWithin: .seconds(30)) { try trial.failOverBySentinel(pair, sentinel) }
        }
    }

    /// The first Sentinel that is asked calls the replica the master; the second is right; and then none answers.
    private static let sentinelsFail = Fault(
        number: 19, name: "sentinel", title: "Sentinels wrong, or gone", rule: .nothingTwice, isQuick: false
    ) { trial in
        let pair = try RedisPair(seed: trial.seed)
        try pair.join(past: true)
        // With a quorum of two none of them changes anything.
        let wrong = try SentinelServer(master: "main", at: pair.replica.port!, quorum: 2)
        let right = try SentinelServer(master: "main", at: pair.master.port!, quorum: 2)
        try trial.open(on: pair.master, settings: Trial.settings(of: [wrong, right]))
        try trial.start()
        try trial.produceAtWork()
        for number in 1...trial.times(10) {
            trial.pause(100...300)
            if number % 2 == 0 { for sentinel in [wrong, right] { sentinel.kill() } }
            try trial.strike(backWithin: .seconds(30)) { try trial.stage.killClients() }
            if number % 2 == 0 { for sentinel in [wrong, right] { try sentinel.restart() } }
        }
        if trial.linesSaying("is the master by Sentinel's word, and by its own a replica") == 0 {
            trial.fail("no wrong master was named: nothing was tried")
        }
    }
}
