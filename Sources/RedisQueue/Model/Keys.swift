/// Every key beside one list. They share the list's hash slot, and none ever has a time to live.
public struct Keys: Sendable, Equatable {
    public let list: String
    /// Sorted set: worker -> heartbeat counter (a count, not a time).
    public let workers: String
    /// Lists of jobs of dead workers, by how many crashes (1 to 3) they have been in.
    public let recovered: [String]
    /// Sorted set: `<worker>:<id>|<job>` -> due time in milliseconds.
    public let delayed: String
    public let dead: String
    public let feedback: String
    /// Hash: counters that survive restarts. See `Counter`.
    public let stats: String
    /// Never exists. A script that deletes it first has written, and is then not refused for lack of memory.
    let nothing: String
    /// Before the last part of every key but the list's own.
    let prefix: String

    public init(list: String) {
        self.list = list
        prefix = Keys.hasTag(list) ? "\(list):gapless:" : "{\(list)}:gapless:"
        workers = prefix + "workers"
        recovered = (1...3).map { [prefix] in "\(prefix)recovered:\($0)" }
        delayed = prefix + "delayed"
        dead = prefix + "dead"
        feedback = prefix + "feedback"
        stats = prefix + "stats"
        nothing = prefix + "nothing"
    }

    /// Whether a key is beside the list, by its name: it is ours, or may become ours.
    public func owns(_ key: String) -> Bool { key.utf8.starts(with: prefix.utf8) }

    /// Whether another list has the very same keys beside it: `q` and `{q}` do.
    public func areBeside(_ other: Keys) -> Bool { prefix == other.prefix }

    /// Hash: id -> job, for each job that a worker has claimed and not settled. A job that came from `recovered:N` stands
    /// under `<id>:N`, and one that was in a fourth crash, when it was alone, under `<id>:4`.
    public func inflight(_ worker: String) -> String { "\(prefix)inflight:\(worker)" }

    /// Hash: `host`, `pid`, `version`, `started` (Unix seconds), `claimed` and `sent` for `status`; `number`, `settled` and
    /// `alone` for the scripts.
    public func worker(_ worker: String) -> String { "\(prefix)worker:\(worker)" }

    /// Whether the keys beside the list are in its hash slot, wherever Redis is a cluster.
    public var canShareSlot: Bool { Keys.hasTag(list) || !list.utf8.contains(UInt8(ascii: "}")) }

    /// Redis hashes only what stands between the first `{` and the next `}`, when that is not empty (cluster specification).
    private static func hasTag(_ key: String) -> Bool {
        guard let open = key.utf8.firstIndex(of: UInt8(ascii: "{")) else { return false }
        let rest = key.utf8[key.utf8.index(after: open)...]
        guard let close = rest.firstIndex(of: UInt8(ascii: "}")) else { return false }
        return close > rest.startIndex
    }
}
