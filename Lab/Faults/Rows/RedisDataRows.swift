import Glibc
import Harness
internal import RedisQueue

/// Faults of the data of Redis: on disk, in memory, in the script cache.
extension Fault {
    static let memoryRows = [powerLost, flushed, outOfMemory, evictsVolatile, evictsAll, diskFull, scriptsGone]

    private static let powerLost = Fault(
        number: 14, name: "redis-power", title: "Redis loses power and up to 1.5 s of its log", rule: .ofWhatRedisKept
    ) { trial in
        trial.diesOnlyByAnswers = true
        try trial.open(
            simulator: ["--latency", "5ms", "--fail", "503:1%"],
            redis: ["--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0"], proxies: true)
        try trial.startAtWork()
        try trial.injectAgain(10, after: 100...500) { turn in
            try trial.losePower(insideTransaction: turn % 2 == 0)
        }
    }

    private static let flushed = Fault(
        number: 15, name: "redis-flush", title: "FLUSHALL, also with a restart", rule: .ofWhatRedisKept, isQuick: true
    ) { trial in
        trial.diesOnlyByAnswers = true
        try trial.open(
            simulator: ["--latency", "100ms", "--fail", "503:1%"],
            redis: ["--appendonly", "yes", "--appendfsync", "always"])
        try trial.startAtWork()
        var held = 0
        try trial.injectAgain(10, after: 200...500) { turn in
            let before = trial.complaints("Redis was emptied")
            held += try trial.flushAll(restarting: turn % 2 == 1)
            try trial.await("the loss is logged") { trial.complaints("Redis was emptied") > before }
        }
        if held == 0 { trial.fail("no daemon ever held a job: the fault was not tested") }
    }

    /// The daemon empties the list although no producer can push, and writes retries and dead letters.
    private static let outOfMemory = Fault(
        number: 24, name: "redis-oom", title: "Redis out of memory, noeviction, with a backlog", rule: .nothingTwice,
        isQuick: true
    ) { trial in
        trial.diesOnlyByAnswers = true
        try trial.open(simulator: ["--latency", "5ms", "--fail", "503:1%", "--dead", "1%"])
        try trial.start()
        try trial.injectAgain(10) { _ in
            try trial.stage.command(["CONFIG", "SET", "maxmemory", "0"])
            try trial.queue(trial.jobs(30_000))
            try trial.stage.command(["CONFIG", "SET", "maxmemory", "1"])
            if !trial.refuses("OOM") { trial.fail("Redis still had memory") }
            let before = try trial.stage.status()
            try trial.awaitDrained("the backlog is drained", atMost: .seconds(120))
            let after = try trial.stage.status()
            if after.dead == before.dead || after.counter(.retried) == before.counter(.retried) {
                trial.fail("no dead letters or no retries were written: \(before), then \(after)")
            }
        }
    }

    private static let evictsVolatile = Fault(
        number: 25, name: "evict-volatile", title: "Redis evicts keys that have a time to live", rule: .nothingTwice
    ) { trial in
        trial.diesOnlyByAnswers = true
        try trial.open(
            simulator: ["--latency", "5ms", "--fail", "503:1%", "--dead", "1%"], redis: ["--maxmemory-policy", "volatile-lru"])
        try trial.startAtWork()
        try trial.injectAgain(10) { _ in
            try trial.crowd(expiring: true)
        }
    }

    /// Redis evicts any key, so jobs may be lost. The daemon warns at its start, continues, and delivers new jobs when Redis has
    /// memory again.
    private static let evictsAll = Fault(
        number: 25, name: "evict-all", title: "Redis evicts any key", rule: .survival
    ) { trial in
        try trial.open(redis: ["--maxmemory-policy", "allkeys-lru", "--maxmemory", "100mb"])
        try trial.startAtWork()
        try trial.injectAgain(10) { turn in
            if turn == 1 { try trial.stage.command(["CONFIG", "SET", "maxmemory-policy", "allkeys-random"]) }
            try trial.crowd(expiring: false)
        }
        if trial.complaints("Redis evicts any key when its memory is full") != 1 { trial.fail("no warning at the start") }
        if trial.complaints("Redis was emptied") + trial.complaints("is not registered any more") == 0 {
            trial.fail("no loss was logged")
        }
        try trial.judgeServesAgain()
    }

    private static let diskFull = Fault(
        number: 26, name: "redis-misconf", title: "Redis cannot save and refuses writes (MISCONF)", rule: .nothingTwice
    ) { trial in
        try trial.open(redis: ["--save", "3600 1", "--stop-writes-on-bgsave-error", "yes"])
        try trial.startAtWork()
        try trial.injectAgain(10, after: 100...300, backWithin: .seconds(30)) { _ in
            try trial.fillDisk(milliseconds: 100...1500)
        }
        if trial.complaints("MISCONF") == 0 { trial.fail("no daemon received MISCONF: the fault was not tested") }
    }

