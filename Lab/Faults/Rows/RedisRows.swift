import Glibc
import Harness
import Platform
internal import RedisQueue

/// Faults of the Redis process and of the connections to it.
extension Fault {
    static let redisRows = connectionRows + memoryRows + failoverRows + operatorRows + heldJobRows

    private static let connectionRows = [
        killed(13, "redis-kill", "kill -9 of Redis, append-only file always", fsync: "always", isQuick: true),
        killed(13, "redis-kill-everysec", "kill -9 of Redis, append-only file everysec", fsync: "everysec", isQuick: false),
        cut, torn, halfOpen, fenced, stalled,
    ]

    private static func killed(_ number: Int, _ name: String, _ title: String, fsync: String, isQuick: Bool) -> Fault {
        Fault(number: number, name: name, title: title, rule: .nothingTwice, isQuick: isQuick) { trial in
            try trial.open(redis: ["--appendonly", "yes", "--appendfsync", fsync])
            try trial.startAtWork()
            try trial.injectAgain(10, after: 100...500, backWithin: .seconds(20)) { _ in
                try trial.killRedis()
            }
        }
    }

    private static let cut = Fault(
        number: 20, name: "redis-cut", title: "all Redis connections cut", rule: .nothingTwice, isQuick: true
    ) { trial in
        try trial.open()
        try trial.startAtWork()
        try trial.injectAgain(50, after: 5...100) { _ in
            try trial.stage.killClients()
        }
    }

    private static let torn = Fault(
        number: 21, name: "redis-reply-lost", title: "replies lost after execution, connection cut", rule: .nothingTwice,
        isQuick: true
    ) { trial in
        try trial.open(proxies: true)
        try trial.startAtWork()
        try trial.injectAgain(10) { _ in
            try trial.tearReplies(0.1, times: 5)
            trial.count(4)
        }
    }

    /// The daemon must notice the silence of Redis by itself.
    private static let halfOpen = Fault(
        number: 22, name: "redis-half-open", title: "Redis half-open and silent", rule: .nothingTwice
    ) { trial in
        try trial.open(proxies: true)
        try trial.startAtWork()
        var longest = Duration.zero
        try trial.injectAgain(10, after: 100...500, backWithin: .seconds(20)) { _ in
            longest = max(longest, try trial.loseCable())
        }
        // A daemon waits 2.1 s for a reply, and sends a request after 0.9 s of silence. A busy machine adds the rest.
        if longest > .milliseconds(3500) { trial.fail("the daemon noticed a dead connection only after \(longest)") }
    }

    /// Without contact, a daemon stops sending at 60 % of its lease; another daemon takes over its jobs later.
    private static let fenced = Fault(
        number: 22, name: "redis-fence", title: "Redis half-open for longer than the lease", rule: .onlyWhatWasInFlight,
        stages: 5
    ) { trial in
        try trial.open(
            simulator: ["--latency", "2s", "--max-streams", "50", "--token-streams", "50"], proxies: true,
            settings: ["redis_lease": "2"])
        try trial.injectAgain(2) { round in
            let lonely = try trial.start("lonely")
            try trial.queue(300)
            try trial.await("the daemon holds jobs") { try trial.stage.status().inFlight > 150 }
            trial.pause(0...200)
            try trial.outliveLease(of: lonely, round: round + 1)
        }
    }

    private static let stalled = Fault(
        number: 23, name: "redis-stall", title: "Redis paused, asleep, busy with a script", rule: .nothingTwice
    ) { trial in
        // A short lease: a daemon that mistakes the silence of Redis for that of the other daemon would take over its jobs.
        try trial.open(redis: ["--enable-debug-command", "yes"], settings: ["redis_lease": "4"])
        try trial.start("first")
        try trial.start("second")
        try trial.produceAtWork()
        try trial.injectAgain(10, backWithin: .seconds(20)) { number in
            let stall = Trial.Stall.allCases[number % Trial.Stall.allCases.count]
            // Two of the stalls exceed the reply timeout of the daemons.
            try trial.stallRedis(stall, milliseconds: number == 1 || number == 2 ? 4500 : trial.draw(300...1500))
        }
        try trial.judgeNoTakeover()
    }
}

