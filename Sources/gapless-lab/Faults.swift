import Glibc
import Harness
import RedisQueue

/// The rows of the fault table.
extension Fault {
    private static func job(_ number: Int) -> String {
        #"{"token":"\#(deviceToken(number))","identifier":\#(number),"data":{"aps":{"alert":"\#(number)"}}}"#
    }

    private static let quickRetries: [String: String?] = ["retry_delays": "[0.1, 0.2, 0.3]"]

    /// Balances the books of a drained stage.
    private static func balance(_ stage: Stage, _ daemon: DaemonProcess, jobs: Int) throws -> (Balance, remarks: [String]) {
        guard try stage.awaitDrained(atMost: .seconds(120)) else {
            throw LabFailure(description: "not drained after two minutes:\n" + String(daemon.standardError.suffix(2000)))
        }
        let status = try stage.status()
        let exit = daemon.stop()
        _ = stage.simulator.stop()
        let dead = try stage.deadLetters().tokens
        var remarks: [String] = []
        if exit?.status != 0 { remarks.append("gaplessd exited with \(String(describing: exit))") }
        if status.unexplained != 0 { remarks.append("\(status.unexplained) claimed jobs that no counter explains") }
        let queued = Set((0..<jobs).map(deviceToken))
        return (Balance(queued: queued, ledger: stage.simulator.ledger, dead: dead), remarks)
    }

    /// 2 % of 503 and 1 % of dead tokens among 100,000, and 100 tokens that get nothing but 503: each delivered exactly once, or
    /// dead for the right reason after exactly as many sends as the settings say.
    static let mixedAnswers = Fault(name: "answers", title: "2 % 503, 1 % 410 among the answers") { random in
        let jobs = 100_000
        let hopeless = jobs - 100..<jobs
        let stage = try Stage(simulator: [
            "--fail", "503:2%", "--dead", "1%", "--seed", "\(UInt32.random(in: 1...9999, using: &random))",
        ] + hopeless.flatMap { ["--token", "\(deviceToken($0))=503*9"] })
        try stage.push((0..<jobs).lazy.map(job))
        let daemon = try stage.start(try stage.settings(quickRetries))
        let (books, remarks) = try balance(stage, daemon, jobs: jobs)
        let failed = stage.simulator.ledger.entries.count(where: { $0.status != 200 })
        let more = try faults(of: stage, daemon, dead: books.dead, hopeless: hopeless.map(deviceToken))
        return Result(times: failed, balance: books, bound: 0, remarks: remarks + more)
    }

    /// What the log, the reasons and the simulator's ledger say against each other after `mixedAnswers`.
    private static func faults(of stage: Stage, _ daemon: DaemonProcess, dead: Int, hopeless: [String]) throws -> [String] {
        var remarks: [String] = []
        let entries = stage.simulator.ledger.entries
        let reasons = try stage.deadLetters().reasons
        let log = daemon.standardError.split(separator: "\n")
        let lines = { (text: String) in log.count(where: { $0.contains(text) }) }
        for token in hopeless {
            let sends = entries.count(where: { $0.token == token })
            if sends != 4 { remarks.append("\(sends) sends of \(token), which got nothing but 503") }
        }
        let exhausted = reasons["ServiceUnavailable", default: 0]
        if exhausted < hopeless.count || Set(reasons.keys) != ["ServiceUnavailable", "Unregistered"] {
            remarks.append("dead letters for other reasons: \(reasons)")
        }
        if lines("Final SendPayload Error (ID ") != dead { remarks.append("the final lines are not the dead letters") }
        let resends = (1...3).map { lines("503 ServiceUnavailable. Retrying count (\($0)).") }
        let expected = entries.count(where: { $0.status == 503 }) - exhausted
        if resends.reduce(0, +) != expected || resends.contains(where: { $0 < hopeless.count }) {
            remarks.append("lines of resends 1, 2, 3: \(resends), \(expected) in all would be right")
        }
        return remarks
    }

    static let killDaemon = Fault(name: "kill", title: "kill -9 of the daemon under load") { random in
        let jobs = 60_000
        let stage = try Stage(simulator: ["--latency", "5ms..15ms", "--fail", "503:1%"])
        try stage.push((0..<jobs).lazy.map(job))
        let settings = try stage.settings(quickRetries)
        var daemon = try stage.start(settings)
        var bound = 0
        for kill in 1...10 {
            _ = try waitUntil(atMost: .seconds(20)) { try stage.status().counter(.sent) >= kill * 4000 }
            pause(.milliseconds(Int.random(in: 5...60, using: &random)))
            daemon.process.kill(SIGKILL)
            _ = daemon.process.wait()
            bound += try stage.status().inFlight
            daemon = try stage.start(settings)
        }
        let (books, remarks) = try balance(stage, daemon, jobs: jobs)
        return Result(times: 10, balance: books, bound: bound, remarks: remarks)
    }

