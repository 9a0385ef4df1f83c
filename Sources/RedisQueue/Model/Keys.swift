/// The keys beside one list. They share the list's hash slot. Only a campaign that has ended has a time to live.
public struct Keys: Sendable, Equatable {
    public let list: String
    /// Sorted set: worker -> heartbeat counter (a count, not a time).
    public let workers: String
    /// Lists of jobs of dead workers, one for each number of crashes (1 to 3).
    public let recovered: [String]
    /// Sorted set: `<worker>:<id>|<job>` -> due time in milliseconds.
    public let delayed: String
    public let dead: String
    /// List: dead letters that `dead requeue` or `dead purge` has passed. They precede those of `dead`. See `GapList`.
    public let deadPassed: String
    /// Hash: `<worker>:<id>` -> job, for each dead letter whose job is too large for a record.
    public let large: String
    public let feedback: String
    /// Hash: counters that survive restarts. See `Counter`. Of `claimed` and `released`, `aside_claimed` and `aside_released` are
    /// those from and to side lists. `emptied`, `rolled_back` and `replaced` are times: see `DataSet`.
    public let stats: String
    /// Hash: `next`, the end of the last window that a daemon leased for the fleet's rate limits.
    public let pace: String
    /// Hash: encrypted provider tokens. See `SharedTokens`.
    public let providerTokens: String
    /// Hash: fingerprint of an app's credential, server and topic -> Unix seconds of its last acceptance. See `AcceptanceMemory`.
    public let accepted: String
    /// Hash: name of an app -> Unix seconds and topic, for each app that a daemon of the list has had. See `AppRecords`.
    public let apps: String
    /// Hash: app, or nothing for the whole list -> record of a pause. See `QueuePause`.
    public let paused: String
    /// Hash: the workers that keep jobs in chunks -> 2, or 1 for those of a version without side lists. It also names those that
    /// are not registered any more.
    public let holders: String
    /// Hash: app (empty for the top level) -> the number of jobs in its side list, for each side list with jobs; and
    /// `Slots.mark` and an app -> the first score in its sorted set `scope`.
    public let asides: String
    /// Hash: scope -> record of its slot, and lane -> its pace. See `Slots`.
    public let slots: String
    /// Hash: scope and rank -> job that waits in a slot, behind its result. See `Slots`.
    public let states: String
    /// Sorted set: the fields of `states` -> milliseconds since 1970 since when each waits.
    public let waiting: String
    /// Sorted set: lane -> milliseconds since 1970 until which APNs paces it.
    public let paced: String
    /// Hash: channel name, or `app/name` if another app has the same name -> record of a channel. See `ChannelRecords`.
    public let channels: String
    /// Sorted set: `c` and a name, for a creation in progress, or `d` and a field, for a deletion to come -> due time in
    /// milliseconds.
    public let channelWork: String
    /// Sorted set: the campaigns, with the milliseconds since 1970 of their beginning. That of a campaign that has ended is
    /// negative, and that of its end; it leaves the set when another campaign begins a day later.
    public let campaigns: String
    /// List: jobs that `cancel` removed. See `CancelledJobs`.
    public let cancelled: String
    /// List: cancelled jobs that `cancel --undo` has passed. They precede those of `cancelled`. See `GapList`.
    public let cancelledPassed: String
    /// List: results that the receiver of `gaplessd relay` refused alone, beside the first list.
    public let refused: String
    /// Exists only during a script, which tries commands with it, or until the next one if it fails. A script that deletes it
    /// first counts as having written, and Redis then lets it finish when out of memory.
    let nothing: String
    /// The beginning of every key except the list's own.
    let prefix: String

    public init(list: String) {
        self.list = list
        prefix = Keys.hasTag(list) ? "\(list):gapless:" : "{\(list)}:gapless:"
        workers = prefix + "workers"
        recovered = (1...3).map { [prefix] in "\(prefix)recovered:\($0)" }
        delayed = prefix + "delayed"
        dead = prefix + "dead"
        deadPassed = prefix + "dead:passed"
        large = prefix + "large"
        feedback = prefix + "feedback"
        stats = prefix + "stats"
        pace = prefix + "pace"
        providerTokens = prefix + "provider-tokens"
        accepted = prefix + "accepted"
        apps = prefix + "apps"
        paused = prefix + "paused"
        holders = prefix + "holders"
        asides = prefix + "asides"
        slots = prefix + "slots"
        states = prefix + "states"
        waiting = prefix + "waiting"
        paced = prefix + "paced"
        channels = prefix + "channels"
        channelWork = prefix + "channels:work"
        campaigns = prefix + "campaigns"
        cancelled = prefix + "cancelled"
        cancelledPassed = prefix + "cancelled:passed"
        refused = prefix + "refused"
        nothing = prefix + "nothing"
    }

