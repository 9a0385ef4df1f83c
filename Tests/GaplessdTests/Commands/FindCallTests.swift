import Harness
import JSONBytes
import RedisQueue
import Testing

@testable import gaplessd

@Suite("gaplessd find")
struct FindCallTests {
    private static let id = "0A1B2C3D-0000-0000-0000-000000000001"

    /// Stores the token `ab` at every place.
    private func filled() throws -> CallStage {
        let stage = try CallStage(["redis_results_key": "\"results\""])
        let keys = stage.keys
        let others = (0..<2500).map { CallStage.job("c\($0)") }
        _ = try stage.redis(
            ["RPUSH", "calls"] + others + [
                CallStage.job("ab", marks: #","identifier":"x\u00e9","trace":"t-1","campaign":"sale""#)
            ])
        try stage.redis("RPUSH", keys.recovered[1], #"{"tokens":["cd","AB"],"data":{}}"#)
        let retry = CallStage.job("Ab", marks: #","_gapless_apns_id":"\#(Self.id)""#)
        try stage.redis("ZADD", keys.delayed, "1795218609500", "w:7|" + retry)
        try stage.redis("ZADD", keys.workers, "1", "w")
        try stage.redis("HSET", keys.inflight("w"), "1", CallStage.job("ab"))
        try stage.deadLetter(["ab", "ef"])
        try stage.redis("RPUSH", keys.feedback, #"{"token": "ab", "reason": "Unregistered", "status": 410, "verdict": "dead"}"#)
        for token in ["ab", "ef"] {
            try stage.redis("XADD", "results", "*", "token", token, "status", "200", "apns_id", Self.id, "trace", "t-1")
        }
        return stage
    }

    @Test func `finds a token at every place, in any case, and states how much it searched`() throws {
        let stage = try filled()
        let result = try stage.call("find", "--token", "AB")
        #expect(result.status == 0)
        let lines = result.lines
        #expect(lines.count == 8)
        #expect(lines[0].hasPrefix("calls  waiting, position 2501  ID xé  trace t-1  campaign sale  token ab  "))
        #expect(lines[1].hasPrefix("calls  recovered, position 1  token cd  and 1 other  "))
        #expect(lines[2].hasPrefix("calls  delayed until \(LocalTime.zoned(1_795_218_609))  "))
        #expect(lines[3].hasPrefix("calls  in flight at worker w  "))
        #expect(lines[4].hasPrefix("calls  dead, position 1  ") && lines[5].hasPrefix("calls  feedback, position 1  "))
        #expect(lines[6].hasPrefix("calls  result "))
        #expect(
            lines[7] == "calls: 7 found; searched: waiting 2,501, recovered 1, delayed 1, in flight 1, dead 2, feedback 1, "
                + "results 2")
    }

    @Test(arguments: [
        ("--identifier", "xé", 1), ("--identifier", "154", 2), ("--trace", "t-1", 3), ("--campaign", "sale", 1),
        ("--apns-id", id, 3),
    ])
    func `finds other values`(option: String, value: String, count: Int) throws {
        let result = try filled().call("find", option, value, "--json")
        let objects = try result.lines.map { try JSONValue.parse(Array($0.utf8)) }
        #expect(result.status == 0)
        #expect(objects.count == count + 1 && objects.last?["found"]?.integerValue == Int64(count))
    }

    @Test func `a job without an identifier has the identifier 0`() throws {
        let stage = try CallStage()
        let identifiers = ["null", "0", #""0""#, "[0]", "1"]
        let jobs = [""] + identifiers.map { #","identifier":\#($0)"# }
        _ = try stage.redis(["RPUSH", "calls"] + jobs.map { CallStage.job("ab", marks: $0) } + ["no JSON"])
        try stage.redis("ZADD", stage.keys.delayed, "4000000000000", CallStage.job("cd"))
        let lines = try stage.call("find", "--identifier", "0").lines
        #expect(lines.count == 6 && lines.last?.hasPrefix("calls: 5 found; ") == true, "\(lines)")
        #expect(try stage.call("cancel", "--identifier", "0").lines.last == "5 cancelled")
        #expect(try stage.elements("calls") == jobs.suffix(2).map { CallStage.job("ab", marks: $0) } + ["no JSON"])
    }

    @Test func `a push that is nowhere is exit status 1`() throws {
        let stage = try filled()
        let result = try stage.call("find", "--token", "ff")
        #expect(result.status == 1 && result.lines.count == 1)
        #expect(try stage.call("find").status == 64 && stage.call("find", "--token", "a", "--trace", "b").status == 64)
    }

    @Test func `jobs that are claimed and pushed during the search hide no other job`() throws {
        let stage = try CallStage()
        let jobs = (0..<5000).map { CallStage.job("a\($0)") }
        _ = try stage.redis(["RPUSH", "calls"] + jobs)
        var client = try RedisClient(settings: QueueSettings(list: "calls", server: .unix(path: stage.redis.socketPath)))
        var seen: Set<[UInt8]> = []
        _ = try QueueScan(stage.keys, resultsKey: nil).read(.waiting, &client) { page in
            seen.formUnion(page.compactMap(\.content.first))
            _ = try? stage.redis("LPOP", "calls", "300")
            _ = try? stage.redis("RPUSH", "calls", "new")
            return true
        }
        let left = try stage.elements("calls").filter { $0 != "new" }
        #expect(!left.isEmpty && seen.isSuperset(of: left.map { Array($0.utf8) }))
    }
}
