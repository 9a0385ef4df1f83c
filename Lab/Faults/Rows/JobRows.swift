import APNSSimulator
import Harness
internal import RedisQueue

/// Faults of the jobs, or of the responses to them.
extension Fault {
    static let jobRows = [mixedAnswers, hostileJobs, alike, backlog, everything]

    /// Each job is delivered exactly once, or dead-lettered with the correct reason after the configured number of sends. 15
    /// tokens get only 503, while others are accepted. With 20 failures in a row, APNs would be failing, and no job would be
    /// dead-lettered.
    private static let mixedAnswers = Fault(
        number: 38, name: "answers", title: "2 % 503 and 1 % 410 responses", rule: .nothingTwice, isQuick: true
    ) { trial in
        let jobs = trial.jobs(100_000)
        let hopeless = (0..<15).map(deviceToken)
        try trial.open(
            simulator: [
                "--fail", "503:2%", "--dead", "1%", "--seed", "\(UInt32.random(in: 1...9999, using: &trial.random))",
            ] + hopeless.flatMap { ["--token", "\($0)=503*9"] })
        try trial.queue(jobs)
        try trial.startProducing()
        try trial.await("the jobs with 503 alone are dead letters", atMost: .seconds(120)) {
            Set(try trial.stage.deadLetterCounts().tokens).isSuperset(of: hopeless)
        }
        trial.afterwards = { [unowned trial] _ in
            try trial.awaitLedger()
            let ledger = trial.stage.ledger
            let (entries, sends) = (ledger.entries, ledger.statuses.mapValues(\.count))
            trial.count(entries.count { $0.status != 200 })
            for token in hopeless where sends[token] != 4 {
                trial.fail("\(sends[token, default: 0]) sends of \(token), which got only 503")
            }
            try judgeLog(trial, hopeless: hopeless.count, unavailable: entries.count { $0.status == 503 })
        }
    }

    /// Compares the log and the reasons with the simulator's ledger.
    private static func judgeLog(_ trial: Trial, hopeless: Int, unavailable: Int) throws {
        let (dead, reasons) = try trial.stage.deadLetterCounts()
        let log = trial.stage.standardErrors.split(separator: "\n")
        let lines = { (text: String) in log.count { $0.contains(text) } }
        /// Failures that the log has only counted.
        let counted = { (text: String) in
            log.filter { $0.contains(text) }.reduce(0) { sum, line in
                let digits = line.split(separator: " ").dropFirst(4).first?.filter { $0 != "," } ?? ""
                return sum + (Int(digits) ?? 0)
            }
        }
        let exhausted = reasons["ServiceUnavailable", default: 0]
        if exhausted < hopeless || Set(reasons.keys) != ["ServiceUnavailable", "Unregistered"] {
            trial.fail("dead letters with other reasons: \(reasons)")
        }
        if lines("Final SendPayload Error (ID ") + counted(" more pushes have failed") != dead.count {
            trial.fail("the final log lines do not match the dead letters")
        }
        let resends = (1...3).map { lines("503 ServiceUnavailable. Retrying count (\($0)).") }
        let (expected, others) = (unavailable - exhausted, counted(" more pushes are retried"))
        if resends.reduce(others, +) != expected || others == 0 && resends.contains(where: { $0 < hopeless }) {
            trial.fail("lines of resends 1, 2, 3: \(resends); expected \(expected) in total")
        }
    }

