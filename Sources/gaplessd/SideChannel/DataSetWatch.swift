import JSONBytes
import Platform
import RedisQueue

/// Notices that Redis was emptied or put back to an earlier state, also while no daemon was running: compares the data set of
/// each list with the last reading of this host, which the state folder keeps between starts. `audit` reads what it records.
struct DataSetWatch: SideDuty {
    /// The time between two readings.
    static let interval = Duration.seconds(1)

    private struct List {
        var keys: Keys
        /// `nil` without a state folder.
        var file: DataSetFile?
        /// The last reading.
        var known: DataSet?
        /// The readings that differ by a loss which Redis does not have yet.
        var found: (before: DataSet, now: DataSet, loss: DataSet.Loss)?
    }

    private let log: Log
    private var lists: [List]
    /// The lists of this round that were not read.
    private var left: [Int] = []
    private var nextRound = Instant.now
    /// Redis' time at the beginning of the round.
    private var time: Int64 = 0
    private var connection = 0
    private var server = ""

    /// Reads the files.
    init(_ settings: Settings, stateFolder: String?, log: Log) {
        self.log = log
        lists = settings.lists.map { list in
            let file = DataSetFile(settings, list, in: stateFolder)
            return List(keys: Keys(list: list), file: file, known: file?.read())
        }
    }

    var wanted: WakeUp? { nil }

    func due(isWanted: Bool, now: Instant) -> Instant? { left.isEmpty ? nextRound : now }

    mutating func step(_ client: inout RedisClient, connection: Int) throws(RedisError) {
        if connection != self.connection {
            server = try DataSet.serverID(&client)
            (self.connection, left) = (connection, [])
            return
        }
        if left.isEmpty {
            time = try DataSet.time(&client)
            (left, nextRound) = (Array(lists.indices), .now + Self.interval)
            return
        }
        if try look(at: left[0], &client) { left.removeFirst() }
    }

    /// The last figures of a daemon that stops.
    mutating func finish(_ client: inout RedisClient, connection: Int) throws(RedisError) {
        if connection != self.connection { return }
        time = try DataSet.time(&client)
        for list in lists.indices { while try !look(at: list, &client) {} }
    }

    /// Reads the list, or records what it has lost. Returns whether the list is done.
    private mutating func look(at index: Int, _ client: inout RedisClient) throws(RedisError) -> Bool {
        if let (before, now, loss) = lists[index].found {
            if try before.record(loss, lists[index].keys, &client) { tell(loss, after: before, lists[index].keys.list) }
            lists[index].found = nil
            remember(now, index)
            return true
        }
        let now = try DataSet.read(&client, lists[index].keys, server: server, at: time)
        // The next registration of a worker begins the data set.
        if now.epoch.isEmpty { return true }
        if let before = lists[index].known, let loss = before.loss(to: now) {
            lists[index].found = (before, now, loss)
            return false
        }
        remember(now, index)
        return true
    }

    private mutating func remember(_ now: DataSet, _ index: Int) {
        let known = lists[index].known
        lists[index].known = now
        if known.map({ ($0.epoch, $0.claimed, $0.server) != (now.epoch, now.claimed, now.server) }) ?? true {
            lists[index].file?.write(now)
        }
    }

    private func tell(_ loss: DataSet.Loss, after before: DataSet, _ list: String) {
        let time = LocalTime.zoned(before.at / 1000)
        switch loss {
        case .emptied:
            log.warning("Redis was emptied after \(time): its jobs of the list \(list.printable) are lost.", .redisDataLost)
        case .rolledBack:
            log.warning(
                "Redis was put back to an earlier state after \(time): jobs of the list \(list.printable) may be lost, "
                    + "and others are pushed again.", .redisDataLost)
        case .replaced:
            log.info(
                "Redis was emptied after \(time), or another Redis has its address: the counters of the list "
                    + "\(list.printable) begin at 0.",
                .redisDataLost)
        }
    }

    mutating func failed(_ error: RedisError) { (left, nextRound) = ([], .now + Self.interval) }
}

/// The last reading of one list by this host. Without a folder that can be used, no start knows what an earlier one has read.
struct DataSetFile {
    private let file: StateFile

    init?(_ settings: Settings, _ list: String, in stateFolder: String?) {
        guard let stateFolder else { return nil }
        let place = "\(settings.redis.server.text) \(settings.redis.database) \(list)"
        file = StateFile(folder: stateFolder, name: "list-\(SHA1.hexadecimal(of: place))")
    }

    func read() -> DataSet? {
        guard let bytes = try? file.read(), let value = try? JSONValue.parse(bytes), let epoch = value["epoch"]?.stringValue,
            let claimed = value["claimed"]?.integerValue, let at = value["at"]?.integerValue,
            let server = value["server"]?.stringValue
        else { return nil }
        return DataSet(epoch: epoch, claimed: claimed, at: at, server: server)
    }

    /// Another process that is writing at this moment has the same figures.
    func write(_ data: DataSet) {
        let value = JSONValue.members([
            "epoch": .string(data.epoch), "claimed": .integer(data.claimed), "at": .integer(data.at),
            "server": .string(data.server),
        ])
        guard let lock = try? file.tryLock() else { return }
        try? file.write(value.bytes, holding: lock)
    }
}
