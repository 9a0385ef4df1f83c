/// The apps that the daemons of a list have had, beside it. A daemon whose settings lack such an app keeps its jobs: an app that
/// was removed may return.
///
/// A field is the name of an app, and its value the Unix seconds at which a daemon last had it, a blank, and its topic.
public enum AppRecords {
    /// Fields that are kept: beyond them those that no daemon has had for the longest time are removed.
    public static let capacity = 20_000
    /// Apps of one call at most.
    public static let batch = 1_000

    /// Returns the topics of the apps.
    ///
    /// - Parameter items: names and values.
    static func topics(_ items: [RedisReply]) -> [String: String] {
        var topics: [String: String] = [:]
        var rest = items[...]
        while let name = rest.popFirst()?.text, let value = rest.popFirst()?.text {
            topics[name] = value.firstIndex(of: " ").map { String(value[value.index(after: $0)...]) } ?? ""
        }
        return topics
    }

    /// KEYS: apps. Replies names and values. The user of a daemon may lack the right to HGETALL.
    static let readScript = """
        local names, found = redis.call('HKEYS', KEYS[1]), {}
        for from = 1, #names, 1000 do
          local values = redis.call('HMGET', KEYS[1], unpack(names, from, math.min(from + 999, #names)))
          for index, value in ipairs(values) do
            found[#found + 1] = names[from + index - 1]
            found[#found + 1] = value
          end
        end
        return found
        """

    /// KEYS: nothing, apps. ARGV: most fields, then name and topic of each app. Replies the number of fields.
    static let writeScript = """
        redis.call('DEL', KEYS[1])
        local key, most = KEYS[2], tonumber(ARGV[1])
        local now = redis.call('TIME')[1]
        for index = 2, #ARGV, 2 do redis.call('HSET', key, ARGV[index], now .. ' ' .. ARGV[index + 1]) end
        local count = redis.call('HLEN', key)
        if count <= most then return count end
        local names, kept = redis.call('HKEYS', key), {}
        for from = 1, #names, 1000 do
          local values = redis.call('HMGET', key, unpack(names, from, math.min(from + 999, #names)))
          for index, value in ipairs(values) do
            kept[#kept + 1] = {tonumber(string.match(value, '^%d+') or 0) or 0, names[from + index - 1]}
          end
        end
        table.sort(kept, function(one, other) return one[1] < other[1] end)
        for index = 1, #kept - math.floor(most * 0.9) do redis.call('HDEL', key, kept[index][2]) end
        return redis.call('HLEN', key)
        """
}