    static let killRedis = Fault(name: "redis", title: "kill -9 of Redis, append-only file") { random in
        let jobs = 30_000
        let stage = try Stage(simulator: ["--latency", "5ms"], redis: ["--appendonly", "yes", "--appendfsync", "always"])
        try stage.push((0..<jobs).lazy.map(job))
        let daemon = try stage.start(try stage.settings(quickRetries))
        for kill in 1...5 {
            _ = try waitUntil(atMost: .seconds(30)) { try stage.status().counter(.sent) >= kill * 4000 }
            stage.redis.kill()
            pause(.milliseconds(Int.random(in: 5...300, using: &random)))
            try stage.redis.restart()
            try stage.reconnect()
        }
        let (books, remarks) = try balance(stage, daemon, jobs: jobs)
        return Result(times: 5, balance: books, bound: 0, remarks: remarks)
    }

    static let cutRedis = Fault(name: "cut", title: "all Redis connections cut") { random in
        let jobs = 60_000
        let stage = try Stage(simulator: ["--latency", "5ms"])
        try stage.push((0..<jobs).lazy.map(job))
        let daemon = try stage.start(try stage.settings(quickRetries))
        for _ in 1...50 {
            pause(.milliseconds(Int.random(in: 5...60, using: &random)))
            try stage.killClients()
        }
        let (books, remarks) = try balance(stage, daemon, jobs: jobs)
        return Result(times: 50, balance: books, bound: 0, remarks: remarks)
    }

    static let goAway = Fault(name: "goaway", title: "GOAWAY under load") { _ in
        let jobs = 60_000
        let stage = try Stage(simulator: ["--latency", "5ms", "--goaway-every", "2000"])
        try stage.push((0..<jobs).lazy.map(job))
        let daemon = try stage.start(try stage.settings(quickRetries.merging(["apns_dial_backoff_min": "0.01"]) { $1 }))
        let (books, remarks) = try balance(stage, daemon, jobs: jobs)
        return Result(times: jobs / 2000, balance: books, bound: 0, remarks: remarks)
    }

    /// What is no job, between good ones: each bad one is a dead letter byte for byte.
    static let hostileJobs = Fault(name: "hostile", title: "hostile jobs between good ones") { random in
        let jobs = 3000
        let stage = try Stage(simulator: [])
        var bad: [[UInt8]] = []
        for number in 0..<jobs {
            try stage.push(CollectionOfOne(job(number)))
            if number % 10 == 0 {
                bad.append(HostileJob.make(number / 10, &random))
                try stage.push(bytes: bad.last!)
            }
        }
        let daemon = try stage.start(try stage.settings(quickRetries))
        _ = try stage.awaitDrained(atMost: .seconds(60))
        let peak = daemon.peakBytes
        var (books, remarks) = try balance(stage, daemon, jobs: jobs)
        // The largest of them has 20 MB, which is received, read, logged and made a dead letter.
        if peak > 256 << 20 { remarks.append("the daemon had \(megabytes(peak)) MB") }
        let buried = try stage.buriedJobs()
        for job in Set(bad) where buried.filter({ $0 == job }).count != bad.filter({ $0 == job }).count {
            remarks.append("not byte for byte in the dead letters: \(String(decoding: job.prefix(80), as: UTF8.self))")
        }
        if buried.count != bad.count { remarks.append("\(buried.count) dead letters for \(bad.count) bad jobs") }
        // What a bad job says its token is may be anything: only what was delivered can be unexpected here.
        books = Balance(queued: Set((0..<jobs).map(deviceToken)), ledger: stage.simulator.ledger, dead: [])
        books.dead = buried.count
        return Result(times: bad.count, balance: books, bound: 0, remarks: remarks)
    }

    static let drain = Fault(name: "drain", title: "SIGTERM with jobs on the wire") { random in
        let jobs = 30_000
        let stage = try Stage(simulator: ["--latency", "50ms"])
        try stage.push((0..<jobs).lazy.map(job))
        let settings = try stage.settings(quickRetries)
        var daemon = try stage.start(settings)
        var remarks: [String] = []
        for _ in 1...5 {
            _ = try waitUntil { try !stage.status().workers.isEmpty }
            pause(.milliseconds(Int.random(in: 100...400, using: &random)))
            let exit = daemon.stop()
            if exit?.status != 0 { remarks.append("gaplessd exited with \(String(describing: exit))") }
            let status = try stage.status()
            if status.inFlight != 0 || !status.workers.isEmpty { remarks.append("left behind: \(status)") }
            daemon = try stage.start(settings)
        }
        let (books, more) = try balance(stage, daemon, jobs: jobs)
        return Result(times: 5, balance: books, bound: 0, remarks: remarks + more)
    }

    private static func pause(_ time: Duration) {
        _ = waitUntil(atMost: time) { false }
    }
}

/// Bytes that somebody might push by mistake or by malice. None of them can be sent.
enum HostileJob {
    static func make(_ number: Int, _ random: inout SeededGenerator) -> [UInt8] {
        let token = deviceToken(number)
        let text = #""token":"\#(token)""#
        switch number % 25 {
        case 0: return Array("not JSON at all".utf8)
        case 1: return Array("[1,2,3]".utf8)
        case 2: return Array(repeating: UInt8(ascii: "["), count: 100_000)
        case 3: return Array("{\"a\":".utf8) + Array(repeating: UInt8(ascii: "["), count: 100_000)
        case 4 where number < 25: return Array("{\(text),\"data\":{\"aps\":\"".utf8) + Array(repeating: 0x78, count: 20_000_000) + Array("\"}}".utf8)
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
