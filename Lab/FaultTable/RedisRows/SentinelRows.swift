import Harness
internal import RedisQueue

/// A master that Sentinel names, and Sentinels that cannot.
extension Fault {
    static let sentinelRows = [followsSentinel, sentinelsFail]

    /// Sentinel does it all: it makes the replica the master, and the old master, when it comes back, a replica.
    private static let followsSentinel = Fault(
        number: 16, name: "failover-sentinel", title: "the master dies, Sentinel names its replica", rule: .nothingTwice,
        isQuick: false
    ) { trial in
        let pair = try RedisPair(seed: trial.seed, options: ["--appendonly", "yes"])
        try pair.join(past: true)
        let sentinel = try SentinelServer(master: "main", at: pair.master.port!)
        try sentinel.hurry()
        try trial.open(on: pair.master, settings: Trial.settings(of: [sentinel]))
        let daemon = try trial.start()
        try trial.produceAtWork()
        do {
            for _ in 1...trial.times(10) { try trial.failOver(pair, daemon, by: sentinel) }
        } catch {
            throw TrialError(description: "\(error)\nSentinel says of it:\n\(sentinel.lastLines)")
        }
        let turns = sentinel.turns
        if turns != trial.times {
            trial.fail("\(trial.times) deaths, and Sentinel named another master \(turns) times:\n\(sentinel.lastLines)")
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

extension Trial {
    /// The master dies while the replica has everything; Sentinel makes the replica the master, and later the old master, which
    /// comes back as a master with what it had, a replica.
    fileprivate func failOver(_ pair: RedisPair, _ daemon: DaemonProcess, by sentinel: SentinelServer) throws {
        try self.await("Sentinel knows the replica", atMost: .seconds(60), every: .milliseconds(20)) { sentinel.hasReplica }
        let connections = daemon.connections
        try strike(backWithin: .seconds(30)) {
            try pair.master.command(["CLIENT", "PAUSE", "20000", "WRITE"])
            try pair.awaitEqual()
            pair.master.kill()
            // Sentinel names the new master before it has ended its failover, and sends its clients there before it is connected itself.
            try self.await("Sentinel has ended its failover", atMost: .seconds(60), every: .milliseconds(20)) {
                sentinel.isContent(withMasterAt: pair.replica.port!)
            }
            guard pair.isMaster(pair.replica) else { throw TrialError(description: "what Sentinel names is no master") }
            try turn(to: pair.replica)
            try self.await("the daemon has gone over to the new master") { daemon.connections > connections }
        }
        try pair.swap()
        try pair.replica.restart()
        try self.await("Sentinel has made the old master a replica", atMost: .seconds(60), every: .milliseconds(20)) {
            !pair.isMaster(pair.replica)
        }
        try pair.awaitEqual()
    }

    /// Of a daemon that finds its Redis by these Sentinels.
    static func settings(of sentinels: [SentinelServer]) -> [String: String?] {
        let addresses = sentinels.map { "\"127.0.0.1:\($0.port)\"" }.joined(separator: ", ")
        return ["redis_socket_path": nil, "redis_sentinels": "[\(addresses)]", "redis_sentinel_master": "\"main\""]
    }
}

extension SentinelServer {
    private func ask(_ words: [String]) throws -> RedisReply {
        var client = try RedisClient(settings: QueueSettings(list: "none", server: .tcp(host: "127.0.0.1", port: port)))
        return try client.command(["SENTINEL"] + words)
    }

    /// Lets it look often at what it looks at every ten seconds otherwise, and wait less before it makes a replica of what says that it
    /// is a master, or trusts its own clock again. What it decides, and in which order, stays the same.
    fileprivate func hurry() throws {
        _ = try ask(["DEBUG", "INFO-PERIOD", "500", "PING-PERIOD", "250", "PUBLISH-PERIOD", "250", "TILT-PERIOD", "2000"])
    }

    /// Whether it watches a master at this port, finds nothing wrong with it and has nothing under way.
    fileprivate func isContent(withMasterAt port: Int) -> Bool {
        guard let master = try? ask(["MASTER", "main"]) else { return false }
        return master.says("port", String(port)) && master.says("flags", "master")
    }

    /// Whether it knows a replica that it could make the master: connected to it and to the master.
    fileprivate var hasReplica: Bool {
        guard let replicas = try? ask(["REPLICAS", "main"]).items else { return false }
        return replicas.contains { $0.says("flags", "slave") && $0.says("master-link-status", "ok") }
    }

    /// How often it has named another master.
    fileprivate var turns: Int { log.split(separator: "\n").count { $0.contains("+switch-master") } }

    fileprivate var lastLines: String { log.split(separator: "\n").suffix(40).joined(separator: "\n") }
}

extension RedisReply {
    /// Of an array of names and values: whether this name has this value.
    fileprivate func says(_ name: String, _ value: String) -> Bool {
        let texts = items?.compactMap(\.text) ?? []
        return zip(texts, texts.dropFirst()).contains { $0 == (name, value) }
    }
}