    /// Bytes that are no job, between good jobs: each becomes a dead letter byte for byte.
    private static let hostileJobs = Fault(
        number: 46, name: "hostile", title: "hostile jobs between good ones", rule: .nothingTwice, isQuick: true
    ) { trial in
        try trial.open(simulator: [])
        // The daemon receives, parses, logs and dead-letters a job of 20 MB.
        trial.memoryCap = Sanitizer.memoryBound(256 << 20)
        var bad: [[UInt8]] = []
        for number in 0..<trial.jobs(3000) {
            try trial.queue(1)
            if number % 10 == 0 {
                bad.append(HostileJob.make(number / 10, &trial.random))
                try trial.stage.push(bytes: bad.last!)
            }
        }
        try trial.start()
        try trial.awaitDrained()
        trial.count(bad.count)
        let letters = try trial.stage.deadLetterJobs()
        for job in Set(bad) where letters.count(where: { $0 == job }) != bad.count(where: { $0 == job }) {
            trial.fail("not byte for byte in the dead letters: \(String(decoding: job.prefix(80), as: UTF8.self))")
        }
        if letters.count != bad.count { trial.fail("\(letters.count) dead letters for \(bad.count) bad jobs") }
        // The token of a bad job is arbitrary: here only deliveries can be unexpected.
        trial.countsDeadLettersOnly = true
    }

    /// Equal jobs that all fail once: none may replace another one in the sorted set of delayed jobs.
    private static let alike = Fault(
        number: 47, name: "alike", title: "1,000 identical jobs, all failing once", rule: .nothingTwice, isQuick: true
    ) { trial in
        let count = 1000
        // On a slow machine some jobs are sent again before others are sent once, and meet more than one 503.
        try trial.open(
            simulator: ["--token", "\(deviceToken(0))=503*\(count)"], settings: ["retry_limit": "100", "retry_delays": "[1.5]"])
        try trial.queue(1)
        try trial.stage.push(repeatElement(Trial.job(0), count: count - 1))
        trial.identical = count - 1
        try trial.start()
        try trial.awaitDrained()
        trial.count(count)
        trial.afterwards = { status in
            if status.counter(.retried) != count { trial.fail("\(status.counter(.retried)) resends after \(count) refusals") }
        }
    }

    /// The list only shrinks, also after kills, and the memory of the daemon stays constant.
    private static let backlog = Fault(
        number: 48, name: "backlog", title: "a backlog of a million, kill -9 twelve times", rule: .onlyWhatWasInFlight
    ) { trial in
        try trial.open(simulator: [])
        let jobs = trial.scale == .full ? 1_000_000 : 20_000
        try trial.queue(jobs)
        var daemon = try trial.start()
        let kills = trial.times(12)
        var before = jobs
        for kill in 1...kills {
            // At a random point of each part of the run, on any machine.
            let place = jobs - (kill * jobs - trial.draw(0...jobs / 2)) / (kills + 1)
            try trial.await("the list shrinks to \(place)", atMost: .seconds(120)) {
                let now = try trial.status().backlog
                if now > before { trial.fail("the list grew from \(before) to \(now) jobs") }
                before = now
                return now <= place
            }
            trial.judgeMemory(of: daemon)
            try trial.inject { daemon = try trial.killAndRestart(daemon) }
        }
        try trial.awaitDrained(atMost: .seconds(120))
    }
}

/// Jobs that are huge, or that APNs refuses for a reason of their own, between ordinary ones.
extension Fault {
    static let hugeJobRows = [hugeJobs, ownRefusals, numbers]

    private static let hugeJobs = Fault(
        number: 46, name: "huge-jobs", title: "jobs of 5 MB for 250 devices, of 30 MB, 100 MB of 0x01", rule: .nothingTwice
    ) { trial in
        try trial.open(settings: ["retry_delays": "[1]"])
        // A job of 100 MB exists twice while its bytes go back to Redis.
        trial.memoryCap = Sanitizer.memoryBound(400 << 20)
        try trial.start()
        try trial.queue(1)
        try trial.awaitSent(1)
        let filler = String(repeating: "y", count: 5_000_000)
        try trial.injectAgain(10) { turn in
            try trial.queue(200)
            switch turn % 3 {
            case 0: try trial.queueTogether(250, extra: filler)
            // Larger than a job may be.
            case 1: try trial.stage.push(Trial.large(1_000_000 + turn, bytes: 30_000_000))
            default: try trial.stage.push(bytes: [UInt8](repeating: 1, count: trial.scale == .full ? 100_000_000 : 10_000_000))
            }
            try trial.queue(200)
            try trial.awaitDrained(atMost: .seconds(120))
        }
        let letters = (0..<trial.times(10)).count { $0 % 3 > 0 }
        trial.afterwards = { status in
            if status.dead != letters { trial.fail("\(status.dead) dead letters instead of \(letters)") }
        }
        // The jobs in them are none of the trial.
        trial.countsDeadLettersOnly = true
    }

