/// The jobs that wait in slots, the oldest first.
struct WaitingStates {
    struct State: Equatable {
        /// Its field in the hash `states`.
        var field: [UInt8]
        var job: [UInt8]

        /// The scope, without the rank.
        var scope: String { String(decoding: field.prefix(field.lastIndex(of: UInt8(ascii: " ")) ?? field.count), as: UTF8.self) }
    }

    /// A page has at most a megabyte of ordinary payloads.
    static let mostJobs = 200

    private let keys: Keys

    init(_ keys: Keys) { self.keys = keys }

    /// - Parameter fromTail: the newest first, and the index counts from there.
    func page(
        from index: Int, most: Int = mostJobs, fromTail: Bool = false, _ client: inout RedisClient
    ) throws(RedisError) -> [State] {
        let count = min(max(0, most), WaitingStates.mostJobs)
        if count == 0 { return [] }
        let (first, last) = fromTail ? (-index - count, -index - 1) : (index, index + count - 1)
        let reply = try client.evaluate(WaitingStates.script, [keys.waiting, keys.states], ["\(first)", "\(last)"])
        let states = pairs(reply.items?.compactMap(\.bytes) ?? []).map { State(field: $0, job: WaitingStates.job($1)) }
        return fromTail ? states.reversed() : states
    }

    /// The job behind the fields of its result: see `Slots`.
    static func job(_ value: [UInt8]) -> [UInt8] {
        var rest = value[...]
        guard let count = number(&rest) else { return value }
        for _ in 0..<count {
            guard let length = number(&rest), length <= rest.count else { return value }
            rest = rest.dropFirst(length)
        }
        return Array(rest)
    }

    private static func number(_ rest: inout ArraySlice<UInt8>) -> Int? {
        guard let end = rest.firstIndex(of: UInt8(ascii: "\n")) else { return nil }
        defer { rest = rest[(end + 1)...] }
        return Int(String(decoding: rest[..<end], as: UTF8.self)).flatMap { $0 >= 0 ? $0 : nil }
    }

    /// KEYS: waiting, states. ARGV: the first and the last index. Replies field and value of each.
    private static let script = """
        local out = {}
        for _, field in ipairs(redis.call('ZRANGE', KEYS[1], ARGV[1], ARGV[2])) do
          local value = redis.call('HGET', KEYS[2], field)
          if value then
            out[#out + 1] = field
            out[#out + 1] = value
          end
        end
        return out
        """
}