    /// The keys beside the list that are not of one worker, with the types that `TYPE` replies.
    public var types: [(key: String, type: String)] {
        [
            (workers, "zset"), (delayed, "zset"), (dead, "list"), (large, "hash"), (feedback, "list"), (stats, "hash"),
            (pace, "hash"), (providerTokens, "hash"), (accepted, "hash"), (apps, "hash"), (paused, "hash"), (holders, "hash"),
            (asides, "hash"), (slots, "hash"), (states, "hash"), (waiting, "zset"), (paced, "zset"), (channels, "hash"),
            (channelWork, "zset"),
            (campaigns, "zset"), (cancelled, "list"), (cancelledPassed, "list"), (deadPassed, "list"), (refused, "list"),
        ] + recovered.map { ($0, "list") }
    }

    /// Whether a key has the prefix of the keys beside the list.
    public func owns(_ key: String) -> Bool { key.utf8.starts(with: prefix.utf8) }

    /// Whether another list has the same keys beside it, as `q` and `{q}` have.
    public func areBeside(_ other: Keys) -> Bool { prefix == other.prefix }

    /// Hash: number -> entry of each chunk of a worker. An entry is the number of crashes at which the jobs of the chunk were in
    /// flight (4: the last time alone), a colon, and one character for each position: 1 for a job in flight, 0 for a settled one.
    /// Behind them is the rank before the first job in letters: see `ChunkEntry.rank`.
    public func chunks(_ worker: String) -> String { "\(prefix)chunks:\(worker)" }

    /// List: the jobs of one claim, also those that are settled. A compacted list has only the jobs in flight at their places: a
    /// settled one is empty, or missing at the end. It is removed with its last job.
    public func chunk(_ worker: String, _ number: UInt64) -> String { "\(chunks(worker)):\(number)" }

    /// List: jobs that wait until their app can take them. The jobs of the other apps pass them. The scripts read the name of the
    /// app from the key: it follows as many characters as `asides` has.
    public func aside(_ app: String) -> String { "\(prefix)aside:\(app)" }

    /// Sorted set: scope of an app -> milliseconds since 1970 of the next time at which its slot has something to do. The scripts
    /// read the name of the app from the key, as in `aside`.
    public func scope(_ app: String) -> String { "\(prefix)scope:\(app)" }

    /// Hash: a campaign. See `Campaign`. It expires a day after the end.
    public func campaign(_ id: String) -> String { "\(prefix)campaign:\(id)" }

    /// The tokens of a campaign that were not claimed: the key of the producer, under another name.
    public func audience(_ id: String) -> String { "\(prefix)audience:\(id)" }

    /// The tokens of a campaign that were cancelled, in a key of the same type.
    public func cancelledAudience(_ id: String) -> String { "\(prefix)cancelled-audience:\(id)" }

    /// Hash: id -> job, for each job in flight of a worker of an older version. The field of a job from `recovered:N` is
    /// `<id>:N`. Only such workers write it, and this version takes it over.
    public func inflight(_ worker: String) -> String { "\(prefix)inflight:\(worker)" }

    /// Hash: `host`, `pid`, `version`, `started` (Unix seconds), `claimed`, `sent` and `beat` (milliseconds since 1970 by Redis'
    /// clock) for `status`; `lease` (in milliseconds), `number`, `settled` and `alone` for the scripts.
    public func worker(_ worker: String) -> String { "\(prefix)worker:\(worker)" }

    /// The name of the side list to which `cancel` takes jobs away while it sweeps a long list. The settings have no such app.
    public static let sweptName = "gaplessd cancel"

    /// Whether the keys beside the list are in its hash slot in a Redis Cluster.
    public var canShareSlot: Bool { Keys.hasTag(list) || !list.utf8.contains(UInt8(ascii: "}")) }

    private static func hasTag(_ key: String) -> Bool { tag(of: Array(key.utf8)) != nil }

    /// Redis hashes only the text between the first `{` and the next `}`, if it is not empty (cluster specification).
    private static func tag(of key: [UInt8]) -> ArraySlice<UInt8>? {
        guard let open = key.firstIndex(of: UInt8(ascii: "{")) else { return nil }
        let rest = key[(open + 1)...]
        guard let close = rest.firstIndex(of: UInt8(ascii: "}")), close > rest.startIndex else { return nil }
        return rest[..<close]
    }

    /// The hash slot of a key in a Redis Cluster: CRC-16/XMODEM modulo 16384.
    static func slot(of key: String) -> Int {
        let key = Array(key.utf8)
        var sum: UInt16 = 0
        for byte in tag(of: key) ?? key[...] {
            sum ^= UInt16(byte) << 8
            for _ in 0..<8 { sum = sum & 0x8000 == 0 ? sum << 1 : sum << 1 ^ 0x1021 }
        }
        return Int(sum % 16_384)
    }
}