    private static let scriptsGone = Fault(
        number: 27, name: "redis-scripts", title: "SCRIPT FLUSH every 50 ms, and restarts without scripts", rule: .nothingTwice,
        isQuick: true
    ) { trial in
        try trial.open(redis: ["--appendonly", "yes", "--appendfsync", "always"])
        try trial.startAtWork()
        try trial.injectAgain(10) { _ in
            // Since the last start of Redis, or the last injection.
            let before = try trial.missingScripts()
            for _ in 1...9 {
                try trial.stage.command(["SCRIPT", "FLUSH"])
                trial.pause(50...50)
            }
            try trial.await("a daemon sends a script that Redis has lost", atMost: .seconds(60)) {
                try trial.missingScripts() > before
            }
            try trial.killRedis()
            trial.count(9)
        }
    }
}

extension Trial {
    /// Fills Redis with foreign keys until it evicts some, and removes them again.
    func crowd(expiring: Bool) throws {
        let used = try self.info("memory", "used_memory")
        try stage.command(["CONFIG", "SET", "maxmemory", String(used + (2 << 20))])
        let before = try self.info("stats", "evicted_keys")
        let value = String(repeating: "v", count: 4096)
        for number in 0..<2000 {
            // Redis refuses writes when no key with a time to live is left, which this row does not test.
            _ = try? stage.command(["SET", "crowd:\(number)", value] + (expiring ? ["EX", "1000"] : []))
        }
        if try info("stats", "evicted_keys") == before { fail("Redis evicted nothing") }
        try stage.command(["CONFIG", "SET", "maxmemory", "0"])
        try stage.command(["EVAL", "for _, key in ipairs(redis.call('KEYS', 'crowd:*')) do redis.call('DEL', key) end", "0"])
    }

    /// Returns a number from INFO.
    func info(_ section: String, _ name: String) throws -> Int {
        guard let number = try stage.command("INFO", section).number(after: name + ":") else {
            throw TrialError(description: "INFO has no \(name)")
        }
        return number
    }

    /// Returns the number of calls of scripts that Redis did not know.
    func missingScripts() throws -> Int {
        try stage.command("INFO", "errorstats").number(after: "errorstat_NOSCRIPT:count=") ?? 0
    }

    /// Returns the number of EVAL commands.
    func scriptCalls() throws -> Int {
        try stage.command("INFO", "commandstats").number(after: "cmdstat_eval:calls=") ?? 0
    }

    /// Verifies that new jobs are delivered after the fault.
    func judgeServesAgain() throws {
        let new = stopProducing().acknowledged
        try awaitDrained("the rest is drained", atMost: .seconds(60))
        let numbers = (0..<200).map { (new.max() ?? 0) + 1_000_000 + $0 }
        try stage.push(numbers.map(Trial.job))
        excuse(Set(numbers))
        try self.await("200 new jobs are delivered", atMost: .seconds(60)) {
            tail.read()
            return numbers.allSatisfy { tail.accepted[deviceToken($0)] == 1 }
        }
    }
}

/// Rollbacks of Redis to an earlier state than the acknowledged one.
extension Trial {
    /// Rolls Redis back while the proxy keeps the daemons from it, until no push is on the wire.
    ///
    /// `body` rolls Redis back. All jobs in Redis after it must be delivered, and those that APNs already accepted are
    /// duplicates. Other jobs acknowledged after `certain` are excused.
    ///
    /// A daemon puts the tokens of campaigns that it holds back without a look at their audience, which may have them again.
    /// These are duplicates also if APNs accepts them later.
    ///
    /// - Parameters:
    ///   - certain: jobs that Redis cannot have forgotten.
    ///   - body: returns the tokens of campaigns that daemons hold.
    func rollBack(certain: Set<Int>, _ body: () throws -> Set<Int>) throws {
        let proxy = redisProxy
        proxy.behaviour.refuses = true
        defer { proxy.behaviour.refuses = false }
        let held = try body()
        proxy.cutAll()
        let acknowledged = acknowledged()
        tail.readUntilSilent()
        let snapshot = try RedisSnapshot.take(stage)
        let again = snapshot.waiting.intersection(held)
        allowTwice(snapshot.open.count { again.contains($0) || tail.accepted[deviceToken($0)] != nil })
        excuse(acknowledged.subtracting(certain).subtracting(snapshot.all))
    }

