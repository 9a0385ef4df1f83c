import Harness
internal import RedisQueue

/// Failovers by Sentinel, and Sentinels that fail.
extension Fault {
    static let sentinelRows = [followsSentinel, sentinelsFail]

    /// Sentinel promotes the replica, and makes the old master a replica when it returns.
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
            throw TrialError(description: "\(error)\nlog of Sentinel:\n\(sentinel.lastLines)")
        }
        let turns = sentinel.turns
        if turns != trial.times {
            trial.fail("\(trial.times) deaths, but Sentinel named another master \(turns) times:\n\(sentinel.lastLines)")
        }
    }

    /// The first Sentinel names the replica as the master, the second one is correct; later none replies.
    private static let sentinelsFail = Fault(
        number: 19, name: "sentinel", title: "Sentinels wrong or unavailable", rule: .nothingTwice
    ) { trial in
        let pair = try RedisPair(seed: trial.seed)
        try pair.join(past: true)
        // With a quorum of two no Sentinel starts a failover.
        let wrong = try SentinelServer(master: "main", at: pair.replica.port!, quorum: 2)
        let right = try SentinelServer(master: "main", at: pair.master.port!, quorum: 2)
        try trial.open(on: pair.master, settings: Trial.settings(of: [wrong, right]))
        try trial.start()
        try trial.produceAtWork()
        for number in 1...trial.times(10) {
            trial.pause(100...300)
            if number % 2 == 0 { for sentinel in [wrong, right] { sentinel.kill() } }
            try trial.inject(backWithin: .seconds(30)) { try trial.stage.killClients() }
            if number % 2 == 0 { for sentinel in [wrong, right] { try sentinel.restart() } }
        }
        if trial.complaints("is the master according to Sentinel, but reports the role replica") == 0 {
            trial.fail("no Sentinel named a wrong master: the fault was not tested")
        }
    }
}

extension Trial {
    /// Kills the master when the replica is up to date; Sentinel promotes the replica. The old master returns as a master, and
    /// Sentinel makes it a replica.
    fileprivate func failOver(_ pair: RedisPair, _ daemon: DaemonProcess, by sentinel: SentinelServer) throws {
        try self.await("Sentinel knows the replica", atMost: .seconds(60), every: .milliseconds(20)) { sentinel.hasReplica }
        let connections = daemon.connections
        try inject(backWithin: .seconds(30)) {
            try pair.master.command(["CLIENT", "PAUSE", "20000", "WRITE"])
            try pair.awaitEqual()
            pair.master.kill()
            // Sentinel names the new master before the end of its failover, and before it is connected itself.
            try self.await("Sentinel has ended its failover", atMost: .seconds(60), every: .milliseconds(20)) {
                sentinel.isContent(withMasterAt: pair.replica.port!)
            }
            guard pair.isMaster(pair.replica) else {
                throw TrialError(description: "the server that Sentinel names is not a master")
            }
            try turn(to: pair.replica)
            try self.await("the daemon uses the new master") { daemon.connections > connections }
        }
        try pair.swap()
        try pair.replica.restart()
        try self.await("Sentinel has made the old master a replica", atMost: .seconds(60), every: .milliseconds(20)) {
            !pair.isMaster(pair.replica)
        }
        try pair.awaitEqual()
    }

    /// Returns the settings of a daemon that uses these Sentinels.
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

    /// Shortens the intervals of Sentinel; its decisions and their order stay the same.
    fileprivate func hurry() throws {
        _ = try ask(["DEBUG", "INFO-PERIOD", "500", "PING-PERIOD", "250", "PUBLISH-PERIOD", "250", "TILT-PERIOD", "2000"])
    }

    /// Whether Sentinel watches a healthy master at this port and runs no failover.
    fileprivate func isContent(withMasterAt port: Int) -> Bool {
        guard let master = try? ask(["MASTER", "main"]) else { return false }
        return master.says("port", String(port)) && master.says("flags", "master")
    }

    /// Whether Sentinel knows a replica that it can promote: connected to Sentinel and to the master.
    fileprivate var hasReplica: Bool {
        guard let replicas = try? ask(["REPLICAS", "main"]).items else { return false }
        return replicas.contains { $0.says("flags", "slave") && $0.says("master-link-status", "ok") }
    }

    /// The number of times that Sentinel named another master.
    fileprivate var turns: Int { log.split(separator: "\n").count { $0.contains("+switch-master") } }

    fileprivate var lastLines: String { log.split(separator: "\n").suffix(40).joined(separator: "\n") }
}

extension RedisReply {
    /// Whether an array of names and values contains this pair.
    fileprivate func says(_ name: String, _ value: String) -> Bool {
        let texts = items?.compactMap(\.text) ?? []
        return zip(texts, texts.dropFirst()).contains { $0 == (name, value) }
    }
}
