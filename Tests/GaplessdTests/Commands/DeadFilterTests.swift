import Harness
import Platform
import RedisQueue
import Testing

@testable import gaplessd

@Suite("gaplessd dead: selection")
struct DeadFilterTests {
    @Test func `--token selects in any case, also in tokens, and --app by the name in the job`() throws {
        let stage = try CallStage()
        try stage.deadLetter(["aa", "bb"])
        try stage.deadLetter(["cc"], marks: #","app":"old""#)
        #expect(try stage.call("dead", "list", "--token", "AA").lines.count == 3 + 1)
        #expect(try stage.call("dead", "list", "--token", "dd").lines == [])
        #expect(try stage.call("dead", "list", "--app", "(top level)").lines.count == 3 + 2)
        #expect(try stage.call("dead", "list", "--app", "other").status == 64)
    }

    @Test func `--campaign selects by the campaign of the job`() throws {
        let stage = try CallStage()
        try stage.deadLetter(["aa"], marks: #","campaign":"sale""#)
        try stage.deadLetter(["bb"])
        #expect(try stage.call("dead", "list", "--campaign", "sale").lines.count == 3 + 1)
        #expect(try stage.call("dead", "list", "--campaign", "other").lines == [])
    }

    @Test func `--older selects by age`() {
        let letter = DeadLetter(
            reason: "x", status: nil, identifier: nil, token: "ab", attempts: 1, at: 1000, worker: nil,
            job: Array(#"{"tokens":["AB","cd"],"data":{}}"#.utf8))
        var filter = DeadLetterFilter()
        filter.before = 1000
        #expect(!filter.matches(letter))
        filter.before = 1001
        filter.token = "CD"
        #expect(filter.matches(letter))
    }

    @Test func `--newer selects by age, together with --older`() throws {
        let stage = try CallStage()
        let now = WallClock.now().unixSeconds
        for (token, age) in [("aa", 7200), ("bb", 1800), ("cc", 60)] as [(String, Int64)] {
            let letter = DeadLetter(
                reason: "x", status: nil, identifier: nil, token: token, attempts: 1, at: now - age, worker: nil,
                job: Array(CallStage.job(token).utf8))
            try stage.redis("RPUSH", stage.keys.dead, String(decoding: letter.record(), as: UTF8.self))
        }
        let tokens = { (options: [String]) throws -> [Bool] in
            let (process, out, _) = try stage.start("dead", ["list", "--json"] + options)
            #expect(process.wait(atMost: .seconds(60))?.status == 0)
            return ["aa", "bb", "cc"].map { File.read(out).contains("\"token\": \"\($0)\"") }
        }
        #expect(try tokens(["--newer", "1h"]) == [false, true, true])
        #expect(try tokens(["--newer", "1h", "--older", "10m"]) == [false, true, false])
        #expect(try tokens(["--older", "1h"]) == [true, false, false])
        #expect(try stage.call("dead", "purge", "--newer", "10m").lines.last == "1 deleted")
        #expect(try stage.call("dead", "list", "--newer", "soon").status == 64)
    }

    @Test func `--reason selects an empty reason as list prints it, with or without the status`() throws {
        let stage = try CallStage()
        try stage.deadLetter(["aa"], reason: "")
        try stage.deadLetter(["bb"])
        #expect(try stage.call("dead", "list").lines[4].contains("  410 no reason  "))
        for reason in ["410 no reason", "no reason", ""] {
            let lines = try stage.call("dead", "list", "--reason", reason).lines
            #expect(lines.count == 3 + 1 && lines[3].contains("token aa"), "\(reason)")
        }
        #expect(try stage.call("dead", "show").lines.contains("reason      410 no reason"))
    }

    @Test func `show prints one dead letter with its job`() throws {
        let stage = try CallStage()
        try stage.deadLetter(["aa", "bb"])
        let lines = try stage.call("dead", "show", "2").lines
        #expect(lines.contains("token       bb") && lines.contains("job         \(CallStage.job("bb"))"))
        #expect(lines.contains("reason      410 Unregistered"))
        #expect(try stage.call("dead", "show", "3").status == 1)
        #expect(try stage.call("dead", "list", "3").status == 64)
    }

    @Test func `requeue --rate keeps the order and moves every selected dead letter once`() throws {
        let stage = try CallStage()
        let tokens = (0..<60).map { "a\($0)" }
        for token in tokens { try stage.deadLetter([token], reason: token.hasSuffix("5") ? "Other" : "Unregistered") }
        let result = try stage.call("dead", "requeue", "--rate", "200", "--reason", "Unregistered")
        #expect(result.status == 0 && result.lines.last == "54 requeued")
        #expect(try stage.elements("calls") == tokens.filter { !$0.hasSuffix("5") }.map { CallStage.job($0) })
        #expect(try stage.elements(stage.keys.dead).count == 6)
        #expect(try stage.call("dead", "purge", "--rate", "5").status == 64)
    }
}
