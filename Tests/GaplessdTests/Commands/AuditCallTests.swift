import Harness
import JSONBytes
import RedisQueue
import Testing

@testable import gaplessd

@Suite("gaplessd audit")
struct AuditCallTests {
    /// claimed = 2 sent + 1 retried + 3 dead + 1 released + 2 in flight.
    private func balance(_ stage: CallStage) throws {
        let keys = stage.keys
        try stage.redis(
            "HSET", keys.stats, "claimed", "9", "sent", "2", "retried", "1", "dead", "3", "released", "1", "born", "x")
        try stage.redis("ZADD", keys.workers, "1", "w")
        try stage.redis("HSET", keys.worker("w"), "host", "web1")
        try stage.redis("HSET", keys.inflight("w"), "1", "{}", "2", "{}")
    }

    @Test func `prints balanced accounting and exits with 0`() throws {
        let stage = try CallStage()
        try balance(stage)
        let result = try stage.call("audit")
        #expect(result.status == 0)
        #expect(
            result.lines == [
                "list calls", "  claimed     9", "= sent        2", "+ retried     1", "+ postponed   0", "+ dead        3",
                "+ expired     0", "+ superseded  0", "+ released    1", "+ recovered   0", "+ in flight   2", "balances",
            ])
        #expect(
            try stage.call("audit", "--json").output == """
                {"balanced": true, "unexplained": 0, "lists": [{"list": "calls", "claimed": 9, "sent": 2, "retried": 1, \
                "postponed": 0, "dead": 3, "expired": 0, "superseded": 0, "released": 1, "recovered": 0, \
                "in_flight": 2, "unexplained": 0, \
                "cancelled": 0, "paused": [], \
                "stranded": [], "recordless_workers": [], "delayed_without_bar": 0, "unreadable_dead": 0, \
                "foreign_keys": [], "emptied": null, "rolled_back": null, "replaced": null}]}

                """)
    }

    @Test(arguments: [
        ("claimed", 5, "does not balance: 5 claimed jobs missing"),
        ("sent", -1, "does not balance: 1 claimed job missing"),
        ("dead", 2, "does not balance: the terms exceed claimed by 2"),
    ])
    func `reports the difference of a changed counter and exits with 1`(counter: String, by: Int, verdict: String) throws {
        let stage = try CallStage(lists: ["calls", "other"])
        try balance(stage)
        try stage.redis("HINCRBY", stage.keys.stats, counter, "\(by)")
        let result = try stage.call("audit")
        #expect(result.status == 1)
        #expect(result.lines.contains(verdict) && result.lines.contains("balances"), "\(result.output)")
        let json = try stage.call("audit", "--json")
        #expect(json.status == 1)
        let object = try JSONValue.parse(Array(json.output.utf8))
        #expect(object["balanced"]?.boolValue == false)
        #expect(object["unexplained"]?.integerValue == (counter == "dead" ? -2 : Int64(by.magnitude)))
    }

    @Test func `reports jobs of an unregistered worker and exits with 1`() throws {
        let stage = try CallStage(lists: ["q[1]*?"])
        try balance(stage)
        try stage.redis("HSET", stage.keys.inflight("gone"), "7", "{}")
        let result = try stage.call("audit")
        #expect(result.status == 1)
        #expect(
            result.lines.contains(
                "note: jobs in flight of the unregistered worker gone, which no worker takes over: 1"))
        let object = try JSONValue.parse(Array(try stage.call("audit", "--json").output.utf8))
        guard case .array(let lists) = object["lists"], case .array(let stranded) = lists[0]["stranded"] else {
            throw Unexpected("no lists")
        }
        #expect(stranded.map { $0["worker"]?.stringValue } == ["gone"] && stranded[0]["jobs"]?.integerValue == 1)
    }

    @Test func `reports other findings as notes and exits with 0`() throws {
        let stage = try CallStage()
        try balance(stage)
        let keys = stage.keys
        try stage.redis("ZADD", keys.delayed, "1", "w:1|{}", "2", "{\"token\":\"a|b\"}", "3", "w:2:1|{}")
        try stage.redis("RPUSH", keys.dead, "not a letter")
        try stage.deadLetter(["aa"])
        try stage.redis("SET", "{calls}:gapless:mine", "x")
        try stage.redis("ZADD", keys.workers, "1", "ghost")
        let result = try stage.call("audit")
        #expect(result.status == 0)
        #expect(
            result.lines.filter { $0.hasPrefix("note: ") } == [
                "note: registered worker without a record, whose jobs are taken over after the lease: ghost",
                "note: delayed jobs that no daemon wrote, which are pushed unchanged: 1",
                "note: unreadable dead letters, which 'dead' skips: 1",
                "note: unknown key: {calls}:gapless:mine",
            ])
    }

    @Test func `says instead of "balances" that Redis was emptied or put back to an earlier state`() throws {
        let stage = try CallStage()
        try balance(stage)
        try stage.redis("HSET", stage.keys.stats, "emptied", "1795218609500", "rolled_back", "1795218620000")
        let emptied = try stage.call("audit")
        #expect(emptied.status == 0 && !emptied.lines.contains("balances"))
        #expect(
            emptied.lines.last
                == "Redis was emptied before \(LocalTime.zoned(1_795_218_609)), as a worker found: these figures begin there")
        // Jobs that were put back into the emptied Redis are no second loss.
        try stage.redis("HSET", stage.keys.stats, "rolled_back", "1795219609500")
        let both = try stage.call("audit").lines.suffix(2)
        #expect(both.first?.hasPrefix("Redis was emptied") == true)
        #expect(
            both.last == "Redis was put back to an earlier state before \(LocalTime.zoned(1_795_219_609)), as a worker found: "
                + "these figures lack what it has lost")
        let json = try JSONValue.parse(Array(stage.call("audit", "--json").output.utf8))
        guard case .array(let lists) = json["lists"] else { throw Unexpected("no lists") }
        #expect(lists[0]["emptied"]?.integerValue == 1_795_218_609 && lists[0]["rolled_back"]?.integerValue == 1_795_219_609)
        try stage.redis("HINCRBY", stage.keys.stats, "sent", "-1")
        let differing = try stage.call("audit")
        #expect(differing.status == 1 && differing.lines.contains("does not balance: 1 claimed job missing"))
        #expect(differing.lines.contains { $0.hasPrefix("Redis was emptied") })
    }

    @Test func `survives counters at the limits of 64 bits`() throws {
        let stage = try CallStage()
        try stage.redis("HSET", stage.keys.stats, "claimed", "\(Int64.min)", "sent", "\(Int64.max)", "dead", "\(Int64.max)")
        #expect(try stage.call("audit").status == 1)
        #expect(try stage.call("audit", "--json").status == 1)
        #expect(try stage.call("status").status == 0)
    }

    @Test func `ignores the keys of other lists`() throws {
        let stage = try CallStage(lists: ["a*"])
        let other = Keys(list: "ab")
        try stage.redis("HSET", other.inflight("gone"), "7", "{}")
        let result = try stage.call("audit")
        #expect(result.status == 0 && !result.output.contains("note"))
    }
}
