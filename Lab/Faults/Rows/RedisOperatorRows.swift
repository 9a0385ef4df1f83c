import Glibc
import Harness
internal import RedisQueue

/// Actions of an operator or of another program on Redis.
extension Fault {
    static let operatorRows = [locked, wrongTypes, touched, clockJumps]

    private static let locked = Fault(
        number: 28, name: "redis-rights", title: "password changed, rights narrowed", rule: .nothingTwice
    ) { trial in
        try trial.open(settings: ["redis_password": "\"first\""])
        try trial.stage.command(["ACL", "SETUSER", "lab", "on", ">lab", "~*", "&*", "+@all"])
        try trial.stage.command(["CONFIG", "SET", "requirepass", "first"])
        try trial.stage.logIn(as: "lab", password: "lab")
        try trial.startAtWork()
        try trial.injectAgain(10, backWithin: .seconds(30)) { number in
            try trial.lockOut(Trial.Lock.allCases[number % Trial.Lock.allCases.count])
        }
    }

    private static let wrongTypes = Fault(
        number: 29, name: "redis-type", title: "a string at the key of a list, hash or set", rule: .ofWhatRedisKept
    ) { trial in
        trial.diesOnlyByAnswers = true
        try trial.open(simulator: ["--latency", "5ms", "--fail", "503:2%", "--dead", "1%"])
        try trial.startAtWork()
        let keys = trial.stage.keys
        let worker = try trial.stage.status().workers[0].name
        let all =
            [
                keys.list, keys.chunks(worker), keys.workers, keys.worker(worker), keys.delayed, keys.dead, keys.feedback,
                keys.stats, keys.holders,
            ] + keys.recovered
        try trial.injectAgain(all.count, after: 50...200, backWithin: .seconds(30)) { try trial.overwrite(all[$0]) }
    }

    /// Other programs remove jobs from the list and push urgent jobs to its head.
    private static let touched = Fault(
        number: 30, name: "list-touched", title: "LPUSH, LREM, LTRIM, DEL, RENAME by others", rule: .ofWhatRedisKept,
        isQuick: true
    ) { trial in
        try trial.open(simulator: ["--latency", "20ms", "--max-streams", "20", "--token-streams", "20"])
        try trial.start()
        try trial.injectAgain(20) { number in
            try trial.queue(2500)
            trial.pause(20...200)
            try trial.touch(Trial.Touch.allCases[number % Trial.Touch.allCases.count])
            try trial.await("the list is short", atMost: .seconds(60)) { try trial.stage.status().backlog < 500 }
        }
    }

    private static let clockJumps = Fault(
        number: 44, name: "redis-clock", title: "the clock of Redis jumps by days, both ways", rule: .nothingTwice
    ) { trial in
        trial.diesOnlyByAnswers = true
        let clock = try ShiftedClock()
        try trial.open(
            simulator: ["--latency", "5ms", "--fail", "503:2%"], on: try RedisServer(environment: clock.environment))
        try trial.start("first")
        try trial.start("second")
        try trial.produceAtWork()
        try trial.injectAgain(10, after: 200...800, backWithin: .seconds(30)) { turn in
            let days = turn % 2 == 0 ? trial.draw(-9 ... -1) : trial.draw(1...9)
            try trial.move(clock, to: .seconds(days * 86400))
        }
        // The latest time so far: all delayed jobs are due.
        clock.move(to: .seconds(10 * 86400))
        try trial.judgeNoTakeover()
    }
}

extension Trial {
    /// The ways to lock out the user of the daemon.
    enum Lock: CaseIterable {
        case password, commands, keys
    }