extension Trial {
    /// Drops everything in both directions until the daemon notices. Returns the time.
    func loseCable() throws -> Duration {
        let proxy = redisProxy
        let before = complaints("no response in time")
        proxy.behaviour = .halfOpen
        defer {
            proxy.behaviour = FaultProxy.Behaviour()
            proxy.cutAll()
        }
        let start = Instant.now
        try self.await("the daemon notices the silence", atMost: .seconds(15)) { complaints("no response in time") > before }
        return .now - start
    }

    /// Keeps a daemon from Redis until another daemon has taken over all its jobs. Both have a lease of 2 s.
    fileprivate func outliveLease(of lonely: DaemonProcess, round: Int) throws {
        let proxy = redisProxy
        proxy.behaviour = .halfOpen
        let cut = Instant.now
        let deadline = { (milliseconds: Int) in
            self.pause(cut + .milliseconds(milliseconds) - .now)
            self.tail.read()
        }
        // The daemon stops sending at 1.2 s. Requests on the wire get their responses at 2 s; later requests would get them at 4
        // s. The ledger is 0.1 s behind.
        deadline(2800)
        let (claimed, sent) = (try stage.status().inFlight, tail.count)
        deadline(4800)
        if tail.count != sent { fail("\(tail.count - sent) pushes were sent after 60 % of the lease") }
        if complaints("Redis has not responded for 60 % of the lease") < round { fail("the pause was not logged") }
        // The daemon may have sent any claimed job, but not all: otherwise the pause would prove nothing.
        allowTwice(claimed)
        let answered = try RedisSnapshot.take(stage).held.count { tail.accepted[deviceToken($0)] != nil }
        if answered == claimed { fail("no job was left to send: the fence was not tested") }
        let heir = try start(
            "heir",
            settings: stage.write(
                ["redis_lease": "2", "redis_port": nil, "redis_socket_path": "\"\(stage.redis.socketPath)\""], name: "heir.json"))
        try self.await("the other daemon has taken over", atMost: .seconds(60)) { complaints("of the dead worker") >= round }
        proxy.behaviour = FaultProxy.Behaviour()
        proxy.cutAll()
        try awaitDrained(atMost: .seconds(60))
        for daemon in [lonely, heir] { stop(daemon) }
    }

    /// Verifies that no daemon took over the jobs of another one.
    func judgeNoTakeover() throws {
        let status = try stage.status()
        for counter in [Counter.recovered, .fenced] where status.counter(counter) != 0 {
            fail("\(counter.rawValue) is \(status.counter(counter)), although no daemon died")
        }
    }
}

/// Faults of Redis and of the connections to it. Each call injects a fault once and ends it before it returns.
///
/// None of them waits for the daemons; `Trial.inject` does.
extension Trial {
    /// Kills Redis, and restarts it from its files after a random number of milliseconds.
    func killRedis(away: ClosedRange<Int> = 5...300) throws {
        try awaitFlushedLog()
        stage.redis.kill()
        pause(away)
        try stage.redis.restart()
        try stage.reconnect()
    }

    /// Waits until Redis has written its log. With `appendfsync everysec`, Redis delays writes during an fsync for up to two
    /// seconds; a kill would lose them, which `losePower` tests.
    private func awaitFlushedLog() throws {
        try self.await("Redis has written its log") {
            guard let text = try? stage.command(["INFO", "persistence"]).text else { return true }
            let isPending = text.contains("aof_pending_bio_fsync:") && !text.contains("aof_pending_bio_fsync:0")
            return !isPending && (!text.contains("aof_buffer_length:") || text.contains("aof_buffer_length:0"))
        }
    }

