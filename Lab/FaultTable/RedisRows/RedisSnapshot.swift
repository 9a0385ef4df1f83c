import Harness
internal import RedisQueue

/// The numbers of all jobs in Redis at one instant, by place.
struct RedisSnapshot {
    /// In the list.
    var waiting: Set<Int> = []
    /// In the in-flight hashes of the workers.
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
        let hashes = try stage.command(["KEYS", "*"]).items?.compactMap(\.text).filter { $0.contains("gapless:inflight:") } ?? []
        let lists = [keys.list, keys.dead] + keys.recovered
        let replies = try stage.atOnce(
            lists.map { ["LRANGE", $0, "0", "-1"] } + [["ZRANGE", keys.delayed, "0", "-1"]] + hashes.map { ["HVALS", $0] }
                + commands)
        if let refusal = replies.suffix(commands.count).first(where: \.isError) {
            throw TrialError(description: "Redis refused \(commands): \(refusal)")
        }
        let numbers = replies.map(numbers)
        return RedisSnapshot(
            waiting: numbers[0],
            held: numbers[lists.count + 1..<lists.count + 1 + hashes.count].reduce(into: []) { $0.formUnion($1) },
            later: numbers[2...lists.count].reduce(into: []) { $0.formUnion($1) }, dead: numbers[1])
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
