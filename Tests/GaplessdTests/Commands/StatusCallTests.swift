import Glibc
import Harness
import JSONBytes
import RedisQueue
import Testing

@testable import gaplessd

@Suite("gaplessd status")
struct StatusCallTests {
    private static let contractKeys = ["backlog", "in_flight", "delayed", "recovered", "dead", "feedback", "workers", "counters"]

    /// Stores at least one job at each place.
    private func fill(_ stage: CallStage) throws {
        let keys = stage.keys
        try stage.redis("RPUSH", keys.list, "{}", "{}", "{}")
        try stage.redis("ZADD", keys.delayed, "1795218609000", "w:1|{}")
        try stage.redis("RPUSH", keys.recovered[0], "{}")
        try stage.redis("RPUSH", keys.recovered[2], "{}")
        try stage.redis("RPUSH", keys.feedback, "{}")
        try stage.deadLetter(["aa", "bb"])
        try stage.deadLetter(["cc"], reason: "BadDeviceToken")
        try stage.redis("HSET", keys.stats, "claimed", "9", "sent", "2", "maybe_duplicate", "1")
        try stage.redis("ZADD", keys.workers, "1", "w")
        try stage.redis(
            "HSET", keys.worker("w"), "host", "web1", "pid", "77", "version", "1.2.3", "started", "1795218609", "claimed", "9",
            "sent", "2")
        try stage.redis("HSET", keys.inflight("w"), "1", "{}", "2", "{}", "3", "{}", "4", "{}")
    }

    @Test func `the reasons of a full list of dead letters are read again`() throws {
        let stage = try CallStage()
        let keys = stage.keys
        var client = try RedisClient(settings: QueueSettings(list: keys.list, server: .unix(path: stage.redis.socketPath)))
        try stage.deadLetter(["aa", "bb"])
        let first = try StatusReading(&client, [keys.list])
        try stage.deadLetter(["cc", "dd"], reason: "BadDeviceToken")
        try stage.redis("LTRIM", keys.dead, "-2", "-1")
        try stage.redis("HINCRBY", keys.stats, "trimmed", "2")
        let second = try StatusReading(&client, [keys.list], after: first)
        #expect(second.lists[0].reasons.map(\.reason) == ["BadDeviceToken"])
    }

