import APNSSimulator
import Glibc
import Harness
internal import RedisQueue

/// Redis loses what a living daemon holds, or lets the daemon do only half of a step.
///
/// Only jobs that were neither in Redis nor in the memory of a daemon are excused.
extension Fault {
    static let heldJobRows = [rolledBack, narrowed, continuedByAnother]

    /// The claims of a daemon are stable while APNs does not answer: its streams are full. Then a replica without these claims,
    /// in some rounds also without their RPUSH, becomes the master. In every third round the connection breaks again before the
    /// reply to the registration.
    private static let rolledBack = Fault(
        number: 75, name: "rollback-held", title: "failover to a replica that lacks the claims of a daemon",
        rule: .ofWhatRedisKept, isQuick: true
    ) { trial in
        let pair = try RedisPair(seed: trial.seed)
        // Some held jobs get another response than an acceptance: it counts as usual.
        try trial.open(
            hosting: Trial.accepting(after: 5...10, [.init(.usual(503), 0.02)]), on: pair.master, proxies: true)
        let simulator = trial.stage.simulator
        let daemon = try trial.start()
        try trial.queue(100)
        try trial.awaitDrained("the daemon works")
        try trial.injectAgain(10) { round in
            simulator.behave { $0.script.latency = .seconds(3)...(.seconds(4)) }
            try trial.failOverWithoutClaims(pair, daemon, losesPushes: round % 2 == 1, cutsTwice: round % 3 == 2)
            simulator.behave { $0.script.latency = .milliseconds(5)...(.milliseconds(10)) }
            try trial.awaitDrained(atMost: .seconds(120))
        }
        if trial.complaints("earlier state") == 0 { trial.fail("the log does not name the cause") }
        if trial.complaints("taken over") > 0 { trial.fail("the log blames another worker, and there is none") }
    }

    /// A user loses the right to one command while the daemon works, and gets it back when the daemon has logged the refusal
    /// several times: each script fails in the middle, and is sent again.
    private static let narrowed = Fault(
        number: 76, name: "script-rights", title: "the right to one command is taken away and given back",
        rule: .ofWhatRedisKept, isQuick: true
    ) { trial in
        try trial.open(
            simulator: ["--latency", "5ms", "--fail", "503:2%", "--dead", "1%"],
            settings: ["redis_dead_letter_max": "20", "redis_feedback_max": "20"])
        try trial.stage.command(["ACL", "SETUSER", "lab", "on", ">lab", "~*", "&*", "+@all"])
        try trial.stage.logIn(as: "lab", password: "lab")
        try trial.startAtWork()
        let commands = [
            "ltrim", "lrange", "hset", "hdel", "rpush", "lpush", "zadd", "zrem", "exists", "hmget", "del", "llen", "sort", "lset",
            "time",
        ]
        for number in 0..<trial.times(commands.count) {
            let command = trial.scale == .full ? commands[number] : commands[trial.draw(0...commands.count - 1)]
            try trial.inject { try trial.takeAway(command) }
        }
        if trial.scale == .full, trial.complaints("Redis refuses: ") == 0 { trial.fail("Redis has refused no command") }
        trial.judgeTrimmed()
    }

    /// Another process with the same name has registered, as after the restore of a memory snapshot or in a cloned machine: the
    /// number in the record is higher than any that the daemon has used, or cannot be continued.
    private static let continuedByAnother = Fault(
        number: 77, name: "cloned-worker", title: "another process continues the record of a worker", rule: .onlyWhatWasInFlight,
        isQuick: true
    ) { trial in
        try trial.open(simulator: ["--latency", "20ms..60ms"], settings: ["redis_lease": "2"])
        try trial.startAtWork()
        try trial.injectBusy(10) { turn in
            let before = Set(try trial.status().workers.map(\.name))
            guard let worker = before.first else { throw TrialError(description: "no worker is registered") }
            let number = ["9223372036854775807", "not a number", "100000"][turn % 3]
            try trial.allowInFlightTwice()
            try trial.stage.command(["HSET", trial.stage.keys.worker(worker), "number", number])
            try trial.stage.killClients()
            // On a busy machine the daemon has claimed more meanwhile.
            try trial.allowInFlightTwice()
            try trial.await("the daemon has another name", atMost: .seconds(60)) {
                try trial.status().workers.contains { !before.contains($0.name) }
            }
            try trial.await("the former record is taken over", atMost: .seconds(60)) { try trial.status().workers.count == 1 }
        }
    }
}

