internal import Foundation
internal import RedisQueue

/// One connection to Redis. The calls block, on a queue of their own. After an error the next call connects again.
actor RedisLink {
    /// The longest time that a read of results waits for the first one.
    private static let waitMilliseconds = 1000
    private static let mostResults = 500

    private let settings: QueueSettings
    private let resultsKey: String
    private var client: RedisClient?
    private let executor: BlockingExecutor

    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    init(_ settings: QueueSettings, resultsKey: String, label: String) {
        self.settings = settings
        self.resultsKey = resultsKey
        executor = BlockingExecutor(label: label)
    }

    /// Pushes jobs to the list, each exactly once however often the call is repeated: Redis stores the number of the last job
    /// of the outbox in the same step, and skips jobs up to it.
    ///
    /// - Parameter jobs: in the order of their numbers.
    func push(_ jobs: [(number: Int64, job: String)], from outbox: String) throws {
        let arguments = jobs.flatMap { [String($0.number), $0.job] }
        let list = settings.list
        // In a Redis Cluster both keys must be in one slot: the text in braces decides, if there is one.
        let mark = list.contains("{") ? "\(list):frost-alert" : "{\(list)}:frost-alert"
        _ = try call { client in
            try client.command(["EVAL", Self.pushScript, "2", list, mark, outbox] + arguments)
        }
    }

    /// KEYS: list, hash of last numbers. ARGV: outbox, then number and job of each.
    private static let pushScript = """
        local last = tonumber(redis.call('HGET', KEYS[2], ARGV[1]) or '0')
        local jobs = {}
        for i = 2, #ARGV, 2 do
          if tonumber(ARGV[i]) > last then jobs[#jobs + 1] = ARGV[i + 1] end
        end
        if #jobs == 0 then return 0 end
        redis.call('RPUSH', KEYS[1], unpack(jobs))
        redis.call('HSET', KEYS[2], ARGV[1], ARGV[#ARGV - 1])
        return #jobs
        """

    /// Returns the results behind an entry of the stream; after a short wait, none.
    func results(after id: String) throws -> [PushResult] {
        let words = [
            "XREAD", "COUNT", String(Self.mostResults), "BLOCK", String(Self.waitMilliseconds), "STREAMS", resultsKey, id,
        ]
        let streams = try call { client in try client.command(words) }.items ?? []
        return (streams.first?.items?.last?.items ?? []).compactMap(PushResult.init)
    }

    /// Returns the first entries of the feedback list. They stay there.
    func feedback() throws -> [[UInt8]] {
        let list = FeedbackList(Keys(list: settings.list))
        return try call { client in try list.page(from: 0, &client) }
    }

    /// Removes entries that `feedback()` returned.
    func removeFeedback(_ entries: [[UInt8]]) throws {
        let list = FeedbackList(Keys(list: settings.list))
        _ = try call { client in try list.remove(entries, &client) }
    }

    private func call<Value>(_ body: (inout RedisClient) throws -> Value) throws -> Value {
        var used: RedisClient
        if let client = client.take() { used = client } else { used = try RedisClient(settings: settings) }
        let value = try body(&used)
        client = consume used
        return value
    }
}

extension PushResult {
    /// Reads an entry: its id, and its fields in turn with their values.
    init?(_ entry: RedisReply) {
        guard let parts = entry.items, parts.count == 2, let id = parts[0].text,
            let words = parts[1].items?.map({ $0.text ?? "" })
        else { return nil }
        let pairs = stride(from: 0, to: words.count - 1, by: 2).map { (words[$0], words[$0 + 1]) }
        self.init(id: id, fields: Dictionary(pairs) { $1 })
    }
}
