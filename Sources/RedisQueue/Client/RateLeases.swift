public import Platform

/// Leases windows of time for the rate limits that all daemons of a list keep together. In each window one daemon alone sends.
///
/// Redis' clock orders the windows. The owner's clock is compared with it at each reply: the shortest time between the two
/// readings is the best estimate of their difference.
public struct RateLeases: Sendable {
    public enum Reply: Sendable, Equatable {
        case window(start: Instant)
        /// Other daemons have leased the near future: ask again later.
        case later
    }

    /// Microseconds. A window further ahead is not leased, so that a daemon that asks later does not wait for long.
    private static let horizon: Int64 = 1_000_000
    /// Microseconds. A clock of Redis that was set shows as a larger change of the difference.
    private static let largestDrift: Int64 = 1_000_000

    private let keys: Keys
    private let anchor: Instant
    /// The owner's clock since `anchor` less Redis' clock, in microseconds.
    private var difference: Int64?

    public init(_ keys: Keys, now: Instant) {
        self.keys = keys
        anchor = now
    }

    /// Leases the next free window of this length. Blocks for one round trip.
    public mutating func lease(_ length: Duration, _ client: inout RedisClient) throws(RedisError) -> Reply {
        let microseconds = RateLeases.microseconds(length)
        let reply = try client.command([
            "EVAL", RateLeases.script, "2", keys.nothing, keys.pace, String(microseconds), String(RateLeases.horizon),
        ])
        let received = Instant.now
        guard let items = reply.items, items.count == 2, let clock = items[0].integer, let start = items[1].integer,
            (0..<1 << 53).contains(clock), (-1..<1 << 53).contains(start)
        else { throw .notRedis("a lease without a time") }
        let difference = follow(RateLeases.microseconds(received - anchor) - clock)
        return start < 0 ? .later : .window(start: anchor + .microseconds(start + difference))
    }

    /// The clocks drift apart slowly, so the estimate grows by a sixteenth of the change.
    private mutating func follow(_ measured: Int64) -> Int64 {
        var estimate = difference ?? measured
        let change = measured - estimate
        estimate = change < 0 || change > RateLeases.largestDrift ? measured : estimate + change / 16
        difference = estimate
        return estimate
    }

    private static func microseconds(_ duration: Duration) -> Int64 {
        let parts = duration.components
        return min(parts.seconds, 1 << 32) * 1_000_000 + parts.attoseconds / 1_000_000_000_000
    }

    /// KEYS: nothing, pace. ARGV: the length and the horizon in microseconds.
    ///
    /// Replies Redis' clock and the start of the window, or -1 if it lies beyond the horizon. An end that is later than the last
    /// window and the horizon explain is ignored: Redis' clock was set back.
    private static let script = """
        redis.call('DEL', KEYS[1])
        local time = redis.call('TIME')
        local now = time[1] * 1000000 + time[2]
        local length, horizon = tonumber(ARGV[1]), tonumber(ARGV[2])
        local last = redis.call('HMGET', KEYS[2], 'next', 'length')
        local start = tonumber(last[1] or 0) or 0
        local explained = 2 * math.max(tonumber(last[2] or 0) or 0, horizon)
        if start < now or start > now + explained then start = now end
        if start > now + math.max(length, horizon) then return {now, -1} end
        redis.call('HSET', KEYS[2], 'next', string.format('%.0f', start + length), 'length', ARGV[1])
        return {now, start}
        """
}