    /// Changes the password or the rights of the user, waits until the daemon logs it, and reverts the change.
    func lockOut(_ lock: Lock) throws {
        let before = complaints("Redis refuses: ")
        let user = ["ACL", "SETUSER", "default"]
        let (close, open, sign) =
            switch lock {
            case .password:
                (["CONFIG", "SET", "requirepass", "second"], ["CONFIG", "SET", "requirepass", "first"], "AUTH was refused")
            case .commands: (user + ["-eval", "-evalsha"], user + ["+@all"], "NOPERM")
            case .keys: (user + ["resetkeys", "~another*"], user + ["~*"], "NOPERM")
            }
        try stage.command(close)
        // A connection keeps the rights of its login.
        if lock == .password { try stage.command(["CLIENT", "KILL", "USER", "default"]) }
        try self.await("the daemon logs the refusal") { complaints("Redis refuses: ") > before }
        let line = stage.standardErrors.split(separator: "\n").last { $0.contains("Redis refuses: ") } ?? ""
        if !line.contains(sign) { fail("the log does not name it: \(line)") }
        if line.contains("first") || line.contains("second") { fail("the log contains a password") }
        try stage.command(open)
    }

    /// Sets a string at a key of another type, waits until the daemon logs it, and restores the value.
    ///
    /// Overwritten jobs of the list itself are excused.
    func overwrite(_ key: String) throws {
        let before = complaints("Redis refuses: WRONGTYPE")
        let aside = "gapless-lab-aside"
        if key == stage.keys.list {
            excuse(try RedisSnapshot.take(stage, andThen: [["SET", key, "a text"]]).waiting)
        } else {
            let exists = try stage.command(["EXISTS", key]).integer == 1
            // A failed counter does not stop a daemon: it checks the type of the key only at a login.
            let kill = key == stage.keys.stats ? [["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]] : []
            _ = try stage.atOnce(kill + (exists ? [["RENAME", key, aside]] : []) + [["SET", key, "a text"]])
        }
        try self.await("the daemon logs the wrong type at \(key)") { complaints("Redis refuses: WRONGTYPE") > before }
        let hasAside = try stage.command(["EXISTS", aside]).integer == 1
        _ = try stage.atOnce([["DEL", key]] + (hasAside ? [["RENAME", aside, key]] : []))
    }

    enum Touch: CaseIterable {
        case urgent, remove, trim, delete, rename
    }

    /// Changes the list as another program may do, and excuses the removed jobs.
    func touch(_ touch: Touch) throws {
        let list = stage.keys.list
        switch touch {
        case .urgent: try judgeUrgent()
        case .remove:
            let some = try RedisSnapshot.take(stage).waiting.shuffled(using: &random).prefix(20)
            // Jobs that were claimed meanwhile are neither removed nor excused.
            for number in some.sorted() where try stage.command(["LREM", list, "0", Trial.job(number)]).integer == 1 {
                excuse([number])
            }
        case .trim:
            let look = ["LRANGE", list, "0", "-1"]
            let replies = try stage.atOnce([look, ["LTRIM", list, "100", "-101"], look])
            let (before, after) = (RedisSnapshot.numbers(in: replies[0]), RedisSnapshot.numbers(in: replies[2]))
            if before.count <= after.count { fail("LTRIM removed nothing") }
            excuse(before.subtracting(after))
        case .delete: excuse(try RedisSnapshot.take(stage, andThen: [["DEL", list]]).waiting)
        case .rename:
            try stage.command(["RENAME", list, "gapless-lab-aside"])
            pause(50...300)
            try stage.command(["RENAME", "gapless-lab-aside", list])
        }
    }

    /// Verifies that a job pushed to the head is sent before the waiting jobs.
    private func judgeUrgent() throws {
        tail.read()
        let status = try stage.status()
        let urgent = try queue(1, atHead: true)
        let token = deviceToken(urgent.lowerBound)
        try self.await("the urgent job is sent") {
            tail.read()
            return tail.accepted[token] != nil
        }
        let waits = try RedisSnapshot.take(stage).waiting.count
        if waits == 0 || status.backlog < 500 {
            fail("\(waits) of \(status.backlog) waited behind the urgent job: the order was not tested")
        }
    }

    /// Moves the clock of Redis, and verifies it.
    func move(_ clock: ShiftedClock, to shift: Duration) throws {
        clock.move(to: shift)
        let now = try stage.command(["TIME"]).items?.first?.text.flatMap { Int($0) } ?? 0
        let here = Int(time(nil))
        if abs(now - here - Int(shift.components.seconds)) > 10 {
            fail("the clock of Redis is off by \(now - here) s instead of \(shift)")
        }
    }
}
