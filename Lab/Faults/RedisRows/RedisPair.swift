import Harness
internal import RedisQueue

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
        var text = ""
        let isEqual = waitUntil(atMost: .seconds(30), every: .milliseconds(10)) {
            text = (try? replica.command(["INFO", "replication"]).text) ?? ""
            guard text.contains("master_link_status:up"),
                let there = offset("slave_repl_offset", text),
                let mine = (try? master.command(["INFO", "replication"]).text).flatMap({ offset("master_repl_offset", $0) })
            else { return false }
            return there >= mine
        }
        if !isEqual {
            let own = (try? master.command(["INFO", "replication"]).text) ?? "no reply"
            throw TrialError(description: "the replica does not follow: \(text)\nits master: \(own)")
        }
    }

    private func offset(_ name: String, _ text: String) -> Int? {
        text.split(whereSeparator: \.isNewline).first { $0.hasPrefix(name + ":") }.flatMap {
            Int($0.dropFirst(name.utf8.count + 1))
        }
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
    func failOverToStale(_ pair: RedisPair, milliseconds: ClosedRange<Int>) throws {
        let certain = try sealReplica()
        pair.link.behaviour = .halfOpen
        pause(milliseconds)
        try rollBack(certain: certain) {
            pair.master.kill()
            try pair.replica.command(["REPLICAOF", "NO", "ONE"])
            try turn(to: pair.replica)
        }
        try pair.swap()
        try pair.replica.restart()
        try pair.join()
    }

    /// Returns the jobs acknowledged by now, when the replica has all of them.
    private func sealReplica() throws -> Set<Int> {
        let certain = acknowledged()
        // WAIT covers the writes that this connection has seen; any command brings it up to date.
        try stage.command(["PING"])
        let replicas = try stage.command(["WAIT", "1", "20000"]).integer
        if replicas != 1 { throw TrialError(description: "the replica does not catch up") }
        return certain
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
        _ = try sealReplica()
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
        try stage.redisProxy?.lead(toUnixSocket: winner.socketPath)
        try pair.swap()
        try pair.join()
        precondition(pair.replica === loser)
        // The daemon notices by an error reply or at its next heartbeat. If it stopped earlier, its registration would stay.
        try self.await("both daemons have reconnected") { zip(daemons, connections).allSatisfy { $0.connections > $1 } }
        try self.await("all are settled", atMost: .seconds(60)) { try stage.status().isDrained }
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
