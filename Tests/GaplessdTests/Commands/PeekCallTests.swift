import Harness
import JSONBytes
import RedisQueue
import Testing

@testable import gaplessd

@Suite("gaplessd peek and feedback")
struct PeekCallTests {
    @Test func `peek prints the next or the last jobs, and changes nothing`() throws {
        let stage = try CallStage()
        let jobs = (0..<30).map { CallStage.job("aa0\($0)", marks: #","identifier":\#($0),"app":"news\u001b""#) }
        _ = try stage.redis(["RPUSH", "calls"] + jobs + ["no\u{7}JSON"])
        let next = try stage.call("peek", "--limit", "2").lines
        #expect(next.count == 2 && next[0].hasPrefix("1  ID 0  app news\\x1b  token aa00  ") && next[1].hasPrefix("2  ID 1  "))
        let last = try stage.call("peek", "--last", "--limit", "2").lines
        #expect(last.map { String($0.prefix(4)) } == ["30  ", "31  "] && last[1] == "31  no JSON object  7 bytes")
        let report = try JSONValue.parse(Array(stage.call("peek", "--limit", "1", "--json").output.utf8))
        #expect(report["job"]?.stringValue == jobs[0] && report["position"]?.integerValue == 1)
        #expect(try stage.elements("calls") == jobs + ["no\u{7}JSON"])
        #expect(try stage.call("peek", "--limit", "0").status == 64)
    }

    @Test func `peek prints recovered jobs before the list, and --last leaves them out`() throws {
        let stage = try CallStage()
        try stage.redis("RPUSH", "calls", CallStage.job("dd"), CallStage.job("ee"))
        try stage.redis("RPUSH", stage.keys.recovered[2], CallStage.job("cc"))
        try stage.redis("RPUSH", stage.keys.recovered[0], CallStage.job("aa"), CallStage.job("ab"))
        func tokens(_ options: String = "") throws -> [String] {
            try stage.shell(#""$G" peek "$S" \#(options)"#).lines.map {
                $0.split(separator: " ").prefix(3).joined(separator: " ")
            }
        }
        #expect(try tokens() == ["1 token aa", "2 token ab", "3 token cc", "4 token dd", "5 token ee"])
        #expect(try tokens("--limit 3") == ["1 token aa", "2 token ab", "3 token cc"])
        #expect(try tokens("--last") == ["4 token dd", "5 token ee"])
        #expect(try tokens("--last --limit 1") == ["5 token ee"])
        try stage.redis("DEL", "calls")
        #expect(try stage.call("peek", "--last").lines == ["calls: no waiting jobs"])
    }

    @Test func `peek --delayed prints the due times, without the marks of the worker`() throws {
        let stage = try CallStage()
        try stage.redis("ZADD", stage.keys.delayed, "1795218609500", "w-1:7|" + CallStage.job("bb"))
        try stage.redis("ZADD", stage.keys.delayed, "1795218610000", CallStage.job("cc"))
        let lines = try stage.call("peek", "--delayed").lines
        #expect(lines.count == 2 && lines[0].hasPrefix("1  due \(LocalTime.zoned(1_795_218_609))  token bb  "))
        let report = try JSONValue.parse(Array(stage.call("peek", "--delayed", "--limit", "1", "--json").output.utf8))
        #expect(report["due"]?.doubleValue == 1_795_218_609.5 && report["job"]?.stringValue == CallStage.job("bb"))
    }

    @Test func `peek and find know the channel of a broadcast`() throws {
        let stage = try CallStage()
        let broadcast = #"{"channel":"AbC+","data":{}}"#
        _ = try stage.redis(["RPUSH", "calls", broadcast, #"{"token":"ab","channel":"AbC+","data":{}}"#])
        #expect(try stage.call("peek").lines == ["1  channel AbC+  28 bytes", "2  token ab  41 bytes"])
        let found = try stage.call("find", "--token", "AbC+")
        #expect(found.status == 0 && found.lines.first == "calls  waiting, position 1  channel AbC+  28 bytes")
        #expect(found.lines.count == 2)
    }

    private static func entry(_ token: Int) -> String {
        #"{"token": "\#(token)", "topic": "t", "reason": "Unregistered", "status": 410, "identifier": 7, "verdict": "dead"}"#
    }

    @Test func `feedback list prints entries, and take removes them after they were written`() throws {
        let stage = try CallStage()
        let entries = (0..<250).map(Self.entry)
        _ = try stage.redis(["RPUSH", stage.keys.feedback] + entries)
        #expect(
            try stage.call("feedback", "list", "--limit", "1").lines == [
                "410 Unregistered  dead  token 0  topic t  ID 7"
            ])
        #expect(try stage.call("feedback", "list", "--json").lines == entries)
        #expect(try stage.call("feedback", "take", "--limit", "120").lines == Array(entries[..<120]))
        #expect(try stage.elements(stage.keys.feedback) == Array(entries[120...]))
        #expect(try stage.call("feedback", "take").lines == Array(entries[120...]))
        #expect(try stage.elements(stage.keys.feedback) == [])
    }

    @Test func `feedback take into a closed pipe or a full disk removes nothing that was not written`() throws {
        let stage = try CallStage()
        let entries = (0..<2000).map(Self.entry)
        _ = try stage.redis(["RPUSH", stage.keys.feedback] + entries)
        let full = try stage.shell(#""$G" feedback "$S" take > /dev/full"#)
        #expect(full.status == 1 && !full.errors.isEmpty)
        #expect(try stage.elements(stage.keys.feedback) == entries)
        #expect(try stage.shell(#""$G" feedback "$S" take > >(exec true); wait"#).status != nil)
        let left = try stage.elements(stage.keys.feedback)
        #expect(entries.suffix(left.count) == left[...])
    }

    @Test func `feedback take into a pipe without a reader is a failure, and list is none`() throws {
        let stage = try CallStage()
        try stage.redis("RPUSH", stage.keys.feedback, Self.entry(1))
        let pipe = "mkfifo pipe; exec 3<>pipe 4>pipe 3<&-; "
        let take = try stage.shell(pipe + #""$G" feedback "$S" take >&4"#)
        #expect(take.status == 1 && take.errorLines == ["Error: standard output cannot be written: Broken pipe"])
        #expect(try stage.elements(stage.keys.feedback) == [Self.entry(1)])
        let list = try stage.shell("rm pipe; " + pipe + #""$G" feedback "$S" list >&4"#)
        #expect(list.status == 0 && list.errors == "")
    }

    @Test func `an entry that others removed meanwhile is skipped`() throws {
        let stage = try CallStage()
        _ = try stage.redis(["RPUSH", stage.keys.feedback, "b", "c", "d"])
        var client = try RedisClient(settings: QueueSettings(list: "calls", server: .unix(path: stage.redis.socketPath)))
        let page = ["a", "b", "c"].map { Array($0.utf8) }
        #expect(try FeedbackList(stage.keys).remove(page, &client) == 2)
        #expect(try stage.elements(stage.keys.feedback) == ["d"])
        #expect(try FeedbackList(stage.keys).remove(page, &client) == 0)
    }

    @Test func `top prints one reading into a pipe`() throws {
        let stage = try CallStage()
        try stage.redis("RPUSH", "calls", "{}")
        let result = try stage.call("top")
        #expect(result.status == 0 && result.lines.contains("backlog     1"))
    }
}