    /// Numbers that no counter can have.
    private static let strange = [
        "9223372036854775807", "-9223372036854775808", "99999999999999999999", "-1", "1e400", "nan", "0x10", "",
        "9223372036854775806",
    ]

    /// The counters of Redis, and the connection number of the worker. The row restores both: with such a connection number the
    /// daemon cannot register.
    private static let numbers = Fault(
        number: 71, name: "numbers", title: "numbers out of range in the counters and the worker's hash", rule: .nothingTwice
    ) { trial in
        let port = FreePort.pick()
        try trial.open(settings: ["metrics_listen": "\"127.0.0.1:\(port)\""])
        let (daemon, keys) = (try trial.start(), trial.stage.keys)
        try trial.injectAgain(10) { _ in
            try trial.queue(100)
            try trial.awaitDrained()
            let fields = Counter.allCases.map(\.rawValue)
            let saved = try fields.map { try trial.stage.command("HGET", keys.stats, $0).text ?? "0" }
            for _ in 1...5 {
                for field in fields {
                    try trial.stage.command("HSET", keys.stats, field, strange.randomElement(using: &trial.random)!)
                }
                trial.noteTurn(port: port)
                // The endpoint reads Redis at most once a second.
                trial.pause(.milliseconds(300))
            }
            try trial.queue(100)
            try trial.awaitDrained()
            for (field, value) in zip(fields, saved) { try trial.stage.command("HSET", keys.stats, field, value) }
            for field in ["claimed", "sent"] { try trial.stage.command("HINCRBY", keys.stats, field, "100") }
            try judgeNumber(trial, daemon)
        }
        // The daemon registers under a new name while a record cannot be continued. The old record ends with its lease.
        try trial.await("no worker is silent", atMost: .seconds(60)) { try trial.status().workers.count == 1 }
    }

    /// Gives the connection of the daemon the highest number, cuts it, and restores the number.
    private static func judgeNumber(_ trial: Trial, _ daemon: DaemonProcess) throws {
        let worker = try trial.stage.keys.worker(trial.status().workers[0].name)
        let number = try trial.stage.command("HGET", worker, "number").text ?? ""
        try trial.stage.command("HSET", worker, "number", strange[trial.draw(0...2)])
        try trial.stage.killClients()
        trial.measureIdleness(of: [daemon])
        try trial.stage.command("HSET", worker, "number", number)
        try trial.queue(1)
        try trial.awaitDrained("the daemon works again")
    }

