/// The jobs of one list that no worker holds, read in pages.
public struct WaitingJobs: Sendable {
    /// Jobs in a page: one page stops the server for as long as it is read.
    public static let mostJobs = ListWalk.mostElements

    /// The place of jobs.
    public enum Source: Sendable, Equatable {
        /// The list.
        case waiting
        case delayed
        /// Jobs of workers that died while they held them: at one, two or three crashes.
        case once, twice, thrice
        /// The side list of an app.
        case aside(app: String)
        /// The slots of scopes: the newest states.
        case states
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
        [.waiting] + (try asides(&client)) + [.states, .delayed, .once, .twice, .thrice]
    }

    /// Returns the sources without delayed jobs, the first to be claimed first. Side lists and slots are claimed by their own
    /// apps.
    public func sourcesInClaimOrder(_ client: inout RedisClient) throws(RedisError) -> [Source] {
        [.once, .twice, .thrice] + (try asides(&client)) + [.states, .waiting]
    }

    private func asides(_ client: inout RedisClient) throws(RedisError) -> [Source] {
        try asideApps(keys, &client).map { .aside(app: $0) }
    }

    public func count(of source: Source, _ client: inout RedisClient) throws(RedisError) -> Int {
        try client.command([source == .delayed || source == .states ? "ZCARD" : "LLEN", keys.key(of: source)]).count ?? 0
    }

    /// Returns jobs from a position on, the next one first; none behind the end.
    public func page(
        of source: Source, from index: Int, most: Int = mostJobs, _ client: inout RedisClient
    ) throws(RedisError) -> [Entry] {
        if source == .states {
            return try WaitingStates(keys).page(from: index, most: most, &client).map { Entry(element: $0.job) }
        }
        let walk = ListWalk(keys.key(of: source), isSorted: source == .delayed)
        let elements = try walk.page(skipping: index, most: min(most, WaitingJobs.mostJobs), &client).elements
        if !walk.isSorted { return elements.map { Entry(element: $0) } }
        return pairs(elements).map { Entry(element: $0, due: WaitingJobs.due(score: $1)) }
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
}

/// Returns the elements of a flat array two by two.
func pairs(_ items: [[UInt8]]) -> [([UInt8], [UInt8])] {
    stride(from: 0, to: items.count - 1, by: 2).map { (items[$0], items[$0 + 1]) }
}

/// Returns the apps whose side lists have jobs, sorted.
func asideApps(_ keys: Keys, _ client: inout RedisClient) throws(RedisError) -> [String] {
    let fields = try client.command(["HKEYS", keys.asides]).items?.compactMap(\.text) ?? []
    return fields.filter { !$0.hasPrefix(Slots.mark) }.sorted()
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
        case .states: waiting
        }
    }
}
