import Harness
internal import RedisQueue

/// The numbers of all jobs in Redis at one instant, by place.
struct RedisSnapshot {
    /// In the list.
    var waiting: Set<Int> = []
    /// In flight at the workers.
    var held: Set<Int> = []
    /// Delayed, or recovered from dead workers.
    var later: Set<Int> = []
    var dead: Set<Int> = []

    /// All jobs that must still be delivered.
    var open: Set<Int> { waiting.union(held).union(later) }
    var all: Set<Int> { open.union(dead) }

    /// Reads all jobs, and runs these commands in the same transaction.
    static func take(_ stage: Stage, andThen commands: [[String]] = []) throws -> RedisSnapshot {
        let keys = stage.keys
        let lists = [keys.list, keys.dead] + keys.recovered
        let replies = try stage.atOnce(
            lists.map { ["LRANGE", $0, "0", "-1"] } + [["ZRANGE", keys.delayed, "0", "-1"], heldJobs("*")] + commands)
        if let refusal = replies.suffix(commands.count).first(where: \.isError) {
            throw TrialError(description: "Redis refused \(commands): \(refusal)")
        }
        let numbers = replies.map(numbers)
        return RedisSnapshot(
            waiting: numbers[0],
            held: numbers[lists.count + 1],
            later: numbers[2...lists.count].reduce(into: []) { $0.formUnion($1) }, dead: numbers[1])
    }

    /// Returns the command for all jobs in flight of the workers whose names match a pattern, in chunks or in the hashes of older
    /// versions.
    static func heldJobs(_ workers: String) -> [String] {
        let script = """
            local out = {}
            for _, key in ipairs(redis.call('KEYS', '*gapless:chunks:' .. ARGV[1])) do
              local entries = redis.call('TYPE', key).ok == 'hash' and redis.call('HGETALL', key) or {}
              for i = 1, #entries, 2 do
                for place, job in ipairs(redis.call('LRANGE', key .. ':' .. entries[i], 0, -1)) do
                  if string.sub(entries[i + 1], place + 2, place + 2) == '1' then out[#out + 1] = job end
                end
              end
            end
            for _, key in ipairs(redis.call('KEYS', '*gapless:inflight:' .. ARGV[1])) do
              if redis.call('TYPE', key).ok == 'hash' then
                for _, job in ipairs(redis.call('HVALS', key)) do out[#out + 1] = job end
              end
            end
            return out
            """
        return ["EVAL", script, "0", workers]
    }

    static func numbers(in reply: RedisReply) -> Set<Int> {
        Set((reply.items ?? []).compactMap(\.bytes).compactMap(jobNumber))
    }
}

extension RedisReply {
    fileprivate var isError: Bool {
        if case .error = self { true } else { false }
    }
}

/// Returns the number in the first device token of these bytes: the inverse of `deviceToken`.
func jobNumber(_ bytes: [UInt8]) -> Int? {
    let (mark, digits) = (Array("abababab".utf8), 64)
    var at = 0
    while at + digits <= bytes.count {
        if bytes[at] == mark[0], bytes[at..<at + mark.count].elementsEqual(mark) {
            return Int(String(decoding: bytes[at + digits - 16..<at + digits], as: UTF8.self), radix: 16)
        }
        at += 1
    }
    return nil
}
