public import Platform

/// A client that is kept between uses until Redis closes it.
public struct KeptClient: ~Copyable {
    private var client: RedisClient?

    public init() {}

    /// Runs `body` on the kept connection, and again on a new one if that fails: Redis may have closed an idle connection, which
    /// alone is no failure.
    public mutating func run<Result>(
        _ settings: QueueSettings, _ tls: TLSContext?, _ body: (inout RedisClient) throws(RedisError) -> Result
    ) throws(RedisError) -> Result {
        if let old = client.take(), let result = try? run(old, body) { return result }
        return try run(try RedisClient(settings: settings, tls: tls), body)
    }

    private mutating func run<Result>(
        _ given: consuming RedisClient, _ body: (inout RedisClient) throws(RedisError) -> Result
    ) throws(RedisError) -> Result {
        var client = given
        let result = try body(&client)
        self.client = .some(consume client)
        return result
    }
}
