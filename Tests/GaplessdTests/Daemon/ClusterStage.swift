import Harness
import RedisQueue

/// The nodes of a small Redis Cluster.
final class ClusterStage {
    struct Node {
        let port: Int
        let server: RedisServer
        let id: String
    }

    private(set) var nodes: [Node] = []

    /// - Parameters:
    ///   - masters: the number of masters, which share the slots evenly.
    ///   - hasReplica: adds a replica of the first master.
    ///   - secure: makes all nodes use TLS.
    init(masters: Int, hasReplica: Bool = false, secure: SecureRedis? = nil) throws {
        for _ in 0..<masters + (hasReplica ? 1 : 0) { nodes.append(try ClusterStage.node(secure)) }
        for index in 0..<masters {
            let (first, last) = (16384 * index / masters, 16384 * (index + 1) / masters - 1)
            try ask(index, "CLUSTER", "ADDSLOTSRANGE", String(first), String(last))
            try ask(index, "CLUSTER", "SET-CONFIG-EPOCH", String(index + 1))
        }
        for index in nodes.indices.dropFirst() { try ask(0, "CLUSTER", "MEET", "127.0.0.1", String(nodes[index].port)) }
        if hasReplica {
            _ = waitUntil(atMost: .seconds(60)) { (try? ask(masters, "CLUSTER", "REPLICATE", nodes[0].id)) != nil }
        }
        let isUp = try waitUntil(atMost: .seconds(60)) {
            try nodes.indices.allSatisfy { index in
                let info = try ask(index, "CLUSTER", "INFO").text ?? ""
                return info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:\(nodes.count)")
            }
        }
        guard isUp else { throw HarnessError("the cluster did not start") }
    }

    private static func node(_ secure: SecureRedis?) throws -> Node {
        let port = FreePort.pick()
        let way = secure?.options(port: port, for: "tls-cluster") ?? ["--port", String(port)]
        let server = try RedisServer(
            options: way + [
                "--cluster-enabled", "yes", "--cluster-node-timeout", "2000",
                "--cluster-require-full-coverage", "no", "--repl-diskless-sync-delay", "0",
            ])
        var client = try RedisClient(settings: QueueSettings(list: "none", server: .unix(path: server.socketPath)))
        return Node(port: port, server: server, id: try client.command(["CLUSTER", "MYID"]).text ?? "")
    }

    /// Sends one command to a node over a new connection, and follows redirections.
    @discardableResult
    func ask(_ node: Int, _ words: String...) throws -> RedisReply {
        var client = try RedisClient(settings: QueueSettings(list: "none", server: .unix(path: nodes[node].server.socketPath)))
        return try client.command(words)
    }

    /// Returns a list name with a slot in this range.
    func list(_ prefix: String, in slots: ClosedRange<Int64>) throws -> String {
        for number in 0..<1000 {
            let name = "\(prefix)\(number)"
            if let slot = try ask(0, "CLUSTER", "KEYSLOT", name).integer, slots.contains(slot) { return name }
        }
        throw HarnessError("no name in these slots")
    }

    /// Moves the slot of a list with all its keys to another node, as `redis-cli --cluster reshard` does.
    func moveSlot(of list: String, from source: Int, to target: Int) throws {
        let slot = String(try ask(source, "CLUSTER", "KEYSLOT", list).integer ?? 0)
        try ask(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", nodes[source].id)
        try ask(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", nodes[target].id)
        while true {
            let keys = try ask(source, "CLUSTER", "GETKEYSINSLOT", slot, "100").items?.compactMap(\.text) ?? []
            if keys.isEmpty { break }
            for key in keys { try ask(source, "MIGRATE", "127.0.0.1", String(nodes[target].port), key, "0", "5000") }
        }
        for node in [target, source] { try ask(node, "CLUSTER", "SETSLOT", slot, "NODE", nodes[target].id) }
    }
}
