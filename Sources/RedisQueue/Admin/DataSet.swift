/// The data of one list in Redis, as far as a later reading can tell that it was lost.
public struct DataSet: Sendable, Equatable {
    /// Lost data of Redis. The raw value is the field of `stats` with the time, in milliseconds, at which a worker found it.
    public enum Loss: String, Sendable, Equatable, CaseIterable {
        case emptied
        case rolledBack = "rolled_back"
        /// Redis was emptied, or another Redis has its address.
        case replaced
    }

    /// The random number of the data set; empty if no worker has registered in it.
    public var epoch: String
    /// The counter `claimed`, which only grows.
    public var claimed: Int64
    /// The time of the reading, in milliseconds since 1970 by Redis' clock.
    public var at: Int64
    /// The number that the server process has given itself; empty if it is unknown.
    public var server: String

    public init(epoch: String, claimed: Int64, at: Int64, server: String) {
        (self.epoch, self.claimed, self.at, self.server) = (epoch, claimed, at, server)
    }

    /// - Parameters:
    ///   - server: what `serverID` has returned on this connection.
    ///   - at: what `time` has returned before.
    public static func read(
        _ client: inout RedisClient, _ keys: Keys, server: String, at: Int64
    ) throws(RedisError) -> DataSet {
        let figures = try client.command(["HMGET", keys.stats, "born", "claimed"]).items ?? []
        guard figures.count == 2 else { throw .notRedis("figures of another form") }
        return DataSet(
            epoch: figures[0].text ?? "", claimed: figures[1].text.flatMap { Int64($0) } ?? 0, at: at, server: server)
    }

    /// Returns Redis' clock, in milliseconds since 1970.
    public static func time(_ client: inout RedisClient) throws(RedisError) -> Int64 {
        let parts = try client.command(["TIME"]).items?.compactMap { $0.text.flatMap { Int64($0) } } ?? []
        guard parts.count == 2 else { throw .notRedis("a time of another form") }
        return parts[0] &* 1000 &+ parts[1] / 1000
    }

    /// Returns the number of the server process, which differs after each start. Empty if the user may not ask, or if the server
    /// has none.
    public static func serverID(_ client: inout RedisClient) throws(RedisError) -> String {
        try ServerInfo.read(&client)?.runID ?? ""
    }

    /// Returns what has happened between this reading and a later one at the same address.
    public func loss(to later: DataSet) -> Loss? {
        if epoch.isEmpty { return nil }
        if epoch == later.epoch { return later.claimed < claimed ? .rolledBack : nil }
        return !server.isEmpty && server == later.server ? .emptied : .replaced
    }

    /// Records a loss that happened after this reading for `audit`, unless it is known by now.
    ///
    /// - Returns: whether it was new.
    public func record(_ loss: Loss, _ keys: Keys, _ client: inout RedisClient) throws(RedisError) -> Bool {
        let known = Loss.allCases.map(\.rawValue)
        return try client.evaluate(Self.recordScript, [keys.nothing, keys.stats], [String(at), loss.rawValue] + known).integer
            == 1
    }

    /// KEYS: nothing, stats. ARGV: the time of the reading, the field of the loss, and all such fields.
    private static let recordScript =
        Lua.clock + """
            for i = 3, #ARGV do
              if (tonumber(redis.call('HGET', KEYS[2], ARGV[i]) or '') or 0) >= tonumber(ARGV[1]) then return 0 end
            end
            redis.call('DEL', KEYS[1])
            redis.call('HSET', KEYS[2], ARGV[2], string.format('%.0f', math.floor(clock())))
            return 1
            """
}
