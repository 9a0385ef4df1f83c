import Harness
internal import RedisQueue

/// A Redis and its replica. Each listens on a port, for replicas cannot reach a Unix socket.
final class RedisPair {
    private(set) var master: RedisServer
    private(set) var replica: RedisServer
    /// What the replica hears of its master comes by this way.
    private(set) var link: FaultProxy
    private let seed: UInt64

    /// - Parameter options: of both.
    init(seed: UInt64, options: [String] = []) throws {
        self.seed = seed
        let options = ["--repl-diskless-sync-delay", "0"] + options
        master = try RedisServer(options: options, hasPort: true)
        replica = try RedisServer(options: options, hasPort: true)
        link = try FaultProxy(toPort: master.port!, seed: seed)
        try join()
    }

    /// The other one is the master now, and the former one its replica.
    func swap() throws {
        (master, replica) = (replica, master)
        link = try FaultProxy(toPort: master.port!, seed: seed)
    }

    /// Lets the replica follow the master, and waits until it has all that the master has by now.
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
            let own = (try? master.command(["INFO", "replication"]).text) ?? "no answer"
            throw TrialError(description: "the replica does not follow: \(text)\nand its master says: \(own)")
        }
    }

    private func offset(_ name: String, _ text: String) -> Int? {
        text.split(whereSeparator: \.isNewline).first { $0.hasPrefix(name + ":") }.flatMap {
            Int($0.dropFirst(name.utf8.count + 1))
        }
    }

    /// Whether this one takes writes.
    func isMaster(_ server: RedisServer) -> Bool { (try? server.command(["ROLE"]).items?.first?.text) == "master" }
}

extension Trial {
    /// The replica, which has everything, takes over, and its master follows it.
    ///
    /// - Parameter byCommand: by FAILOVER, which does it all; else step by step, as older tools do.
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

    /// The way between the two is dead for so many milliseconds, then the master dies, and the replica is made master as it is.
    func failOverToStale(_ pair: RedisPair, milliseconds: ClosedRange<Int>) throws {
        let certain = try sealReplica()
        pair.link.behaviour = .halfOpen
        pause(milliseconds)
        try putBack(certain: certain) {
            pair.master.kill()
            try pair.replica.command(["REPLICAOF", "NO", "ONE"])
            try turn(to: pair.replica)
        }
        try pair.swap()
        try pair.replica.restart()
        try pair.join()
    }

    /// What is acknowledged by now; the replica has all of it when this returns.
    private func sealReplica() throws -> Set<Int> {
        let certain = acknowledged()
        // WAIT is about what this connection has seen: any command brings it up to date.
        try stage.command(["PING"])
        let replicas = try stage.command(["WAIT", "1", "20000"]).integer
        if replicas != 1 { throw TrialError(description: "the replica does not keep up") }
        return certain
    }

    /// Two masters, each with a daemon and a producer of its own, and one of them gives way.
    ///
    /// - Parameters:
    ///   - other: before the second daemon, which goes over to the replica when that is made master.
    ///   - daemons: both; the first stays with the master, which gives way.
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
        let stock = try RedisStock.take(stage)
        other.cutAll()
        try queue(200)
        // Whatever the winner has now may be with the loser's daemon as well.
        allowTwice(stock.open.count)
        excuse(lost.subtracting(stock.all))
        pause(200...4000)
        try stage.redisProxy?.lead(toUnixSocket: winner.socketPath)
        try pair.swap()
        try pair.join()
        precondition(pair.replica === loser)
        // It finds out when it is refused, or by its next heartbeat. Should it stop before, its name would stay for others to strike off.
        try self.await("both daemons have changed sides") { zip(daemons, connections).allSatisfy { $0.connections > $1 } }
        try self.await("all are settled", atMost: .seconds(60)) { try stage.status().isDrained }
    }
}

extension DaemonProcess {
    /// How often it has connected to Redis, by its log.
    var connections: Int { standardOutput.split(separator: "\n").count { $0.contains("Connected to Redis") } }
}
