import Clocks
import Harness
internal import RedisQueue

/// Faults of the Redis process, and of the connections to it.
extension Fault {
    static let redisRows = connectionRows + memoryRows + failoverRows + operatorRows

    private static let connectionRows = [
        killed(13, "redis-kill", "kill -9 of Redis, append-only file always", fsync: "always", isQuick: true),
        killed(13, "redis-kill-everysec", "kill -9 of Redis, append-only file everysec", fsync: "everysec", isQuick: false),
        cut, torn, halfOpen, fenced, stalled,
    ]

    private static func killed(_ number: Int, _ name: String, _ title: String, fsync: String, isQuick: Bool) -> Fault {
        Fault(number: number, name: name, title: title, rule: .nothingTwice, isQuick: isQuick) { trial in
            try trial.open(redis: ["--appendonly", "yes", "--appendfsync", fsync])
            try trial.start()
            try trial.produceAtWork()
            for _ in 1...trial.times(10) {
                trial.pause(100...500)
                try trial.strike(backWithin: .seconds(20)) { try trial.killRedis() }
            }
        }
    }

    private static let cut = Fault(
        number: 20, name: "redis-cut", title: "all Redis connections cut", rule: .nothingTwice, isQuick: true
    ) { trial in
        try trial.open()
        try trial.start()
        try trial.produceAtWork()
        for _ in 1...trial.times(50) {
            trial.pause(5...100)
            try trial.strike { try trial.stage.killClients() }
        }
    }

    private static let torn = Fault(
        number: 21, name: "redis-reply-lost", title: "replies lost after execution, and the connection cut", rule: .nothingTwice,
        isQuick: true
    ) { trial in
        try trial.open(proxies: true)
        try trial.start()
        try trial.produceAtWork()
        for _ in 1...trial.times(10) {
            try trial.strike { try trial.tearReplies(0.1, times: 5) }
            trial.count(4)
        }
    }

    /// The daemon must find out by itself: Redis' own silence is all that it sees.
    private static let halfOpen = Fault(
        number: 22, name: "redis-half-open", title: "Redis half-open, without a word", rule: .nothingTwice, isQuick: false
    ) { trial in
        try trial.open(proxies: true)
        try trial.start()
        try trial.produceAtWork()
        var longest = Duration.zero
        for _ in 1...trial.times(10) {
            trial.pause(100...500)
            try trial.strike(backWithin: .seconds(20)) { longest = max(longest, try trial.loseCable()) }
        }
        // A daemon waits 2.1 s for a reply, and sends a request after 0.9 s of silence. A busy machine adds the rest.
        if longest > .milliseconds(3500) { trial.fail("a dead connection was noticed only after \(longest)") }
    }

    /// Out of contact, a daemon ceases to send at 60 % of its lease; only then another takes its jobs.
    private static let fenced = Fault(
        number: 22, name: "redis-fence", title: "Redis half-open for longer than the lease", rule: .onlyWhatWasInFlight,
        isQuick: false,
        stages: 5
    ) { trial in
        try trial.open(
            simulator: ["--latency", "2s", "--max-streams", "50", "--token-streams", "50"], proxies: true,
            settings: ["redis_lease": "2"])
        for round in 1...trial.times(2) {
            let lonely = try trial.start("lonely")
            try trial.queue(300)
            try trial.await("it has jobs") { try trial.stage.status().inFlight > 150 }
            trial.pause(0...200)
            try trial.strike { try trial.outliveLease(of: lonely, round: round) }
        }
    }

    private static let stalled = Fault(
        number: 23, name: "redis-stall", title: "Redis paused, asleep, busy with a script", rule: .nothingTwice, isQuick: false
    ) { trial in
        // So short a lease that a daemon which took Redis' silence for its neighbour's would reap it.
        try trial.open(redis: ["--enable-debug-command", "yes"], settings: ["redis_lease": "4"])
        try trial.start("first")
        try trial.start("second")
        try trial.produceAtWork()
        for number in 0..<trial.times(10) {
            let stall = Trial.Stall.allCases[number % Trial.Stall.allCases.count]
            // Two of them are longer than the daemons' patience with a reply.
            let milliseconds = number == 1 || number == 2 ? 4500 : Int.random(in: 300...1500, using: &trial.random)
            try trial.strike(backWithin: .seconds(20)) { try trial.stallRedis(stall, milliseconds: milliseconds) }
        }
        try trial.judgeNobodyReaped()
    }
}

extension Trial {
    /// Nothing comes through from now on, in neither direction, until the daemon has noticed. Returns how long that took.
    func loseCable() throws -> Duration {
        guard let proxy = stage.redisProxy else { preconditionFailure("this strike needs a proxy") }
        let before = linesSaying("no answer in time")
        proxy.behaviour = .halfOpen
        defer {
            proxy.behaviour = FaultProxy.Behaviour()
            proxy.cutAll()
        }
        let start = Instant.now
        try self.await("the daemon notices the silence", atMost: .seconds(15)) { linesSaying("no answer in time") > before }
        return .now - start
    }

    /// So many lines of the daemons' logs say this.
    func linesSaying(_ text: String) -> Int {
        stage.standardErrors.split(separator: "\n").count { String($0).contains(text) }
    }

    /// Keeps a daemon from Redis until another has all its jobs. Both have a lease of 2 s.
    fileprivate func outliveLease(of lonely: DaemonProcess, round: Int) throws {
        guard let proxy = stage.redisProxy else { preconditionFailure("this strike needs a proxy") }
        proxy.behaviour = .halfOpen
        let cut = Instant.now
        let deadline = { (milliseconds: Int) in
            _ = waitUntil(atMost: cut + .milliseconds(milliseconds) - .now) { false }
            _ = self.tail.read()
        }
        // It is in doubt at 1.2 s. What was on the wire is answered at 2 s, after which there is room for the rest; that would be
        // answered at 4 s. The ledger is 0.1 s behind.
        deadline(2800)
        let (claimed, sent) = (try stage.status().inFlight, tail.count)
        deadline(4800)
        if tail.count != sent { fail("\(tail.count - sent) pushes went out after the lease was in doubt") }
        if linesSaying("No word from Redis for most of the lease") < round { fail("the doubt was not logged") }
        // What it had claimed is what it may have sent; less than all, or the pause above would prove nothing.
        allowTwice(claimed)
        let answered = try RedisStock.take(stage).held.count { tail.accepted[deviceToken($0)] != nil }
        if answered == claimed { fail("nothing was left to send: the fence was not tried") }
        let heir = try start(
            "heir",
            settings: stage.write(
                ["redis_lease": "2", "redis_port": nil, "redis_socket_path": "\"\(stage.redis.socketPath)\""], name: "heir.json"))
        try self.await("the other daemon has taken over", atMost: .seconds(60)) { linesSaying("of the dead worker") >= round }
        proxy.behaviour = FaultProxy.Behaviour()
        proxy.cutAll()
        try self.await("all are settled", atMost: .seconds(60)) { try stage.status().isDrained }
        for daemon in [lonely, heir] {
            forget(daemon)
            if daemon.stop()?.status != 0 { fail("gaplessd did not stop well") }
        }
    }

    /// No daemon has taken another's jobs, or been taken for dead.
    func judgeNobodyReaped() throws {
        let status = try stage.status()
        for counter in [Counter.recovered, .fenced] where status.counter(counter) != 0 {
            fail("\(counter.rawValue) is \(status.counter(counter)), and nobody died")
        }
    }
}
