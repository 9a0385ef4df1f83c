import Glibc
import Harness
import JSONBytes
import RedisQueue
import Testing

@testable import gaplessd

@Suite("gaplessd dead")
struct DeadCallTests {
    @Test func `list prints one line for each dead letter, oldest first`() throws {
        let stage = try CallStage()
        try stage.deadLetter(["aa", "bb"])
        try stage.redis("RPUSH", stage.keys.dead, "not a letter")
        let result = try stage.call("dead", "list")
        #expect(result.status == 0)
        let stamp = LocalTime.zoned(1_795_218_609)
        let app = "app (top level)  topic com.example.app"
        #expect(
            result.lines == [
                "2 dead letters", "  2  410 Unregistered", "  1  (unreadable)", "",
                "\(stamp)  410 Unregistered  \(app)  ID 154  token aa  1 attempt  job of 43 bytes",
                "\(stamp)  410 Unregistered  \(app)  ID 154  token bb  1 attempt  job of 43 bytes", "unreadable, 12 bytes",
            ])
    }

    @Test func `list without dead letters says so, and names the reasons if none has the one that was asked for`() throws {
        let stage = try CallStage()
        let empty = try stage.call("dead", "list")
        #expect(empty.status == 0 && empty.output == "" && empty.errors == "0 dead letters\n")
        let json = try stage.call("dead", "list", "--json")
        #expect(json.output + json.errors == "")
        try stage.deadLetter(["aa"])
        let misspelled = try stage.call("dead", "list", "--reason", "Unregisterd")
        #expect(misspelled.output == "" && misspelled.errors == "0 dead letters\nThe reasons are:\n  1  410 Unregistered\n")
    }

    @Test func `list --json prints the records unchanged`() throws {
        let stage = try CallStage()
        try stage.deadLetter(["aa"])
        try stage.redis("RPUSH", stage.keys.dead, "not a letter")
        #expect(
            try stage.call("dead", "list", "--json").lines == [
                String(decoding: CallStage.letter("aa"), as: UTF8.self), #"{"unreadable_base64": "bm90IGEgbGV0dGVy"}"#,
            ])
    }

    @Test func `list selects by reason and limit, and follows log_redact`() throws {
        let stage = try CallStage(["log_redact": "true"])
        try stage.deadLetter(["0123456789abcdef"], reason: "Expired")
        try stage.deadLetter(["aa", "bb"])
        let lines = try stage.call("dead", "list", "--reason", "Unregistered", "--limit", "1").lines
        #expect(lines.prefix(3) == ["2 dead letters", "  2  410 Unregistered", ""])
        #expect(lines[3].contains("token aa") && lines[4...] == ["and 1 more; --limit N prints the oldest N"])
        #expect(try stage.call("dead", "list", "--reason", "Expired").output.contains("  token 01234567  "))
    }

    @Test func `requeue returns a large job whole, without the marks of the daemon, and purge removes it`() throws {
        let stage = try CallStage()
        let job = CallStage.job("aa", marks: #","_gapless_RETRYING":3"#)
        for (field, size) in [("w:1", job.utf8.count), ("w:2", ClaimedJob.mostBytes + 1), ("w:3", job.utf8.count)] {
            let letter = DeadLetter(
                reason: field, attempts: 1, at: 5, worker: "w", job: Array("{".utf8), fullSize: size, field: field)
            _ = try stage.redis("RPUSH", stage.keys.dead, String(decoding: letter.record(), as: UTF8.self))
            _ = try stage.redis("HSET", stage.keys.large, field, job)
        }
        let line = try #require(try stage.call("dead", "list", "--reason", "w:2").lines.last)
        #expect(line.hasSuffix("job of \((ClaimedJob.mostBytes + 1).counted("byte"))"))
        #expect(try stage.call("dead", "requeue", "--reason", "w:1").status == 0)
        #expect(try stage.call("dead", "requeue", "--reason", "w:2").status == 0)
        #expect(try stage.call("dead", "purge", "--yes", "--reason", "w:3").status == 0)
        #expect(try stage.elements("calls") == [CallStage.job("aa"), job])
        #expect(try stage.elements(stage.keys.dead).isEmpty)
        #expect(try stage.redis("EXISTS", stage.keys.large).integer == 0)
    }

    @Test func `requeue keeps a letter whose large job is missing, and counts it as unreadable`() throws {
        let stage = try CallStage()
        let letters = [("w:1", 9), ("w:2", ClaimedJob.mostBytes + 1)].map { field, size in
            DeadLetter(
                reason: "JobTooLarge", attempts: 1, at: 5, worker: "w", job: Array("{".utf8), fullSize: size, field: field
            ).record()
        }
        for letter in letters { _ = try stage.redis("RPUSH", stage.keys.dead, String(decoding: letter, as: UTF8.self)) }
        try stage.deadLetter(["aa", "bb"])
        let limited = try stage.call("dead", "requeue", "--limit", "3", "--json")
        #expect(limited.lines == [#"{"matched": 3, "changed": 1, "unreadable": 2}"#])
        let requeued = try stage.call("dead", "requeue")
        #expect(requeued.lines == ["3 dead letters to requeue", "1 requeued, 2 unreadable skipped"])
        #expect(try stage.elements("calls") == [CallStage.job("aa"), CallStage.job("bb")])
        // It is removed by another client just before the step.
        var client = try RedisClient(settings: QueueSettings(list: "calls", server: .unix(path: stage.redis.socketPath)))
        let steps = [
            DeadLetterList.Step(record: letters[0], change: .keep),
            DeadLetterList.Step(record: letters[1], change: .requeueStored, field: "w:2"),
        ]
        #expect(try !stage.letters.apply(steps, &client))
        #expect(try stage.elements(stage.keys.dead) == letters.map { String(decoding: $0, as: UTF8.self) })
        #expect(try stage.call("dead", "purge").lines.last == "2 deleted")
    }

    @Test func `list prints the numbers by reason, then 100 letters, and how many more there are`() throws {
        let stage = try CallStage()
        try stage.deadLetter((0..<1200).map { String(0x1000 + $0, radix: 16) })
        try stage.deadLetter(["aa", "bb"], reason: "BadDeviceToken")
        let lines = try stage.call("dead", "list").lines
        #expect(lines.prefix(4) == ["1,202 dead letters", "  1,200  410 Unregistered", "      2  410 BadDeviceToken", ""])
        #expect(lines.count == 4 + 100 + 1 && lines.last == "and 1,102 more; --limit N prints the oldest N")
        let all = try stage.call("dead", "list", "--limit", "5000").lines
        #expect(all.count == 4 + 1202 && all.last?.contains("token bb") == true)
        #expect(try stage.call("dead", "list", "--json").lines.count == 1202, "JSON has no default limit")
    }

    @Test func `list names the app and the topic of each job`() throws {
        let stage = try CallStage.withApps()
        try stage.deadLetter(["a0"])
        try stage.deadLetter(["a1"], marks: #","topic":"com.cert.more""#)
        try stage.deadLetter(["a2"], marks: #","app":"voice""#)
        try stage.deadLetter(["a3"], marks: #","app":"gone""#)
        let lines = try stage.call("dead", "list").lines
        for (token, names) in [
            ("a0", "app (top level)  topic com.example.app"), ("a1", "app cert  topic com.cert.more"),
            ("a2", "app voice  topic com.voice.voip"), ("a3", "app gone"),
        ] {
            let part = "  410 Unregistered  \(names)  ID 154  token \(token)  "
            #expect(lines.contains { $0.contains(part) }, "\(lines)")
        }
    }

    @Test(arguments: ["requeue", "purge"])
    func `a reason that no letter has is answered with the reasons that there are`(action: String) throws {
        let stage = try CallStage()
        try stage.deadLetter(["aa", "bb"])
        try stage.deadLetter(["cc"], reason: "Expired")
        let result = try stage.call("dead", action, "--reason", "Unregisterd")
        let verb = action == "purge" ? ("delete", "deleted") : ("requeue", "requeued")
        #expect(result.status == 0)
        #expect(
            result.lines == [
                "0 dead letters to \(verb.0), reason Unregisterd", "The reasons are:", "  2  410 Unregistered",
                "  1  410 Expired",
                "0 \(verb.1)",
            ])
        #expect(
            try stage.call("dead", action, "--reason", "Unregisterd", "--json").lines == [
                #"{"matched": 0, "changed": 0, "unreadable": 0, "reasons": {"410 Unregistered": 2, "410 Expired": 1}}"#
            ])
        let none = try stage.call("dead", action, "--token", "ff", "--json")
        #expect(none.lines == [#"{"matched": 0, "changed": 0, "unreadable": 0}"#])
        #expect(try stage.elements(stage.keys.dead).count == 3)
    }

    @Test func `list uses the singular for one byte`() throws {
        let stage = try CallStage()
        let letter = DeadLetter(
            reason: "x", status: nil, identifier: nil, token: nil, attempts: 1, at: 1_795_218_609, worker: "w",
            job: Array("j".utf8))
        _ = try stage.redis("RPUSH", stage.keys.dead, String(decoding: letter.record(), as: UTF8.self), "u")
        let lines = try stage.call("dead", "list").lines.suffix(2)
        #expect(lines.map { $0.hasSuffix("1 attempt  job of 1 byte") } == [true, false])
        #expect(lines.last == "unreadable, 1 byte")
    }

    @Test func `--reason accepts the status before the reason, as list prints it`() throws {
        let stage = try CallStage()
        try stage.deadLetter(["aa", "bb"])
        try stage.deadLetter(["cc"], reason: "BadDeviceToken")
        #expect(try stage.call("dead", "list", "--reason", "410 Unregistered").lines.count == 3 + 2)
        #expect(try stage.call("dead", "list", "--reason", "400 Unregistered").lines == [])
        #expect(
            try stage.call("dead", "purge", "--reason", "410 Unregistered").lines == [
                "2 dead letters to delete, reason 410 Unregistered", "2 deleted",
            ])
    }

    @Test func `requeue appends the jobs in order, without the marks of the daemon`() throws {
        let stage = try CallStage()
        try stage.redis("RPUSH", "calls", "first")
        try stage.deadLetter(["aa"])
        try stage.deadLetter(
            ["bb"], marks: #","_gapless_RETRYING":3,"identifier":7,"_gapless_deadline":99,"_gapless_apns_id":"x""#)
        let result = try stage.call("dead", "requeue")
        #expect(result.status == 0)
        #expect(result.lines == ["2 dead letters to requeue", "2 requeued"])
        #expect(try stage.elements("calls") == ["first", CallStage.job("aa"), CallStage.job("bb", marks: #","identifier":7"#)])
        #expect(try stage.elements(stage.keys.dead) == [])
    }

    @Test func `requeue and purge change only the selected, readable dead letters, oldest first`() throws {
        let stage = try CallStage()
        for token in ["aa", "bb", "cc"] {
            try stage.deadLetter([token])
            try stage.deadLetter([token], reason: "Expired")
            try stage.redis("RPUSH", stage.keys.dead, "unreadable \(token)")
        }
        let requeued = try stage.call("dead", "requeue", "--reason", "Expired", "--limit", "2")
        #expect(requeued.lines == ["2 dead letters to requeue, reason Expired", "2 requeued, 3 unreadable skipped"])
        #expect(try stage.elements("calls") == [CallStage.job("aa"), CallStage.job("bb")])
        let purged = try stage.call("dead", "purge", "--reason", "Unregistered", "--limit", "1", "--json")
        #expect(purged.lines == [#"{"matched": 1, "changed": 1, "unreadable": 3}"#])
        let left = try stage.redis("LRANGE", stage.keys.dead, "0", "-1").items?.compactMap(\.bytes) ?? []
        #expect(
            left == [
                Array("unreadable aa".utf8), CallStage.letter("bb"), Array("unreadable bb".utf8), CallStage.letter("cc"),
                CallStage.letter("cc", reason: "Expired"), Array("unreadable cc".utf8),
            ])
    }

    @Test func `purge deletes all without a question if there is no terminal`() throws {
        let stage = try CallStage()
        try stage.deadLetter((0..<250).map { String($0, radix: 16) })
        let result = try stage.call("dead", "purge")
        #expect(result.status == 0)
        #expect(result.lines == ["250 dead letters to delete", "250 deleted"])
        #expect(try stage.elements(stage.keys.dead).isEmpty && stage.elements("calls").isEmpty)
    }

    @Test(arguments: [("y", 0, 0), ("n", 1, 3), ("", 1, 3)])
    func `purge asks for confirmation on a terminal`(answer: String, status: CInt, left: Int) throws {
        let stage = try CallStage()
        try stage.deadLetter(["aa", "bb", "cc"])
        // script(1) provides a terminal and returns the exit status.
        let result = try stage.shell(#"echo '\#(answer)' | script -qec "$G dead $S purge" /dev/null"#)
        #expect(result.status == status)
        #expect(result.output.contains("Delete 3 dead letters permanently? [y/N]"), "\(result.output)")
        #expect(try stage.elements(stage.keys.dead).count == left)
        let sure = try stage.shell(#"script -qec "$G dead $S purge --yes" /dev/null < /dev/null"#)
        #expect(sure.status == 0 && !sure.output.contains("[y/N]"))
    }

    @Test func `requeues each job to its own list, and --list selects one`() throws {
        let stage = try CallStage(lists: ["first", "second"])
        try stage.deadLetter(["aa"])
        let second = Keys(list: "second")
        for token in ["bb", "cc"] {
            _ = try stage.redis(["RPUSH", second.dead, String(decoding: CallStage.letter(token), as: UTF8.self)])
        }
        #expect(try stage.call("dead", "requeue", "--limit", "2").lines.last == "2 requeued")
        #expect(try stage.elements("first") == [CallStage.job("aa")] && stage.elements("second") == [CallStage.job("bb")])
        #expect(try stage.call("dead", "requeue", "--list", "first").lines.last == "0 requeued")
        #expect(try stage.call("dead", "requeue", "--list", "second").lines.last == "1 requeued")
        #expect(try stage.elements("second").last == CallStage.job("cc"))
        #expect(try stage.call("dead", "list", "--list", "third").status == 64)
    }

    @Test(arguments: [["burn"], ["list", "--limit", "0"], ["list", "--limit", "-1"], ["list", "--limit", "x"], []])
    func `exits with 64 on wrong usage`(arguments: [String]) throws {
        let stage = try CallStage()
        let (process, _, _) = try stage.start("dead", arguments)
        #expect(process.wait(atMost: .seconds(30))?.status == 64)
    }

    @Test func `survives a closed pipe`() throws {
        let stage = try CallStage()
        try stage.deadLetter((0..<5000).map { String($0, radix: 16) })
        #expect(try stage.shell("$G dead $S list | head -n 1 > /dev/null").status == 0)
    }
}

@Suite("A walk over the dead letters")
struct DeadLetterPassingTests {
    /// 700 letters, of which the 300 in the middle have another reason.
    private func fill(_ stage: CallStage) throws -> [String] {
        let tokens = (0..<700).map { String(0x1000 + $0, radix: 16) }
        for (place, token) in tokens.enumerated() {
            try stage.deadLetter([token], reason: 200..<500 ~= place ? "Middle" : "Expired")
        }
        return tokens
    }

    @Test(arguments: ["requeue", "purge"])
    func `touches only the ends of the lists, and keeps the order`(action: String) throws {
        let stage = try CallStage()
        let tokens = try fill(stage)
        let expected = (tokens[..<200] + tokens[500...]).map { CallStage.letter($0, reason: "Expired") }
        #expect(try stage.call("dead", action, "--reason", "Middle").lines.last?.hasPrefix("300 ") == true)
        let left = try stage.redis("LRANGE", stage.keys.dead, "0", "-1").items?.compactMap(\.bytes) ?? []
        #expect(left == expected)
        #expect(try stage.elements(stage.keys.deadPassed) == [])
        #expect(try stage.elements("calls") == (action == "purge" ? [] : tokens[200..<500].map { CallStage.job($0) }))
        let commands = try stage.redis("INFO", "commandstats").text ?? ""
        for name in ["lindex", "lset", "lrem", "linsert", "lpos"] { #expect(!commands.contains("cmdstat_\(name):"), "\(name)") }
    }

    @Test func `letters that an interrupted walk has passed are listed, counted and put back`() throws {
        let stage = try CallStage()
        try stage.deadLetter(["aa", "bb"])
        try stage.redis("RENAME", stage.keys.dead, stage.keys.deadPassed)
        try stage.deadLetter(["cc"])
        try stage.deadLetter(["dd"], reason: "Expired")
        let list = try stage.call("dead", "list").lines.dropFirst(4)
        #expect(list.count == 4 && zip(list, ["aa", "bb", "cc", "dd"]).allSatisfy { $0.contains("token \($1) ") })
        #expect(try stage.call("dead", "show", "3").output.contains("cc"))
        #expect(try stage.call("status", "--json").output.contains(#""dead": 4"#))
        #expect(try stage.call("find", "--token", "aa").status == 0)
        #expect(try stage.call("audit", "--json").output.contains(#""foreign_keys": []"#))
        #expect(try stage.call("dead", "requeue", "--reason", "Expired").lines.last == "1 requeued")
        let left = try stage.redis("LRANGE", stage.keys.dead, "0", "-1").items?.compactMap(\.bytes) ?? []
        #expect(left == ["aa", "bb", "cc"].map { CallStage.letter($0) })
        #expect(try stage.elements("calls") == [CallStage.job("dd")])
    }

    @Test(arguments: 0..<3) func `loses no letter that it passes when it is killed`(round: Int) throws {
        let stage = try CallStage()
        let tokens = (0..<20_000).map { String(0x10_0000 + $0, radix: 16) }
        try stage.deadLetter(tokens)
        try stage.deadLetter(["ff"], reason: "Expired")
        let (process, _, _) = try stage.start("dead", ["requeue", "--reason", "Expired"])
        let threshold = 1 + round * 6000
        #expect(try waitUntil(atMost: .seconds(90)) { try stage.redis("LLEN", stage.keys.deadPassed).integer ?? 0 >= threshold })
        process.kill(SIGKILL)
        _ = process.wait()
        let (passed, rest) = try (stage.elements(stage.keys.deadPassed), stage.elements(stage.keys.dead))
        let all = tokens.map { String(decoding: CallStage.letter($0), as: UTF8.self) }
        #expect(!passed.isEmpty && Array((passed + rest).prefix(20_000)) == all)
        #expect(try stage.call("dead", "requeue", "--reason", "Expired").status == 0)
        #expect(try stage.elements(stage.keys.dead) == all && stage.elements(stage.keys.deadPassed) == [])
        #expect(try stage.elements("calls") == [CallStage.job("ff")])
    }
}

@Suite("A requeue of 20,000 dead letters")
struct DeadInterruptedCallTests {
    private static let tokens = (0..<20_000).map { String(0x10_0000 + $0, radix: 16) }

    /// The tokens of the jobs in the list and of the letters left, sorted.
    private func all(_ stage: CallStage) throws -> (jobs: [String], letters: [String]) {
        let jobs = try stage.elements("calls")
        let letters = try stage.redis("LRANGE", stage.keys.dead, "0", "-1").items?.compactMap(\.bytes) ?? []
        return (jobs, letters.compactMap { DeadLetter(record: $0) }.map { String(decoding: $0.job, as: UTF8.self) })
    }

    @Test(arguments: 0..<5) func `loses and duplicates nothing when it is killed`(round: Int) throws {
        let stage = try CallStage()
        try stage.deadLetter(Self.tokens)
        let expected = Self.tokens.map { CallStage.job($0) }
        let (process, _, _) = try stage.start("dead", ["requeue"])
        let threshold = 1 + round * 3000
        #expect(try waitUntil(atMost: .seconds(90)) { try stage.redis("LLEN", "calls").integer ?? 0 >= threshold })
        process.kill(SIGKILL)
        #expect(process.wait().signal == SIGKILL)
        let (jobs, letters) = try all(stage)
        #expect(!letters.isEmpty && jobs.count >= threshold)
        #expect(jobs + letters == expected)
        // The next requeue completes the work.
        #expect(try stage.call("dead", "requeue").status == 0)
        #expect(try stage.elements("calls") == expected)
    }

    @Test func `duplicates nothing beside a second requeue, while the oldest are trimmed`() throws {
        let stage = try CallStage()
        try stage.deadLetter(Self.tokens)
        let (one, _, _) = try stage.start("dead", ["requeue"])
        let (two, _, _) = try stage.start("dead", ["requeue"])
        var trimmed: [String] = []
        while one.poll() == nil || two.poll() == nil {
            if trimmed.count < 500, let letter = try stage.redis("LPOP", stage.keys.dead).bytes.flatMap(DeadLetter.init(record:))
            {
                trimmed.append(String(decoding: letter.job, as: UTF8.self))
            }
        }
        #expect(one.wait().status == 0 && two.wait().status == 0)
        let (jobs, letters) = try all(stage)
        #expect(letters == [])
        #expect((jobs + trimmed).sorted() == Self.tokens.map { CallStage.job($0) })
    }

    @Test func `reports its progress when Redis is lost`() throws {
        let stage = try CallStage(redis: ["--appendonly", "yes"])
        try stage.deadLetter(Self.tokens)
        let (process, _, err) = try stage.start("dead", ["requeue"])
        #expect(try waitUntil(atMost: .seconds(90)) { try stage.redis("LLEN", "calls").integer ?? 0 >= 1000 })
        stage.redis.kill()
        #expect(process.wait(atMost: .seconds(30))?.status == 69)
        let errors = File.read(err)
        #expect(errors.hasPrefix("redis: no response: ") && errors.split(separator: "\n").count == 1, "\(errors)")
        #expect(errors.contains(" dead letters requeued, and possibly up to 100 more"), "\(errors)")
    }
}
