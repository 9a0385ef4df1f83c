import RedisQueue

/// The consumer group that all relays of a results stream share. Redis gives each entry to one of them, and keeps it pending
/// until it is acknowledged.
struct ResultsGroup: ~Copyable {
    static let name = "gapless-relay"
    /// Entries of one batch.
    static let batch = 250

    private var client: RedisClient
    private let stream: String
    private let consumer: String
    /// Milliseconds after which another relay's pending entries are taken over.
    private let minIdleTime: Int

    /// - Parameter consumer: a name that no other process uses.
    init(_ client: consuming RedisClient, stream: String, consumer: String, minIdleTime: Duration) {
        self.client = client
        (self.stream, self.consumer) = (stream, consumer)
        self.minIdleTime = max(1, Int(minIdleTime / .milliseconds(1)))
    }

    /// Creates the group. It begins with the oldest entry of the stream.
    mutating func create() throws(RedisError) {
        do throws(RedisError) {
            _ = try client.command(["XGROUP", "CREATE", stream, Self.name, "0", "MKSTREAM"])
        } catch .reply(let error) where error.isExistingGroup {
            return  // It exists.
        }
    }

    /// Returns the next entries, at most a batch: those that a relay has abandoned, else new ones. Waits up to a second for them.
    mutating func next() throws(RedisError) -> (entries: [RelayEntry], trimmed: Int) {
        let claimed = try client.command([
            "XAUTOCLAIM", stream, Self.name, consumer, "\(minIdleTime)", "0-0", "COUNT", "\(Self.batch)",
        ])
        let parts = claimed.items ?? []
        let abandoned = (parts.count > 1 ? parts[1].items ?? [] : []).compactMap(RelayEntry.init)
        let trimmed = parts.count > 2 ? parts[2].items?.count ?? 0 : 0
        if !abandoned.isEmpty || trimmed > 0 { return (abandoned, trimmed) }
        let reply = try client.command([
            "XREADGROUP", "GROUP", Self.name, consumer, "COUNT", "\(Self.batch)", "BLOCK", "1000", "STREAMS", stream, ">",
        ])
        let entries = reply.items?.first?.items?.last?.items ?? []
        return (entries.compactMap(RelayEntry.init), 0)
    }

    /// Keeps the entries from other relays while this one tries to post them.
    mutating func keep(_ entries: [RelayEntry]) throws(RedisError) {
        _ = try client.command(["XCLAIM", stream, Self.name, consumer, "0"] + entries.map(\.id) + ["JUSTID"])
    }

    mutating func acknowledge(_ entries: [RelayEntry]) throws(RedisError) {
        _ = try client.command(["XACK", stream, Self.name] + entries.map(\.id))
    }

    /// Gives entries up: the next relay that asks takes them over.
    mutating func release(_ entries: [RelayEntry]) throws(RedisError) {
        _ = try client.command(
            ["XCLAIM", stream, Self.name, consumer, "0"] + entries.map(\.id) + ["IDLE", "\(minIdleTime)", "JUSTID"])
    }

    /// Removes this consumer, unless it has pending entries: Redis would forget them with it.
    mutating func leave() throws(RedisError) {
        let pending = try client.command(["XPENDING", stream, Self.name, "-", "+", "1", consumer]).items ?? []
        if pending.isEmpty { _ = try client.command(["XGROUP", "DELCONSUMER", stream, Self.name, consumer]) }
    }
}