    /// Some jobs name a topic that APNs refuses for them alone, and some get another 403: the first are dead letters at once, the
    /// others after two strikes.
    private static let ownRefusals = Fault(
        number: 70, name: "own-403", title: "jobs with a 403 of their own between good ones", rule: .nothingTwice, isQuick: true
    ) { trial in
        try trial.open(hosting: Trial.accepting(after: 5...15))
        trial.stage.simulator.behave { behaviour in
            behaviour.script.tokenPlans = ["bad0", "bad1"].map {
                .init(prefix: $0, answers: [.status(403, "TopicMismatch")], repeatsLast: true)
            }
        }
        try trial.start()
        try trial.produce(perSecond: 500)
        try trial.awaitSent(100)
        try trial.injectAgain(10) { _ in
            let (letters, sent) = (try trial.status().dead, try trial.stage.sent())
            try trial.stage.push(#"{"token":"bad0","topic":"\#(Stage.topic)","data":{"aps":{"alert":"x"}}}"#)
            try trial.await("it is a dead letter") { try trial.status().dead > letters }
            try trial.awaitSent(sent + 100)
        }
        let holds = trial.complaints("does not accept the credential")
        if holds > 0 { trial.fail("\(holds) holds because of topics that single jobs named") }
        trial.countsDeadLettersOnly = true
        if trial.scale == .small { return }
        // This one names no topic: the credential is in doubt until other jobs are accepted.
        try trial.stage.push(#"{"token":"bad1","data":{"aps":{"alert":"x"}}}"#)
        try trial.await("it is a dead letter", atMost: .seconds(120)) { try trial.status().dead == trial.times(10) + 1 }
    }
}

extension Trial {
    /// A job with an unknown key of this size.
    fileprivate static func large(_ number: Int, bytes: Int) -> String {
        let text = String(repeating: "z", count: bytes)
        return #"{"token":"\#(deviceToken(number))","identifier":\#(number),"data":{"aps":{"alert":"Hello"}},"x":"\#(text)"}"#
    }
}

/// Bytes that a producer may push by mistake or on purpose. None of them can be sent.
enum HostileJob {
    static func make(_ number: Int, _ random: inout SeededGenerator) -> [UInt8] {
        let token = deviceToken(number)
        let text = #""token":"\#(token)""#
        switch number % 25 {
        case 0: return Array("not JSON at all".utf8)
        case 1: return Array("[1,2,3]".utf8)
        case 2: return Array(repeating: UInt8(ascii: "["), count: 100_000)
        case 3: return Array("{\"a\":".utf8) + Array(repeating: UInt8(ascii: "["), count: 100_000)
        case 4 where number < 25:
            return Array("{\(text),\"data\":{\"aps\":\"".utf8) + Array(repeating: 0x78, count: 20_000_000) + Array("\"}}".utf8)
        case 4: return Array("{\(text),\"data\":{\"aps\":\"\(String(repeating: "x", count: 5000))\"}}".utf8)
        case 5: return Array("{\(text),\"data\":{\"aps\":\"".utf8) + [0] + Array("\"}}".utf8)
        case 6: return Array("{\(text),\"data\":{\"aps\":\"".utf8) + [0xC3, 0x28] + Array("\"}}".utf8)
        case 7: return Array("{\(text),\"identifier\":99999999999999999999999,\"data\":{}}".utf8)
        case 8: return Array(#"{"token":12345,"data":{}}"#.utf8)
        case 9: return Array(#"{"token":"../../etc/passwd","data":{}}"#.utf8)
        case 10: return Array(#"{"token":"abcd/../x","data":{}}"#.utf8)
        case 11: return Array("{\(text),\"data\":{\"a\":\"\(String(repeating: "y", count: 4097 - 8))\"}}".utf8)
        case 12: return Array("{\(text)}".utf8)
        case 13: return Array("{\(text),\"data\":[]}".utf8)
        case 14: return Array("{\(text),\"data\":{},}".utf8)
        case 15: return Array("{\(text) \"data\":{}}".utf8)
        case 16: return Array("{\(text),\"data\":{},\"priority\":7}".utf8)
        case 17: return Array("{\(text),\"data\":{},\"topic\":\"a\\nb\"}".utf8)
        case 18: return Array("{\(text),\"data\":{},\"expiry\":-1}".utf8)
        case 19: return Array("{\(text),\"data\":{},\"apns_id\":\"no uuid\"}".utf8)
        case 20: return Array("{\(text),\"data\":{},\"collapse_id\":\"\(String(repeating: "c", count: 65))\"}".utf8)
        case 21: return Array("{\(text),\"tokens\":[\"ab\"],\"data\":{}}".utf8)
        case 22: return []
        case 23: return Array("{\(text),\"data\":{},\"app\":\"nobody\"}".utf8)
        default: return (0..<200).map { _ in UInt8.random(in: 0...255, using: &random) }
        }
    }
}
