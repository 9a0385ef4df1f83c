/// What Redis alone knows of a queue at this moment.
public struct QueueStatus: Sendable, Equatable {
    public struct Worker: Sendable, Equatable {
        public var name: String
        /// Jobs it has claimed and not settled.
        public var inFlight: Int
        /// What it said of itself: `host`, `pid`, `version`, `started` (Unix seconds), and its own `claimed` and `sent`.
        public var details: [String: String]
    }

    /// What waits in the list itself.
    public var backlog = 0
    public var inFlight = 0
    public var delayed = 0
    public var recovered = 0
    public var dead = 0
    public var feedback = 0
    public var workers: [Worker] = []
    public var counters: [Counter: Int64] = [:]

    /// What is wrong in the books: claimed jobs that no other term explains. 0 when they balance.
    public var unexplained: Int64 {
        let settled: [Counter] = [.sent, .retried, .postponed, .dead, .expired, .released, .recovered]
        return settled.reduce(counters[.claimed, default: 0] - Int64(inFlight)) { $0 - counters[$1, default: 0] }
    }

    /// Reads everything as of one instant (MULTI), but for the workers, whose names must be known first.
    public static func read(_ client: inout RedisClient, _ keys: Keys) throws(RedisError) -> QueueStatus {
        let names = try client.command(["ZRANGE", keys.workers, "0", "-1"]).items?.compactMap(\.text) ?? []
        var commands = [["MULTI"], ["LLEN", keys.list], ["ZCARD", keys.delayed], ["LLEN", keys.dead], ["LLEN", keys.feedback]]
        commands += keys.recovered.map { ["LLEN", $0] }
        commands.append(["HMGET", keys.stats] + Counter.allCases.map(\.rawValue))
        for name in names { commands += [["HLEN", keys.inflight(name)], ["HGETALL", keys.worker(name)]] }
        commands.append(["EXEC"])
        let replies = try client.pipeline(commands.map { $0.map { Array($0.utf8) } })
        for case .error(let text) in replies { throw .reply(ServerFault.withoutArguments(text)) }
        guard let answers = replies.last?.items, answers.count == commands.count - 2 else { throw .notRedis("no answer to EXEC") }
        for case .error(let text) in answers { throw .reply(ServerFault.withoutArguments(text)) }
        return QueueStatus(answers, names: names)
    }

    private init(_ answers: [RedisReply], names: [String]) {
        let counts = answers.prefix(7).map { Int($0.integer ?? 0) }
        (backlog, delayed, dead, feedback) = (counts[0], counts[1], counts[2], counts[3])
        recovered = counts[4] + counts[5] + counts[6]
        for (counter, value) in zip(Counter.allCases, answers[7].items ?? []) {
            counters[counter] = value.text.flatMap { Int64($0) } ?? 0
        }
        for (index, name) in names.enumerated() {
            let held = Int(answers[8 + 2 * index].integer ?? 0)
            let texts = answers[9 + 2 * index].items?.compactMap(\.text) ?? []
            var details: [String: String] = [:]
            for start in stride(from: 0, to: texts.count - 1, by: 2) { details[texts[start]] = texts[start + 1] }
            inFlight += held
            workers.append(Worker(name: name, inFlight: held, details: details))
        }
    }
}
