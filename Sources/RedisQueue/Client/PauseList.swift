/// The pauses of one list, as `pause` and `resume` change them.
public struct PauseList: Sendable {
    private let keys: Keys

    public init(_ keys: Keys) { self.keys = keys }

    public func read(_ client: inout RedisClient) throws(RedisError) -> [QueuePause] {
        let reply = try client.command(["EVAL", PauseList.readScript, "1", keys.paused])
        guard let pauses = QueuePause.split(reply)?.pauses else { throw .notRedis("pauses of another form") }
        return pauses
    }

    /// Pauses an app, or the whole list if `app` is `nil`. Replaces a pause of the same app.
    ///
    /// - Parameters:
    ///   - duration: `nil` for a pause without an end. It counts by Redis' clock.
    ///   - details: further members of the record, as JSON text that begins with a comma, or nothing.
    public func pause(
        app: String?, for duration: Duration?, details: [UInt8], _ client: inout RedisClient
    ) throws(RedisError) -> QueuePause {
        let milliseconds = duration.map { Int64(max(1, min($0 / .milliseconds(1), 1e15))) } ?? 0
        let head = [
            "EVAL", PauseList.pauseScript, "2", keys.nothing, keys.paused, app ?? QueuePause.wholeList, String(milliseconds),
        ]
        guard let record = try client.command(head.map { Array($0.utf8) } + [details]).bytes else {
            throw .notRedis("a pause of another form")
        }
        return QueuePause(app: app, left: duration, record: record)
    }

    /// Returns false if there was no such pause.
    public func resume(app: String?, _ client: inout RedisClient) throws(RedisError) -> Bool {
        let reply = try client.command(["EVAL", PauseList.resumeScript, "1", keys.paused, app ?? QueuePause.wholeList])
        return reply.integer == 1
    }

    private static let readScript = Scripts.clock + Scripts.pauses + "return pauses(KEYS[1]) or 0"

    /// KEYS: nothing, paused. ARGV: field, milliseconds (0: no end), details. Replies the record. The DEL lets it finish when
    /// Redis is out of memory, as in `Scripts`.
    private static let pauseScript =
        Scripts.clock + """
            local now, span = math.floor(clock()), tonumber(ARGV[2])
            local ends = span > 0 and now + span or 0
            local record = string.format('{"until": %.0f, "since": %.0f', ends, now) .. ARGV[3] .. '}'
            redis.call('HLEN', KEYS[2])
            redis.call('DEL', KEYS[1])
            redis.call('HSET', KEYS[2], ARGV[1], record)
            return record
            """

    /// Replies 1 if the pause was in force.
    private static let resumeScript =
        Scripts.clock + Scripts.pauses + """
            local found = 0
            local paused = pauses(KEYS[1], true) or {}
            for i = 2, #paused, 3 do
              if paused[i] == ARGV[1] then found = 1 end
            end
            redis.call('HDEL', KEYS[1], ARGV[1])
            return found
            """
}
