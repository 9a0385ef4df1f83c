import Glibc
import Harness
internal import RedisQueue
internal import Threads

/// What can be done to a Redis, or to the way to it: once each, and undone when the call returns.
///
/// None of them waits for the daemons: that is what `Trial.strike` does around them.
extension Trial {
    /// Lets jobs come in, and waits until the first are sent: from here on a daemon is at work.
    func produceAtWork() throws {
        try produce()
        try awaitSent(1)
    }

    /// kill -9, and a restart from its files after up to so many milliseconds.
    func killRedis(away: ClosedRange<Int> = 5...300) throws {
        try awaitFlushedLog()
        stage.redis.kill()
        pause(away)
        try stage.redis.restart()
        try stage.reconnect()
    }

    /// With `appendfsync everysec` Redis holds its writes back while an fsync of it lasts, at most two seconds, and only then the
    /// death of the process loses what it acknowledged: that is `losePower`. This waits until nothing is held back.
    private func awaitFlushedLog() throws {
        try self.await("Redis has written its log") {
            guard let text = try? stage.command(["INFO", "persistence"]).text else { return true }
            let isPending = text.contains("aof_pending_bio_fsync:") && !text.contains("aof_pending_bio_fsync:0")
            return !isPending && (!text.contains("aof_buffer_length:") || text.contains("aof_buffer_length:0"))
        }
    }

    /// Passes up to this share of the replies only in part, or not at all, and then cuts: until so many connections ended like this.
    func tearReplies(_ share: Double, times: Int) throws {
        guard let proxy = stage.redisProxy else { preconditionFailure("this strike needs a proxy") }
        let before = proxy.cuts
        proxy.behaviour.tearsReply = share
        try self.await("\(times) replies are torn", atMost: .seconds(60)) { proxy.cuts >= before + times }
        proxy.behaviour.tearsReply = 0
    }

    /// Every way in which a Redis that lives does not answer for a while.
    enum Stall: CaseIterable {
        case pausedAll, pausedWrites, asleep, busyScript
    }

    /// Lets Redis stall for about so many milliseconds. Needs `--enable-debug-command yes`.
    func stallRedis(_ stall: Stall, milliseconds: Int) throws {
        switch stall {
        case .pausedAll: try stage.command(["CLIENT", "PAUSE", String(milliseconds), "ALL"])
        case .pausedWrites: try stage.command(["CLIENT", "PAUSE", String(milliseconds), "WRITE"])
        case .asleep: try stage.command(["DEBUG", "SLEEP", String(Double(milliseconds) / 1000)])
        case .busyScript: try runEndlessScript(milliseconds: milliseconds)
        }
        // A pause is announced at once and lasts: the fault is over when Redis writes again.
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
        // Until it runs there is nothing to kill.
        let isKilled = waitUntil { (try? stage.command(["SCRIPT", "KILL"])) != nil }
        endless.join()
        if !isKilled { throw TrialError(description: "the endless script could not be killed") }
    }

    /// Lets every BGSAVE fail, so that Redis refuses all writes (MISCONF), for so many milliseconds.
    func fillDisk(milliseconds: ClosedRange<Int>) throws {
        // A folder under the name of the dump: nothing can be renamed to it, not even by root.
        let dump = stage.redis.path + "/dump.rdb"
        unlink(dump)
        guard mkdir(dump, 0o700) == 0 else { throw TrialError(description: "cannot make \(dump): errno \(errno)") }
        defer { rmdir(dump) }
        try save(until: "rdb_last_bgsave_status:err")
        guard refuses("MISCONF") else { throw TrialError(description: "Redis still writes without a disk") }
        pause(milliseconds)
        rmdir(dump)
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

    /// Whether Redis refuses a write with this code.
    func refuses(_ code: String) -> Bool {
        do {
            try stage.command(["RPUSH", "gapless-lab-no-such-key"] + [String(repeating: "x", count: 100)])
            try stage.command(["DEL", "gapless-lab-no-such-key"])
            return false
        } catch {
            return "\(error)".contains(code)
        }
    }

    /// Takes everything out of Redis, and excuses what waited there: only what the daemons hold is still to be delivered.
    ///
    /// - Returns: how many jobs the daemons held by Redis' books.
    func flushAll(restarting: Bool) throws -> Int {
        let stock = try RedisStock.take(stage, andThen: [["FLUSHALL"]])
        excuse(stock.all.subtracting(stock.held))
        if restarting {
            stage.redis.kill()
            try stage.redis.restart()
            try stage.reconnect()
        }
        return stock.held.count
    }
}
