import Platform

/// The pauses of one list, as `pause` and `resume` change them.
public struct PauseList: Sendable {
    private let keys: Keys

    public init(_ keys: Keys) { self.keys = keys }

    public func read(_ client: inout RedisClient) throws(RedisError) -> [QueuePause] {
        let reply = try client.evaluate(PauseList.readScript, [keys.paused])
        guard let pauses = QueuePause.split(reply)?.pauses else { throw .notRedis("pauses of another form") }
        return pauses
    }

    /// Pauses the list, an app or a campaign. Replaces a pause of the same scope.
    ///
    /// - Parameters:
    ///   - duration: `nil` for a pause without an end. It counts by Redis' clock.
    ///   - details: further members of the record, as JSON text that begins with a comma, or nothing.
    public func pause(
        _ scope: QueuePause.Scope, for duration: Duration?, details: [UInt8], _ client: inout RedisClient
    ) throws(RedisError) -> QueuePause {
        let milliseconds = duration.map { Int64(max(1, min($0 / .milliseconds(1), 1e15))) } ?? 0
        let arguments = [Array(scope.field.utf8), Array(String(milliseconds).utf8), details]
        guard let record = try client.evaluate(PauseList.pauseScript, [keys.nothing, keys.paused], arguments).bytes else {
            throw .notRedis("a pause of another form")
        }
        return QueuePause(scope, left: duration, record: record)
    }

    /// Returns false if there was no such pause.
    public func resume(_ scope: QueuePause.Scope, _ client: inout RedisClient) throws(RedisError) -> Bool {
        // The outcomes before the pause do not stop a campaign again.
        let campaign: [String] = if case .campaign(let id) = scope { [keys.campaign(id)] } else { [] }
        let reply = try client.evaluate(PauseList.resumeScript, [keys.paused] + campaign, [scope.field])
        return reply.integer == 1
    }

    private static let readScript = Lua.clock + Lua.pauses + "return pauses(KEYS[1]) or 0"

    /// KEYS: nothing, paused. ARGV: field, milliseconds (0: no end), details. Replies the record. The DEL lets it finish when
    /// Redis is out of memory, as in `Scripts`.
    static let pauseScript =
        Lua.clock + """
            local now, span = math.floor(clock()), tonumber(ARGV[2])
            local ends = span > 0 and now + span or 0
            local record = string.format('{"until": %.0f, "since": %.0f', ends, now) .. ARGV[3] .. '}'
            redis.call('HLEN', KEYS[2])
            redis.call('DEL', KEYS[1])
            redis.call('HSET', KEYS[2], ARGV[1], record)
            return record
            """

    /// Replies 1 if the pause was in force.
    static let resumeScript =
        Lua.clock + Lua.pauses + """
            local found = 0
            local paused = pauses(KEYS[1], true) or {}
            for i = 2, #paused, 3 do
              if paused[i] == ARGV[1] then found = 1 end
            end
            redis.call('HDEL', KEYS[1], ARGV[1])
            if KEYS[2] then redis.call('HDEL', KEYS[2], 'window') end
            return found
            """
}

extension PauseList {
    /// Pauses the claims of a whole list while a call searches it. The pause has an end, which the call renews: a call that is
    /// killed leaves no paused list behind.
    public struct SearchPause: Sendable {
        /// The time after which the list resumes by itself.
        public static let span = Duration.seconds(30)

        private let keys: Keys
        private let details: [UInt8]
        /// The record that this call wrote last; empty if there is none.
        private var own: [UInt8] = []
        /// A pause that would have ended earlier, and that this call replaced.
        private var replaced: [UInt8] = []
        private var due = Instant.now

        /// - Parameter details: as in `PauseList.pause`.
        public init(_ keys: Keys, details: [UInt8]) { (self.keys, self.details) = (keys, details) }

        /// Pauses the list, or renews the pause after a third of its span. A pause of others that lasts longer stays as it is.
        public mutating func renew(_ client: inout RedisClient) throws(RedisError) {
            if .now < due { return }
            due = .now + SearchPause.span / 3
            let span = Array(String(Int64(SearchPause.span / .milliseconds(1))).utf8)
            let reply = try client.evaluate(SearchPause.renewScript, [keys.nothing, keys.paused], [span, details, own])
            guard let items = reply.items, items.count == 2 else {
                throw .notRedis("a pause of another form")
            }
            own = items[0].bytes ?? []
            if let other = items[1].bytes, !other.isEmpty { replaced = other }
        }

        /// Ends the pause. A pause that was replaced is in force again until its end.
        public mutating func end(_ client: inout RedisClient) throws(RedisError) {
            if own.isEmpty { return }
            _ = try client.evaluate(SearchPause.endScript, [keys.nothing, keys.paused], [own, replaced])
            (own, replaced) = ([], [])
        }

        /// Returns the end of a record: 0 is none.
        private static let ends = """
            local function ends(record) return tonumber(string.match(record, '^{"until": (%d+),')) or 0 end

            """

        /// KEYS: nothing, paused. ARGV: milliseconds, details, the own record. Replies the own record, and another one that it
        /// replaces.
        private static let renewScript =
            Lua.clock + ends + """
                local now = math.floor(clock())
                local last, present = now + tonumber(ARGV[1]), redis.call('HGET', KEYS[2], '')
                local replaced = ''
                if present and present ~= ARGV[3] then
                  if ends(present) == 0 or ends(present) >= last then return {'', ''} end
                  if ends(present) > now then replaced = present end
                end
                local record = string.format('{"until": %.0f, "since": %.0f', last, now) .. ARGV[2] .. '}'
                redis.call('DEL', KEYS[1])
                redis.call('HSET', KEYS[2], '', record)
                return {record, replaced}
                """

        /// KEYS: nothing, paused. ARGV: the own record, the replaced one.
        private static let endScript =
            Lua.clock + ends + """
                if redis.call('HGET', KEYS[2], '') ~= ARGV[1] then return 0 end
                redis.call('DEL', KEYS[1])
                if ARGV[2] ~= '' and ends(ARGV[2]) > clock() then
                  redis.call('HSET', KEYS[2], '', ARGV[2])
                else
                  redis.call('HDEL', KEYS[2], '')
                end
                return 1
                """
    }
}
