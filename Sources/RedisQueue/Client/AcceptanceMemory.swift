/// The last acceptances of apps by APNs, which all daemons of a list remember beside it: a daemon that starts, or reloads its
/// settings, does not doubt an app that APNs has accepted within a day.
///
/// A field is the fingerprint of a credential, a server and a topic, and its value the Unix seconds of Redis' clock. A field that
/// is older than a day has no effect, and is removed.
public enum AcceptanceMemory {
    /// Fields that are kept: beyond them the oldest are removed.
    public static let capacity = 10_000
    public static let lifetime = Duration.seconds(86_400)

    /// Records acceptances and returns what Redis remembers. Blocks for one round trip.
    ///
    /// - Parameters:
    ///   - accepted: the time since the last acceptance, by fingerprint.
    ///   - wanted: fingerprints to look up.
    ///   - removesOld: whether to look for fields that are too old. They are also removed if there are too many fields.
    /// - Returns: the time since the last acceptance, for those of `wanted` that are remembered.
    public static func exchange(
        _ accepted: [String: Duration], wanted: [String], removesOld: Bool, _ keys: Keys, _ client: inout RedisClient
    ) throws(RedisError) -> [String: Duration] {
        try exchange(accepted, wanted: wanted, removesOld: removesOld, capacity: capacity, keys, &client)
    }

    static func exchange(
        _ accepted: [String: Duration], wanted: [String], removesOld: Bool, capacity: Int, _ keys: Keys,
        _ client: inout RedisClient
    ) throws(RedisError) -> [String: Duration] {
        let seconds = { (duration: Duration) in String(max(0, duration.components.seconds)) }
        let head = ["EVAL", script, "2", keys.nothing, keys.accepted, String(capacity), seconds(lifetime)]
        let counts = [removesOld ? "1" : "0", String(accepted.count)]
        let arguments = head + counts + accepted.flatMap { [$0.key, seconds($0.value)] } + wanted
        guard let ages = try client.command(arguments).items, ages.count == wanted.count else {
            throw .notRedis("a reply without the ages of acceptances")
        }
        var known: [String: Duration] = [:]
        for (fingerprint, age) in zip(wanted, ages) {
            if let age = age.integer, age >= 0 { known[fingerprint] = .seconds(age) }
        }
        return known
    }

    /// KEYS: nothing, accepted. ARGV: most fields, lifetime, whether to remove old fields, number of acceptances, a fingerprint
    /// and an age for each, fingerprints to look up. All times in seconds.
    ///
    /// A field that Redis' clock dates in the future becomes new: the clock was set back.
    private static let script = """
        redis.call('DEL', KEYS[1])
        local key, most, lifetime = KEYS[2], tonumber(ARGV[1]), tonumber(ARGV[2])
        local now = tonumber(redis.call('TIME')[1])
        local first = 5 + 2 * tonumber(ARGV[4])
        for index = 5, first - 1, 2 do
          local at, known = now - tonumber(ARGV[index + 1]), tonumber(redis.call('HGET', key, ARGV[index]) or '')
          if not known or known < at or known > now then redis.call('HSET', key, ARGV[index], string.format('%.0f', at)) end
        end
        if ARGV[3] == '1' or redis.call('HLEN', key) > most then
          local names, kept = redis.call('HKEYS', key), {}
          for from = 1, #names, 1000 do
            local to = math.min(from + 999, #names)
            local times = redis.call('HMGET', key, unpack(names, from, to))
            for index = from, to do
              local at = tonumber(times[index - from + 1] or '')
              if not at or now - at >= lifetime then
                redis.call('HDEL', key, names[index])
              else
                kept[#kept + 1] = {at, names[index]}
              end
            end
          end
          if #kept > most then
            table.sort(kept, function(one, other) return one[1] < other[1] end)
            for index = 1, #kept - math.floor(most * 0.9) do redis.call('HDEL', key, kept[index][2]) end
          end
        end
        local ages = {}
        for index = first, #ARGV do
          local at = tonumber(redis.call('HGET', key, ARGV[index]) or '')
          if at and at > now then
            at = now
            redis.call('HSET', key, ARGV[index], string.format('%.0f', at))
          end
          ages[#ages + 1] = at and now - at < lifetime and now - at or -1
        end
        return ages
        """
}