    /// Simulates a power failure: the append-only file loses its last bytes, up to a random position.
    ///
    /// Redis must run with `appendfsync always`, so that the file contains all acknowledged writes.
    ///
    /// Redis 7.0.15 has a bug here: after a cut within a transaction, the log keeps the beginning of the transaction, and a
    /// *later* start executes that half. A rewrite of the log after the first start prevents it.
    func losePower(insideTransaction: Bool) throws {
        let path = stage.redis.appendOnlyFile
        let certain = acknowledged()
        var facts = stat()
        guard unsafe stat(path, &facts) == 0 else { throw TrialError(description: "no \(path): errno \(errno)") }
        pause(100...1500)
        stage.redis.kill()
        // Connected daemons notice now, and must not reconnect before the snapshot.
        try rollBack(certain: certain) {
            let log = AppendOnlyFile(path, from: Int(facts.st_size))
            let end = log.cut(insideTransaction: insideTransaction, &random)
            let held = try producesCampaigns ? heldAtLast() : []
            // The start may have removed an incomplete end.
            _ = unsafe stat(path, &facts)
            guard unsafe truncate(path, min(end, Int(facts.st_size))) == 0 else {
                throw TrialError(description: "cannot truncate: errno \(errno)")
            }
            try stage.redis.restart()
            try stage.reconnect()
            return held
        }
        try stage.command(["BGREWRITEAOF"])
        try self.await("the log is rewritten") {
            try info("persistence", "aof_rewrite_in_progress") + info("persistence", "aof_rewrite_scheduled") == 0
        }
    }

    /// Returns what the daemons held or had delayed when Redis died: Redis starts with its whole log for a moment.
    private func heldAtLast() throws -> Set<Int> {
        try stage.redis.restart()
        try stage.reconnect()
        let snapshot = try RedisSnapshot.take(stage)
        stage.redis.kill()
        return snapshot.held.union(snapshot.later)
    }

    /// The end of an append-only file.
    private struct AppendOnlyFile {
        private let start: Int
        private let bytes: [UInt8]

        init(_ path: String, from start: Int) { (self.start, bytes) = (start, File.bytes(of: path, from: start)) }

        /// Returns the position of the cut: after any byte, or within a transaction if there is one.
        func cut(insideTransaction: Bool, _ random: inout SeededGenerator) -> Int {
            if insideTransaction, let begin = places(of: "*1\r\n$5\r\nMULTI\r\n", from: 0).randomElement(using: &random),
                let end = places(of: "*1\r\n$4\r\nEXEC\r\n", from: begin).first
            {
                return start + Int.random(in: begin + 1...end, using: &random)
            }
            return start + Int.random(in: 0...bytes.count, using: &random)
        }

        private func places(of text: String, from start: Int) -> [Int] {
            let pattern = Array(text.utf8)
            guard bytes.count >= start + pattern.count else { return [] }
            return (start...bytes.count - pattern.count).filter {
                bytes[$0] == pattern[0] && bytes[$0..<$0 + pattern.count].elementsEqual(pattern)
            }
        }
    }
}

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
            lists.map { ["LRANGE", $0, "0", "-1"] } + [["ZRANGE", keys.delayed, "0", "-1"], heldJobs("*"), audiences] + commands)
        if let refusal = replies.suffix(commands.count).first(where: \.isError) {
            throw TrialError(description: "Redis refused \(commands): \(refusal)")
        }
        let numbers = replies.map(numbers)
        return RedisSnapshot(
            waiting: numbers[0].union(numbers[lists.count + 2]),
            held: numbers[lists.count + 1],
            later: numbers[2...lists.count].reduce(into: []) { $0.formUnion($1) }, dead: numbers[1])
    }

    /// The command for the tokens of all campaigns that were not claimed, or whose job was not.
    private static let audiences = [
        "EVAL",
        """
        local out = {}
        local read = {list = {'LRANGE', 0, -1}, set = {'SMEMBERS'}, zset = {'ZRANGE', 0, -1}}
        for _, key in ipairs(redis.call('KEYS', '*audience:*')) do
          local command = read[redis.call('TYPE', key).ok]
          for _, token in ipairs(redis.call(command[1], key, unpack(command, 2))) do out[#out + 1] = token end
        end
        return out
        """, "0",
    ]

    /// Returns the command for all jobs in flight of the workers whose names match a pattern, in chunks or in the hashes of older
    /// versions.
    static func heldJobs(_ workers: String) -> [String] {
        let script = """
            local out = held('*gapless:chunks:' .. ARGV[1], {})
            for _, key in ipairs(redis.call('KEYS', '*gapless:inflight:' .. ARGV[1])) do
              if redis.call('TYPE', key).ok == 'hash' then
                for _, job in ipairs(redis.call('HVALS', key)) do out[#out + 1] = job end
              end
            end
            return out
            """
        return ["EVAL", heldJobsInLua + script, "0", workers]
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