    @Test func `a dead letter that dead and audit cannot read has no reason in status`() throws {
        let stage = try CallStage()
        let large = String(repeating: "x", count: 2000)
        try stage.redis("RPUSH", stage.keys.dead, #"{"reason":"A","job":5}"#, #"{"reason":"A"}"#, "[]")
        try stage.redis("RPUSH", stage.keys.dead, #"{"reason":"A","job":"{}"}"#, #"{"reason": "A", "job": "\#(large)"}"#)
        let status = try JSONValue.parse(Array(stage.call("status", "--json").output.utf8))
        #expect(status.line.contains(#""dead_reasons": {"(unreadable)": 3, "A": 2}"#), "\(status.line)")
        let audit = try JSONValue.parse(Array(stage.call("audit", "--json").output.utf8))
        #expect(audit.line.contains(#""unreadable_dead": 3"#), "\(audit.line)")
    }

    private static let slotKeys = ["live_states", "live_state_age_seconds", "paced"]

    @Test func `--json prints the members of the contract as sums, and every list`() throws {
        let stage = try CallStage(lists: ["first", "second"])
        try fill(stage)
        try stage.redis("RPUSH", "second", "{}")
        let result = try stage.call("status", "--json")
        #expect(result.status == 0 && result.errors == "")
        let status = try JSONValue.parse(Array(result.output.utf8))
        guard case .object(let members) = status else { throw Unexpected(result.output) }
        #expect(members.map(\.key) == Self.contractKeys + ["cancelled"] + Self.slotKeys + ["paused", "campaigns", "lists"])
        let numbers = Self.contractKeys.dropLast().map { status[$0]?.integerValue }
        #expect(numbers == [4, 4, 1, 2, 3, 1, 1])
        #expect(status["counters"]?["claimed"]?.integerValue == 9)
        #expect(status["counters"]?["maybe_duplicate"]?.integerValue == 1)
        for counter in [
            "claimed", "sent", "retried", "resent", "dead", "expired", "released", "recovered", "fenced", "maybe_duplicate",
        ] {
            #expect(status["counters"]?[counter]?.integerValue != nil, "\(counter)")
        }
        guard case .array(let lists) = status["lists"] else { throw Unexpected(result.output) }
        #expect(lists.map { $0["list"]?.stringValue } == ["first", "second"])
        #expect(lists.map { $0["backlog"]?.integerValue } == [3, 1])
        #expect(lists[0]["dead_reasons"]?.line == #"{"Unregistered": 2, "BadDeviceToken": 1}"#)
        guard case .array(let workers) = lists[0]["live_workers"] else { throw Unexpected(result.output) }
        #expect(workers[0]["host"]?.stringValue == "web1" && workers[0]["pid"]?.integerValue == 77)
        #expect(workers[0]["in_flight"]?.integerValue == 4)
    }

    @Test func `a worker without a beat is silent, and does not count as living`() throws {
        let stage = try CallStage()
        for (worker, seconds) in [("dead", 42), ("alive", 2)] as [(String, Int64)] {
            let time = try #require(try stage.redis("TIME").items?.first?.text.flatMap { Int64($0) })
            try stage.redis("ZADD", stage.keys.workers, "1", worker)
            try stage.redis(
                "HSET", stage.keys.worker(worker), "host", worker, "lease", "100000", "beat", "\((time - seconds) * 1000)")
        }
        let lines = try stage.call("status").lines
        #expect(lines.contains("workers     1, and 1 silent"))
        let place = try #require(lines.firstIndex { $0.hasPrefix("            dead, ") })
        #expect(lines[place + 2].wholeMatch(of: #/              silent for 4\d s/#) != nil, "\(lines)")
        let status = try JSONValue.parse(Array(stage.call("status", "--json").output.utf8))
        #expect(status["workers"]?.integerValue == 1)
        #expect(status.line.contains("\"silent\": 4") && status.line.contains("\"silent\": null"))
    }

    @Test func `prints 0 for a worker that has claimed nothing`() throws {
        let stage = try CallStage()
        try stage.redis("ZADD", stage.keys.workers, "1", "w")
        try stage.redis("HSET", stage.keys.worker("w"), "host", "web1", "pid", "77", "version", "1.2.3", "started", "1795218609")
        let result = try stage.call("status", "--json")
        #expect(
            result.output.contains(#""in_flight": 0, "claimed": 0, "sent": 0, "#)
                || result.output.contains(#""in_flight":0,"claimed":0,"sent":0,"#), "\(result.output)")
        #expect(try stage.call("status").lines.contains("              0 in flight, claimed 0, sent 0"))
    }

    @Test func `prints numbers, reasons and workers`() throws {
        let stage = try CallStage()
        try fill(stage)
        let lines = try stage.call("status").lines
        for line in [
            "list        calls", "backlog     3", "in flight   4", "delayed     1", "recovered   2",
            "dead        3  2 Unregistered, 1 BadDeviceToken", "workers     1",
            "              4 in flight, claimed 9, sent 2",
        ] {
            #expect(lines.contains(line), "\(line) in \(lines)")
        }
        // On a loaded machine the second lasts longer.
        #expect(lines.contains { $0.hasPrefix("              0/s claimed, 0/s sent (over ") })
        #expect(lines.contains { $0.hasPrefix("            web1, pid 77, gaplessd 1.2.3, since 20") })
    }

    @Test func `measures rates between two readings and prints the interval`() throws {
        let stage = try CallStage()
        try fill(stage)
        let (process, out, _) = try stage.start("status", ["--json"])
        while process.poll() == nil { try stage.redis("HINCRBY", stage.keys.worker("w"), "sent", "1") }
        let status = try JSONValue.parse(Array(File.read(out).utf8))
        guard case .array(let lists) = status["lists"], case .array(let workers) = lists[0]["live_workers"] else {
            throw Unexpected(File.read(out))
        }
        #expect(workers[0]["sent_per_second"]?.doubleValue ?? 0 > 1)
        #expect(workers[0]["claimed_per_second"]?.doubleValue == 0)
        #expect(1...5 ~= workers[0]["interval"]?.doubleValue ?? 0)
    }

    @Test func `counts the reasons of only the newest dead letters, and says so`() throws {
        let stage = try CallStage()
        try stage.deadLetter(repeatElement("aa", count: 5), reason: "Old")
        try stage.deadLetter(repeatElement("bb", count: StatusReading.lettersRead))
        #expect(try stage.call("status").lines.contains("dead        10,005  10,000 Unregistered (of the newest 10,000)"))
    }

    @Test func `does not count jobs in flight with at_most_once`() throws {
        let stage = try CallStage(["redis_delivery": "\"at_most_once\""])
        #expect(try stage.call("status").lines.contains("in flight   not stored in Redis (at_most_once)"))
    }

    @Test func `--watch appends a block each second without a terminal, and exits with 0 on Ctrl-C`() throws {
        let stage = try CallStage()
        let (process, out, _) = try stage.start("status", ["--watch"])
        let blocks = { File.read(out).split(separator: "\n").count { $0 == "list        calls" } }
        #expect(waitUntil { blocks() >= 2 })
        #expect(!File.read(out).contains("\u{1B}"))
        process.kill(SIGINT)
        #expect(process.wait(atMost: .seconds(10))?.status == 0)
    }

    @Test func `--watch --json prints one object per line, and exits when the pipe is closed`() throws {
        let stage = try CallStage()
        let result = try stage.shell("$G status $S --watch --json | head -n 2")
        #expect(result.status == 0)
        #expect(result.lines.count == 2)
        for line in result.lines { #expect(throws: Never.self) { try JSONValue.parse(Array(line.utf8)) } }
    }

    @Test(arguments: ["/dev/full", "&-"]) func `--watch exits with 1 if standard output cannot be written`(output: String) throws
    {
        let stage = try CallStage()
        let result = try stage.shell("timeout 20 $G status $S --watch >\(output)")
        #expect(result.status == 1)
        #expect(result.errors.hasPrefix("Error: standard output cannot be written: "), "\(result.errors)")
    }

    @Test func `--watch redraws the page on a terminal`() throws {
        let stage = try CallStage()
        let result = try stage.shell(#"timeout -s INT 2.5 script -qec "$G status $S --watch" /dev/null < /dev/null"#)
        #expect(result.output.split(separator: "\u{1B}[H").count >= 2)
        #expect(result.output.contains("list        calls\u{1B}[K"))
    }

    @Test func `--watch continues after Redis returns`() throws {
        let stage = try CallStage()
        let (process, out, err) = try stage.start("status", ["--watch", "--json"])
        #expect(waitUntil { File.read(out).contains("\n") })
        stage.redis.kill()
        #expect(waitUntil { File.read(err).hasPrefix("redis: no response: ") })
        try stage.redis.restart()
        let before = File.read(out).count
        #expect(waitUntil { File.read(out).count > before })
        process.kill(SIGTERM)
        #expect(process.wait(atMost: .seconds(10))?.status == 0)
    }
}

@Suite("A call, if Redis or the settings have a fault,")
struct CallFaultTests {
    private static let calls = [["status"], ["audit"], ["dead", "list"], ["dead", "requeue"], ["dead", "purge"], ["enqueue"]]

    private func call(_ stage: CallStage, _ words: [String], settings: String? = nil) throws -> CallStage.Result {
        let (process, out, err) = try stage.start(words[0], Array(words.dropFirst()), settings: settings)
        let exit = process.wait(atMost: .seconds(30))
        return CallStage.Result(status: exit?.status, output: File.read(out), errors: File.read(err))
    }

    @Test(arguments: calls) func `reports in one line that Redis does not respond, and exits with 69`(words: [String]) throws {
        let stage = try CallStage()
        stage.redis.kill()
        let result = try call(stage, words)
        #expect(result.status == 69)
        #expect(result.errorLines.count == 1 && result.errors.hasPrefix("redis: no response: unix:"), "\(result.errors)")
    }

    @Test func `stops waiting for a frozen Redis`() throws {
        let stage = try CallStage()
        stage.redis.process.kill(SIGSTOP)
        defer { stage.redis.process.kill(SIGCONT) }
        let result = try stage.call("audit")
        #expect(result.status == 69)
        #expect(result.errorLines.count == 1 && result.errors.contains("no response in time"), "\(result.errors)")
    }

    @Test(arguments: calls) func `reports a refused password without printing it, and exits with 78`(words: [String]) throws {
        let stage = try CallStage(["redis_password": "\"mellon-of-moria\""])
        try stage.redis("CONFIG", "SET", "requirepass", "another")
        let result = try call(stage, words)
        #expect(result.status == 78)
        #expect(result.errorLines.count == 1 && result.errors.contains("AUTH was refused (WRONGPASS)"), "\(result.errors)")
        #expect(!(result.output + result.errors).contains("mellon"))
    }

    @Test func `reports a missing password`() throws {
        let stage = try CallStage()
        try stage.redis("CONFIG", "SET", "requirepass", "another")
        let result = try stage.call("status")
        #expect(result.status == 78)
        #expect(result.errorLines.count == 1 && result.errors.contains("NOAUTH"), "\(result.errors)")
        #expect(result.errors.contains("redis_password: required key is missing: Redis requires a password"), "\(result.errors)")
    }

    @Test func `names a key of a wrong type, not the script that read it`() throws {
        let stage = try CallStage()
        try stage.redis("SET", stage.keys.delayed, "a text")
        for call in ["status", "audit"] {
            let result = try stage.call(call)
            #expect(result.status == 78)
            #expect(
                result.errors.contains(
                    "redis_queue_key: the key \(stage.keys.delayed) is a string, not a sorted set (WRONGTYPE)"),
                "\(result.errors)")
            #expect(result.errorLines.count == 1)
        }
    }

    @Test func `counts dead letters without a reason`() throws {
        let stage = try CallStage()
        try stage.deadLetter(["aa", "bb"], reason: "")
        #expect(try stage.call("status").lines.contains("dead        2  2 no reason"))
    }

    @Test func `reports the error of a Redis that is out of memory`() throws {
        let stage = try CallStage()
        try stage.redis("CONFIG", "SET", "maxmemory", "1")
        let result = try stage.shell("echo '\(CallStage.job("aa"))' | $G enqueue $S")
        #expect(result.status == 69)
        #expect(result.errors.hasPrefix("redis: failed: unix:\(stage.redis.socketPath): OOM "), "\(result.errors)")
    }

    @Test(arguments: calls) func `names a key that is not a list`(words: [String]) throws {
        let stage = try CallStage()
        try stage.redis("SET", "calls", "a text")
        let result = try call(stage, words)
        #expect(result.status == 78)
        #expect(
            result.errors
                == "redis: refused: unix:\(stage.redis.socketPath): redis_queue_key: "
                + "the key calls is a string, not a list; "
                + "expected another key in the settings, or no such key in Redis\n"
        )
    }

    @Test func `tries every address of a host`() throws {
        let port = String(Int.random(in: 20_000..<32_000))
        let stage = try CallStage(redis: ["--bind", "127.0.0.1"], ["redis_socket_path": nil])
        // The first address of localhost may be ::1, where no server listens.
        try #require(waitUntil { (try? stage.redis("CONFIG", "SET", "port", port)) == .status("OK") })
        let settings = try CallStage.write(
            ["redis_host": "\"localhost\"", "redis_port": port], to: stage.folder.file("tcp.json"))
        #expect(try stage.call("status", settings: settings).status == 0)
    }

    @Test(arguments: calls) func `lists every fault of the settings and exits with 78`(words: [String]) throws {
        let stage = try CallStage(["redis_lease": "0", "pool_size": "0"])
        let result = try call(stage, words)
        #expect(result.status == 78)
        #expect(result.errorLines.count == 2, "\(result.errors)")
        #expect(
            result.errors.contains("settings.json: pool_size: ") && result.errors.contains("settings.json: redis_lease: "),
            "\(result.errors)")
    }

    @Test(arguments: ["status", "audit", "dead", "enqueue", "send"]) func `exits with 64 on an unknown option`(call: String)
        throws
    {
        let stage = try CallStage()
        #expect(try stage.call(call, "--bogus").status == 64)
    }

    @Test(arguments: ["check", "status", "audit", "dead", "enqueue", "send"]) func `has a help page`(call: String) throws {
        let stage = try CallStage()
        let result = try stage.shell("$G help \(call)")
        #expect(result.status == 0)
        #expect(result.output.contains("Exit status: 0") && result.output.contains("SETTINGS.json"))
        #expect(try stage.shell("$G \(call) --help").output == result.output)
    }
}

/// An unexpected value.
struct Unexpected: Error, CustomStringConvertible {
    var description: String
    init(_ description: String) { self.description = description }
}
