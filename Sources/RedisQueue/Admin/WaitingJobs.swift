/// The jobs of one list that no worker holds, read in pages.
public struct WaitingJobs: Sendable {
    /// Jobs in a page: one page stops the server for as long as it is read.
    public static let mostJobs = 1000
    /// Bytes of a page; one job may be larger.
    private static let mostBytes = 1 << 20

    /// The place of jobs.
    public enum Source: Sendable, Equatable {
        /// The list.
        case waiting
        case delayed
        /// Jobs of workers that died while they held them: at one, two or three crashes.
        case once, twice, thrice
        /// The side list of an app.
        case aside(app: String)
    }

    public struct Entry: Sendable, Equatable {
        /// The element of Redis, byte for byte.
        public var element: [UInt8]
        /// Milliseconds since 1970, of a delayed job.
        public var due: Int64?

        /// The job: a delayed element has the worker and a number in front of it.
        public var job: [UInt8] { due == nil ? element : WaitingJobs.job(ofDelayed: element) }
    }

    private let keys: Keys

    public init(_ keys: Keys) { self.keys = keys }

    /// Returns all sources, in the order in which a job moves on.
    public func sources(_ client: inout RedisClient) throws(RedisError) -> [Source] {
        [.waiting] + (try asides(&client)) + [.delayed, .once, .twice, .thrice]
    }

    /// Returns the sources without delayed jobs, the first to be claimed first. The side lists are claimed by their own apps.
    public func sourcesInClaimOrder(_ client: inout RedisClient) throws(RedisError) -> [Source] {
        [.once, .twice, .thrice] + (try asides(&client)) + [.waiting]
    }

    private func asides(_ client: inout RedisClient) throws(RedisError) -> [Source] {
        try asideApps(keys, &client).map { .aside(app: $0) }
    }

    public func count(of source: Source, _ client: inout RedisClient) throws(RedisError) -> Int {
        try client.command([source == .delayed ? "ZCARD" : "LLEN", keys.key(of: source)]).count ?? 0
    }

    /// Returns jobs from a position on, the next one first; none behind the end.
    public func page(
        of source: Source, from index: Int, most: Int = mostJobs, _ client: inout RedisClient
    ) throws(RedisError) -> [Entry] {
        try page(of: keys.key(of: source), from: index, most: most, isDelayed: source == .delayed, &client)
    }

    /// Returns elements of a list beside the queue.
    func page(
        of key: String, from index: Int, most: Int, isDelayed: Bool = false, _ client: inout RedisClient
    ) throws(RedisError) -> [Entry] {
        let numbers = [index, min(most, WaitingJobs.mostJobs), WaitingJobs.mostBytes, isDelayed ? 1 : 0].map(String.init)
        let items = try client.command(["EVAL", WaitingJobs.pageScript, "1", key] + numbers).items ?? []
        if !isDelayed { return items.compactMap(\.bytes).map { Entry(element: $0) } }
        return stride(from: 0, to: items.count - 1, by: 2).compactMap { index in
            guard let element = items[index].bytes, let score = items[index + 1].bytes else { return nil }
            return Entry(element: element, due: WaitingJobs.due(score: score))
        }
    }

    /// Returns the due time of a score, in milliseconds since 1970. Others may have written any number.
    static func due(score: [UInt8]) -> Int64 {
        Int64(max(-1e15, min(Double(String(decoding: score, as: UTF8.self)) ?? 0, 1e16)))
    }

    /// Removes `<worker>:<id>|`, which the daemon writes in front of a delayed job, as the script that promotes it does.
    public static func job(ofDelayed element: [UInt8]) -> [UInt8] {
        guard let bar = element.firstIndex(where: { $0 == UInt8(ascii: "|") || $0 == UInt8(ascii: "{") }),
            element[bar] == UInt8(ascii: "|"), let colon = element[..<bar].firstIndex(of: UInt8(ascii: ":")), colon > 0,
            colon + 1 < bar,
            element[(colon + 1)..<bar].allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: ":")).contains($0) })
        else { return element }
        return Array(element[(bar + 1)...])
    }

    /// ARGV: first index, most elements, most bytes, 1 for a sorted set.
    private static let pageScript = """
        local from, most, room, isSet = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4] == '1'
        local out, taken, bytes, count, step = {}, 0, 0, 1, isSet and 2 or 1
        while taken < most do
          local at, part = from + taken
          local last = at + math.min(count, most - taken) - 1
          if isSet then
            part = redis.call('ZRANGE', KEYS[1], at, last, 'WITHSCORES')
          else
            part = redis.call('LRANGE', KEYS[1], at, last)
          end
          if #part == 0 then return out end
          for i = 1, #part, step do
            if taken > 0 and #part[i] > room then return out end
            room, bytes = room - #part[i], bytes + #part[i]
            taken = taken + 1
            out[#out + 1] = part[i]
            if isSet then out[#out + 1] = part[i + 1] end
          end
          -- Few at once while they are large, so that jobs of megabytes do not become gigabytes.
          count = math.max(1, math.min(2 * count, 25, math.floor(room * taken / math.max(1, bytes))))
        end
        return out
        """
}

/// Returns the apps whose side lists have jobs, sorted.
func asideApps(_ keys: Keys, _ client: inout RedisClient) throws(RedisError) -> [String] {
    try client.command(["HKEYS", keys.asides]).items?.compactMap(\.text).sorted() ?? []
}

extension Keys {
    func key(of source: WaitingJobs.Source) -> String {
        switch source {
        case .waiting: list
        case .delayed: delayed
        case .once: recovered[0]
        case .twice: recovered[1]
        case .thrice: recovered[2]
        case .aside(let app): aside(app)
        }
    }
}
