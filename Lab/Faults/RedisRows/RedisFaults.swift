import Glibc
import Harness
internal import Platform
internal import RedisQueue

/// Faults of Redis and of the connections to it. Each call injects a fault once and ends it before it returns.
///
/// None of them waits for the daemons; `Trial.inject` does.
extension Trial {
    /// Starts the producer, and waits until the first job is sent.
    func produceAtWork() throws {
        try produce()
        try awaitSent(1)
    }

    /// Kills Redis, and restarts it from its files after a random number of milliseconds.
    func killRedis(away: ClosedRange<Int> = 5...300) throws {
        try awaitFlushedLog()
        stage.redis.kill()
        pause(away)
        try stage.redis.restart()
        try stage.reconnect()
    }

    /// Waits until Redis has written its log. With `appendfsync everysec`, Redis delays writes during an fsync for up to two
    /// seconds; a kill would lose them, which `losePower` tests.
    private func awaitFlushedLog() throws {
        try self.await("Redis has written its log") {
            guard let text = try? stage.command(["INFO", "persistence"]).text else { return true }
            let isPending = text.contains("aof_pending_bio_fsync:") && !text.contains("aof_pending_bio_fsync:0")
            return !isPending && (!text.contains("aof_buffer_length:") || text.contains("aof_buffer_length:0"))
        }
    }

    /// Tears this share of the replies and cuts their connections, until this many connections ended.
    func tearReplies(_ share: Double, times: Int) throws {
        guard let proxy = stage.redisProxy else { preconditionFailure("this fault needs a proxy") }
        let before = proxy.cuts
        proxy.behaviour.tearsReply = share
        try self.await("\(times) replies are torn", atMost: .seconds(60)) { proxy.cuts >= before + times }
        proxy.behaviour.tearsReply = 0
    }

    /// The ways in which a running Redis does not reply for a while.
    enum Stall: CaseIterable {
        case pausedAll, pausedWrites, asleep, busyScript
    }

    /// Stalls Redis for about this many milliseconds. Needs `--enable-debug-command yes`.
    func stallRedis(_ stall: Stall, milliseconds: Int) throws {
        switch stall {
        case .pausedAll: try stage.command(["CLIENT", "PAUSE", String(milliseconds), "ALL"])
        case .pausedWrites: try stage.command(["CLIENT", "PAUSE", String(milliseconds), "WRITE"])
        case .asleep: try stage.command(["DEBUG", "SLEEP", String(Double(milliseconds) / 1000)])
        case .busyScript: try runEndlessScript(milliseconds: milliseconds)
        }
        // The reply to a pause comes at once: the fault ends when Redis writes again.
        try stage.command(["DEL", "gapless-lab-no-such-key"])
    }

    private func runEndlessScript(milliseconds: Int) throws {
        try stage.command(["CONFIG", "SET", "busy-reply-threshold", "50"])
        let server = stage.server
        let endless = try OwnedThread(name: "endless script") {
            guard var client = try? RedisClient(settings: server) else { return }
            _ = try? client.command(["EVAL", "while true do end", "0"])
        }
        pause(milliseconds...milliseconds)
        // The script must run before it can be killed.
        let isKilled = waitUntil { (try? stage.command(["SCRIPT", "KILL"])) != nil }
        endless.join()
        if !isKilled { throw TrialError(description: "the endless script could not be killed") }
    }

    /// Makes every BGSAVE fail for this many milliseconds, so that Redis refuses all writes (MISCONF).
    func fillDisk(milliseconds: ClosedRange<Int>) throws {
        // A folder with the name of the dump: not even root can rename a file to it.
        let dump = stage.redis.path + "/dump.rdb"
        unsafe unlink(dump)
        guard unsafe mkdir(dump, 0o700) == 0 else { throw TrialError(description: "cannot make \(dump): errno \(errno)") }
        defer { unsafe rmdir(dump) }
        try save(until: "rdb_last_bgsave_status:err")
        guard refuses("MISCONF") else { throw TrialError(description: "Redis still accepts writes") }
        pause(milliseconds)
        unsafe rmdir(dump)
        try save(until: "rdb_last_bgsave_status:ok")
    }

    private func save(until state: String) throws {
        try self.await("the save ends with \(state)") {
            let text = try stage.command(["INFO", "persistence"]).text ?? ""
            if text.contains(state) { return true }
            if text.contains("rdb_bgsave_in_progress:0") { _ = try? stage.command(["BGSAVE"]) }
            return false
        }
    }

    /// Returns whether Redis refuses a write with this code.
    func refuses(_ code: String) -> Bool {
        do {
            try stage.command(["RPUSH", "gapless-lab-no-such-key"] + [String(repeating: "x", count: 100)])
            try stage.command(["DEL", "gapless-lab-no-such-key"])
            return false
        } catch {
            return "\(error)".contains(code)
        }
    }

    /// Empties Redis, and excuses the waiting jobs: the daemons must still deliver the jobs that they hold.
    ///
    /// - Returns: the number of jobs that the daemons held.
    func flushAll(restarting: Bool) throws -> Int {
        let snapshot = try RedisSnapshot.take(stage, andThen: [["FLUSHALL"]])
        excuse(snapshot.all.subtracting(snapshot.held))
        if restarting {
            stage.redis.kill()
            try stage.redis.restart()
            try stage.reconnect()
        }
        return snapshot.held.count
    }
}