extension Trial {
    /// Makes a replica the master that lacks the claims that the daemon holds now.
    ///
    /// - Parameters:
    ///   - losesPushes: whether it lacks the jobs, too.
    ///   - cutsTwice: whether the first connection to it breaks before the reply to the registration.
    fileprivate func failOverWithoutClaims(
        _ pair: RedisPair, _ daemon: DaemonProcess, losesPushes: Bool, cutsTwice: Bool
    ) throws {
        let proxy = redisProxy
        let restored = complaints("earlier state")
        if !losesPushes {
            daemon.process.kill(SIGSTOP)
            try queue(jobs(3000))
        }
        try awaitReplica()
        pair.link.behaviour = .halfOpen
        if losesPushes { try queue(jobs(3000)) } else { daemon.process.kill(SIGCONT) }
        var (last, same) = (-1, 0)
        try self.await("the streams are full", every: .milliseconds(20)) {
            let held = try self.held(by: daemon)
            (last, same) = (held, held == last && held > 0 ? same + 1 : 0)
            return same == 10
        }
        // The claims do not change any more: what Redis has in flight is in the memory of the daemon.
        let before = try RedisSnapshot.take(stage)
        proxy.behaviour.refuses = true
        proxy.cutAll()
        pair.master.kill()
        try pair.replica.command(["REPLICAOF", "NO", "ONE"])
        try turn(to: pair.replica)
        tail.readUntilSilent()
        let after = try RedisSnapshot.take(stage)
        // Redis has pushes again that were accepted, and cannot know which jobs are in flight.
        allowTwice(after.open.count { tail.accepted[deviceToken($0)] != nil || before.held.contains($0) })
        excuse(before.all.subtracting(before.held).subtracting(after.all))
        if cutsTwice { proxy.behaviour.tearsReply = 1 }
        let cuts = proxy.cuts
        proxy.behaviour.refuses = false
        if cutsTwice { try self.await("replies are torn") { proxy.cuts >= cuts + 2 } }
        proxy.behaviour.tearsReply = 0
        // Until then the new master has none of these jobs, and seems to have nothing to do.
        try self.await("the daemon has put its jobs back") { complaints("earlier state") > restored }
        try pair.swap()
        try pair.replica.restart()
        try pair.join()
    }

    /// Takes the right to a command away until the daemon has logged the refusal, or has shown that it does not need it.
    fileprivate func takeAway(_ command: String) throws {
        let before = complaints("Redis refuses: ")
        let sent = (try? stage.sent()) ?? 0
        try stage.command(["ACL", "SETUSER", "default", "-" + command])
        // A command that no script needs at the moment causes no refusal.
        let isRefused = waitUntil(atMost: .seconds(8), every: .milliseconds(20)) {
            complaints("Redis refuses: ") > before || ((try? stage.sent()) ?? 0) > sent + 4 * Trial.rate
        }
        if isRefused { pause(.seconds(scale == .full ? 11 : 6)) }
        try stage.command(["ACL", "SETUSER", "default", "+" + command])
    }

    /// Verifies the lists with a maximum: a step that was repeated would have displaced genuine records. Jobs with a 410 may have
    /// left the list of dead letters.
    fileprivate func judgeTrimmed() {
        afterwards = { [unowned self] status in
            let gone = Set(stage.ledger.entries.filter { $0.status == 410 }.map(\.token))
            excuse(Set(gone.compactMap { jobNumber(Array($0.utf8)) }))
            let letters = try stage.deadLetterCounts().tokens
            if letters.count > 20 || status.feedback > 20 {
                fail("\(letters.count) dead letters, \(status.feedback) feedback entries")
            }
            if Set(letters).count != letters.count { fail("a dead letter was stored twice") }
            if letters.count < min(20, gone.count) { fail("\(letters.count) dead letters after \(gone.count) responses of 410") }
            let doubts = status.counter(.maybeDuplicate)
            if doubts > 0 { fail("maybe_duplicate is \(doubts), although a refusal leaves no doubt") }
        }
    }
}
