import APNSSimulator
import Harness
import JSONBytes
import PushPool
import RedisQueue
import Testing

@testable import gaplessd

@Suite("gaplessd channel", .blocking)
struct ChannelCallTests {
    private let stage: Stage

    init() throws { stage = try Stage { $0.managementPort = 0 } }

    /// The management API has a port of its own, as at Apple.
    private var settings: [String: String?] {
        [
            "apns_management_server": "\"localhost:\(stage.simulator.managementPort ?? 0)\"", "apns_dial_timeout": "2",
            "channels": #"{"latest-*": {"storage": "latest", "delete_after_end": 3600}}"#,
        ]
    }

    private func channel(_ arguments: String...) throws -> Call {
        try Call(["channel", try stage.write(settings)] + arguments)
    }

    private func json(_ arguments: String...) throws -> [JSONValue] {
        let call = try Call(["channel", try stage.write(settings)] + arguments + ["--json"])
        return try call.output.split(separator: "\n").map { try JSONValue.parse(Array($0.utf8)) }
    }

    private func store(_ name: String, _ id: String, created: Int64, ended: Int64? = nil) throws {
        let record = ChannelRecord(
            ChannelName(app: "", name: name), id: id, storage: .none, environment: "localhost", created: created, ended: ended)
        try stage.command("HSET", stage.keys.channels, name, record.json.line)
    }

    @Test func `creates, shows, lists and deletes a channel`() throws {
        let made = try #require(try json("create", "latest-1").first)
        #expect(made.text("storage") == "latest" && made.text("state") == "active" && made.text("environment") == "localhost")
        let id = try #require(made.text("id"))
        let again = try channel("create", "latest-1")
        #expect(again.status == 1 && again.errors.contains(#"Channel "latest-1" exists already: \#(id)."#))
        #expect(try json("create", "other", "--storage", "none").first?.text("storage") == "none")
        #expect(try json("show", "latest-1").first?.text("id") == id)
        #expect(try json("list").compactMap { $0.text("name") }.sorted() == ["latest-1", "other"])
        #expect(try json("list", "--older", "1d").isEmpty && channel("list", "--older", "1d").errors == "0 channels\n")
        let line = try channel("show", "latest-1")
        #expect(line.status == 0 && line.output.hasPrefix("latest-1  \(id)  active  storage latest  localhost  created "))
        #expect(line.output.contains(/created [0-9\/]{10} [0-9:]{8} [+-][0-9]{2}:[0-9]{2}/), "with the zone")
        let deleted = try channel("delete", "latest-1")
        #expect(deleted.status == 0 && deleted.output == "1 deleted\n", "no terminal, no question")
        #expect(try channel("show", "latest-1").status == 1 && channel("delete", "latest-1").status == 1)
        #expect(try json("list").compactMap { $0.text("name") } == ["other"])
        #expect(stage.simulator.totals.requests == 0)
    }

    @Test(arguments: [
        ["create"], ["show"], ["list", "name"], ["create", " a"], ["list", "--storage", "none"], ["show", "a", "--unknown"],
        ["create", "a", "--storage", "all"], ["list", "--app", "none"], ["create", "a", "--yes"], ["destroy", "a"],
    ])
    func `reports wrong usage`(arguments: [String]) throws {
        #expect(try Call(["channel", try stage.write(settings)] + arguments).status == 64)
    }

    @Test(arguments: Reason.allCases)
    func `reports each reason of APNs`(reason: Reason) throws {
        stage.simulator.behave { $0.managementTurns = [.init(1, repeats: true, .reason(reason))] }
        let call = try channel("create", "a")
        #expect(call.status == 1 && call.errors.contains("apns: \(reason.status) \(reason.rawValue)"), "\(call.errors)")
        #expect(try stage.command("EXISTS", stage.keys.channels).integer == 0)
        stage.simulator.behave { $0.managementTurns = [] }
        #expect(try channel("create", "a").status == 0, "the lease has ended")
    }

    @Test func `a server that does not respond is 69`() throws {
        for answer in [Answer.closeConnection(recorded: false), .silent] {
            stage.simulator.behave { $0.managementTurns = [.init(1, repeats: true, answer)] }
            let arguments = settings.merging(["apns_request_timeout": "0.2"]) { $1 }
            #expect(try Call(["channel", try stage.write(arguments), "list"]).status == 69)
        }
        let closed = settings.merging(["apns_management_server": "\"localhost:1\""]) { $1 }
        #expect(try Call(["channel", try stage.write(closed), "list"]).status == 69)
    }

    @Test func `sweep prints what it would delete, and deletes it with --yes`() throws {
        let now = unixTime()
        let ids = try ["a", "b", "c", "d", "e"].map { try #require(try json("create", $0).first?.text("id")) }
        try store("a", ids[0], created: now - 10, ended: now - 5)
        try store("b", ids[1], created: now - 40 * 86_400)
        try store("latest-1", ids[2], created: now - 4000, ended: now - 60)
        try store("lost", "AAAA", created: now)
        for name in ["c", "e"] { try stage.command("HDEL", stage.keys.channels, name) }
        func reasons(_ arguments: String...) throws -> [String] {
            let call = try Call(["channel", try stage.write(settings), "sweep"] + arguments)
            return call.output.split(separator: "\n").map { String($0.prefix { $0 != " " }) }
        }
        #expect(try reasons() == ["forgotten", "ended", "missing", "1"], "of latest-1 the time after the end is not over")
        #expect(try reasons("--unknown").sorted() == ["ended", "forgotten", "missing", "unknown"])
        #expect(try reasons("--older", "30s").sorted() == ["1", "ended", "forgotten", "missing"])
        let swept = try #require(try json("sweep", "--yes").first)
        #expect(swept.number("deleted") == 3 && swept.number("unknown_count") == 1 && swept["unknown"] == .array([]))
        #expect(Set(try json("list").compactMap { $0.text("id") }) == Set([ids[2], ids[3], ids[4]]))
        #expect(try json("sweep", "--yes", "--unknown").first?.number("deleted") == 1)
        let left = try json("list")
        #expect(left.compactMap { $0.text("name") }.sorted() == ["d", "latest-1"] && left.count == 2)
        #expect(try channel("sweep").output == "nothing to delete\n")
    }

    @Test func `a comparison ignores a channel that is created meanwhile`() {
        func record(_ name: String, _ id: String) -> ChannelRecord {
            ChannelRecord(ChannelName(app: "", name: name), id: id, storage: .none, environment: "sandbox", created: 1)
        }
        let comparison = ChannelComparison(
            records: [record("a", "AA=="), record("gone", "CC==")], atAPNs: ["AA==", "BB==", "DD=="],
            later: ["AA==", "BB=="])
        #expect(comparison.channels.map(\.state) == [.active, .unknown])
        #expect(comparison.channels.map(\.id) == ["AA==", "DD=="])
    }
}