    /// Tears this share of the replies and cuts their connections, until this many connections ended.
    func tearReplies(_ share: Double, times: Int) throws {
        let proxy = redisProxy
        let before = proxy.cuts
        proxy.behaviour.tearsReply = share
        try self.await("\(times) replies are torn", atMost: .seconds(60)) { proxy.cuts >= before + times }
        proxy.behaviour.tearsReply = 0
    }

    /// The ways in which a running Redis does not reply for a while.
    enum Stall: CaseIterable {
        case pausedAll, pausedWrites, asleep, busyScript
    }

    /// Stalls Redis for about this many milliseconds. Needs `--enable-debug-command yes`.
    func stallRedis(_ stall: Stall, milliseconds: Int) throws {
        switch stall {
        case .pausedAll: try stage.command(["CLIENT", "PAUSE", String(milliseconds), "ALL"])
        case .pausedWrites: try stage.command(["CLIENT", "PAUSE", String(milliseconds), "WRITE"])
        case .asleep: try stage.command(["DEBUG", "SLEEP", String(Double(milliseconds) / 1000)])
        case .busyScript: try runEndlessScript(milliseconds: milliseconds)
        }
        // The reply to a pause comes at once: the fault ends when Redis writes again.
        try stage.command(["DEL", "gapless-lab-no-such-key"])
    }

    private func runEndlessScript(milliseconds: Int) throws {
        try stage.command(["CONFIG", "SET", "busy-reply-threshold", "50"])
        let server = stage.server
        let endless = try OwnedThread(name: "endless script") {
            guard var client = try? RedisClient(settings: server) else { return }
            _ = try? client.command(["EVAL", "while true do end", "0"])
        }
        pause(milliseconds...milliseconds)
        // The script must run before it can be killed.
        let isKilled = waitUntil { (try? stage.command(["SCRIPT", "KILL"])) != nil }
        endless.join()
        if !isKilled { throw TrialError(description: "the endless script could not be killed") }
    }

    /// Makes every BGSAVE fail for this many milliseconds, so that Redis refuses all writes (MISCONF).
    func fillDisk(milliseconds: ClosedRange<Int>) throws {
        // A folder with the name of the dump: not even root can rename a file to it.
        let dump = stage.redis.path + "/dump.rdb"
        unsafe unlink(dump)
        guard unsafe mkdir(dump, 0o700) == 0 else { throw TrialError(description: "cannot make \(dump): errno \(errno)") }
        defer { unsafe rmdir(dump) }
        try save(until: "rdb_last_bgsave_status:err")
        guard refuses("MISCONF") else { throw TrialError(description: "Redis still accepts writes") }
        pause(milliseconds)
        unsafe rmdir(dump)
        try save(until: "rdb_last_bgsave_status:ok")
    }

    private func save(until state: String) throws {
        try self.await("the save ends with \(state)") {
            let text = try stage.command(["INFO", "persistence"]).text ?? ""
            if text.contains(state) { return true }
            if text.contains("rdb_bgsave_in_progress:0") { _ = try? stage.command(["BGSAVE"]) }
            return false
        }
    }

    /// Returns whether Redis refuses a write with this code.
    func refuses(_ code: String) -> Bool {
        do {
            try stage.command(["RPUSH", "gapless-lab-no-such-key"] + [String(repeating: "x", count: 100)])
            try stage.command(["DEL", "gapless-lab-no-such-key"])
            return false
        } catch {
            return "\(error)".contains(code)
        }
    }

    /// Empties Redis, and excuses the waiting jobs: the daemons must still deliver the jobs that they hold.
    ///
    /// - Returns: the number of jobs that the daemons held.
    func flushAll(restarting: Bool) throws -> Int {
        let snapshot = try RedisSnapshot.take(stage, andThen: [["FLUSHALL"]])
        excuse(snapshot.all.subtracting(snapshot.held))
        if restarting {
            try stage.restartRedis()
        }
        return snapshot.held.count
    }
}
