/// The part of a worker's record that tells the state of its apps, for `status`.
public enum WorkerRecord {
    /// The field of the record.
    public static let apps = "apps"

    /// Writes the state of the apps, if the worker is registered.
    public static func write(
        apps state: [UInt8], of worker: String, _ keys: Keys, _ client: inout RedisClient
    ) throws(RedisError) {
        let head = ["EVAL", script, "2", keys.nothing, keys.worker(worker), apps]
        _ = try client.command(head.map { Array($0.utf8) } + [state])
    }

    /// KEYS: nothing, worker:W. ARGV: field, value. As in `Scripts`, the DEL lets it finish when Redis is out of memory.
    private static let script = """
        if redis.call('EXISTS', KEYS[2]) == 0 then return 0 end
        redis.call('DEL', KEYS[1])
        redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
        return 1
        """
}
