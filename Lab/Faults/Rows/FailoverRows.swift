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
        let daemon = try trial.startAtWork()
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
        try trial.startAtWork()
        try trial.injectAgain(10, after: 100...500) { _ in
            try trial.failOverToStale(pair, milliseconds: 300...3000)
        }
        if trial.complaints("Redis was put back to an earlier state") == 0 {
            trial.fail("no replica was stale: the fault was not tested")
        }
    }

    private static let splitBrain = Fault(
        number: 18, name: "split-brain", title: "two masters with one daemon each, one becomes a replica", rule: .ofWhatRedisKept
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

/// A Redis and its replica. Both listen on a port, because replicas cannot reach a Unix socket.
final class RedisPair {
    private(set) var master: RedisServer
    private(set) var replica: RedisServer
    /// The proxy between the replica and its master.
    private(set) var link: FaultProxy
    private let seed: UInt64

    /// - Parameter options: of both servers.
    init(seed: UInt64, options: [String] = []) throws {
        self.seed = seed
        let options = ["--repl-diskless-sync-delay", "0"] + options
        master = try RedisServer(options: options, hasPort: true)
        replica = try RedisServer(options: options, hasPort: true)
        link = try FaultProxy(toPort: master.port!, seed: seed)
        try join()
    }

    /// Exchanges the roles after a failover.
    func swap() throws {
        (master, replica) = (replica, master)
        link = try FaultProxy(toPort: master.port!, seed: seed)
    }

    /// Makes the replica follow the master, and waits until it has all data.
    func join(past link: Bool = false) throws {
        let port = link ? master.port! : self.link.port
        try replica.command(["REPLICAOF", "127.0.0.1", String(port)])
        try awaitEqual()
    }

    func awaitEqual() throws {
        var (there, own): (RedisReply?, RedisReply?)
        let isEqual = waitUntil(atMost: .seconds(30), every: .milliseconds(10)) {
            there = try? replica.command(["INFO", "replication"])
            own = try? master.command(["INFO", "replication"])
            guard there?.text?.contains("master_link_status:up") == true,
                let reached = there?.number(after: "slave_repl_offset:"), let written = own?.number(after: "master_repl_offset:")
            else { return false }
            return reached >= written
        }
        if isEqual { return }
        throw TrialError(
            description: "the replica does not follow: \(there?.text ?? "")\nits master: \(own?.text ?? "no reply")")
    }

    /// Returns whether a server accepts writes.
    func isMaster(_ server: RedisServer) -> Bool { (try? server.command(["ROLE"]).items?.first?.text) == "master" }
}

extension Trial {
    /// Promotes the up-to-date replica; its former master follows it.
    ///
    /// - Parameter byCommand: uses FAILOVER; otherwise single commands, as older tools do.
    func failOver(_ pair: RedisPair, byCommand: Bool) throws {
        if byCommand {
            try pair.join(past: true)
            try pair.master.command(["FAILOVER", "TO", "127.0.0.1", String(pair.replica.port!), "TIMEOUT", "20000"])
            try self.await("the replica is the master") { pair.isMaster(pair.replica) }
        } else {
            try pair.master.command(["CLIENT", "PAUSE", "20000", "WRITE"])
            try pair.awaitEqual()
            try pair.replica.command(["REPLICAOF", "NO", "ONE"])
            try pair.master.command(["REPLICAOF", "127.0.0.1", String(pair.replica.port!)])
            try pair.master.command(["CLIENT", "UNPAUSE"])
        }
        try turn(to: pair.replica)
        try pair.swap()
    }

    /// Cuts the replication for this many milliseconds, kills the master, and promotes the stale replica.
    ///
    /// - Parameter look: reads the stale data before a daemon does.
    func failOverToStale(_ pair: RedisPair, milliseconds: ClosedRange<Int>, _ look: () throws -> Void = {}) throws {
        let certain = acknowledged()
        try awaitReplica()
        pair.link.behaviour = .halfOpen
        pause(milliseconds)
        try rollBack(certain: certain) {
            pair.master.kill()
            try pair.replica.command(["REPLICAOF", "NO", "ONE"])
            try turn(to: pair.replica)
            try look()
            return []
        }
        try pair.swap()
        try pair.replica.restart()
        try pair.join()
    }

    /// Waits until the replica has all writes up to now.
    func awaitReplica() throws {
        // WAIT covers the writes that this connection has seen; any command brings it up to date.
        try stage.command(["PING"])
        let replicas = try stage.command(["WAIT", "1", "20000"]).integer
        if replicas != 1 { throw TrialError(description: "the replica does not catch up") }
    }

    /// Runs two masters with one daemon each, then makes one of them a replica.
    ///
    /// - Parameters:
    ///   - other: the proxy of the second daemon, which moves to the promoted replica.
    ///   - daemons: both; the first one stays with the old master.
    func splitBrain(_ pair: RedisPair, other: FaultProxy, daemons: [DaemonProcess]) throws {
        let connections = daemons.map(\.connections)
        let (winner, loser) = (pair.replica, pair.master)
        try queue(3000)
        try awaitReplica()
        pause(5...50)
        pair.link.behaviour = .halfOpen
        try winner.command(["REPLICAOF", "NO", "ONE"])
        try other.lead(toUnixSocket: winner.socketPath)
        let lost = Set(try queue(200))
        try turn(to: winner, leadingProxy: false)
        let snapshot = try RedisSnapshot.take(stage)
        other.cutAll()
        try queue(200)
        // The daemon of the loser may hold any job of the winner. It also takes over what the other daemon had sent before it
        // left: such a job goes out three times.
        try allowTwice(snapshot.open.count + jobsHeld(by: daemons[1], at: loser))
        excuse(lost.subtracting(snapshot.all))
        pause(200...4000)
        try redisProxy.lead(toUnixSocket: winner.socketPath)
        try pair.swap()
        try pair.join()
        precondition(pair.replica === loser)
        // The daemon notices by an error reply or at its next heartbeat. If it stopped earlier, its registration would stay.
        try self.await("both daemons have reconnected") { zip(daemons, connections).allSatisfy { $0.connections > $1 } }
        try awaitDrained(atMost: .seconds(60))
    }
}

extension Trial {
    /// Returns the number of jobs in flight at a server that stand under the name of a daemon.
    private func jobsHeld(by daemon: DaemonProcess, at server: RedisServer) throws -> Int {
        try server.command(RedisSnapshot.heldJobs("*-\(daemon.process.pid)-*")).items?.count ?? 0
    }
}

extension DaemonProcess {
    /// The number of connections to Redis, by the log.
    var connections: Int { standardOutput.split(separator: "\n").count { $0.contains("Connected to Redis") } }
}

/// Failovers by Sentinel, and Sentinels that fail.
extension Fault {
    static let sentinelRows = [followsSentinel, sentinelsFail]

    /// Sentinel promotes the replica, and makes the old master a replica when it returns.
    private static let followsSentinel = Fault(
        number: 16, name: "failover-sentinel", title: "the master dies, Sentinel names its replica", rule: .nothingTwice
    ) { trial in
        let pair = try RedisPair(seed: trial.seed, options: ["--appendonly", "yes"])
        try pair.join(past: true)
        let sentinel = try SentinelServer(master: "main", at: pair.master.port!)
        try sentinel.hurry()
        try trial.open(on: pair.master, settings: Trial.settings(of: [sentinel]))
        let daemon = try trial.startAtWork()
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
        try trial.startAtWork()
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
