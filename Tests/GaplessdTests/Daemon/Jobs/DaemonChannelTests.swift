import APNSSimulator
import Glibc
import Harness
import JSONBytes
import RedisQueue
import Testing

@testable import gaplessd

@Suite("A job with the name of a channel", .blocking)
struct DaemonChannelTests {
    private static let rules = """
        {"match-*": {"storage": "latest", "create": true, "delete_after_end": 0}, "news-*": {"create": false}, "*": {}}
        """
    private static let settings: [String: String?] = [
        "channels": rules, "apns_dial_timeout": "2", "apns_request_timeout": "2", "redis_lease": "2",
    ]

    private func job(_ name: String, _ members: String = "", event: String = "update") -> String {
        let data = #"{"aps":{"timestamp":1795300000,"event":"\#(event)","content-state":{"score":"1:0"}}}"#
        return #"{"channel_name":"\#(name)",\#(members.isEmpty ? "" : members + ",")"data":\#(data)}"#
    }

    private func record(_ stage: Stage, _ name: String) throws -> JSONValue? {
        try stage.command("HGET", stage.keys.channels, name).bytes.map { try JSONValue.parse($0) }
    }

    /// Runs `gaplessd channel` and returns its output as JSON.
    private func channel(_ stage: Stage, _ arguments: String...) throws -> JSONValue {
        let call = try Call(["channel", try stage.write(Self.settings)] + arguments + ["--json"])
        return try JSONValue.parse(Array(call.output.utf8))
    }

    @Test func `creates the channel at its first use, and the others use it`() throws {
        let (stage, daemon) = try givenOpen(Self.settings)
        let before = unixTime()
        try stage.push((0..<20).map { job("match-1", #""identifier":\#($0)"#) })
        #expect(try stage.settles(21))
        #expect(stage.simulator.totals.channelRequests == 1)
        let found = try #require(try record(stage, "match-1"))
        let id = try #require(found.text("id"))
        #expect(found.text("storage") == "latest" && found.text("environment") == "localhost" && found["ended"] == .null)
        #expect((before...unixTime()).contains(found.number("created") ?? 0))
        let entries = stage.simulator.ledger.requests(for: id)
        #expect(entries.count == 20)
        for entry in entries {
            #expect(entry.isBroadcast && entry.topic == Stage.topic && entry.pushType == "liveactivity")
            let expiration = Int64(entry.expiration ?? "") ?? 0
            #expect((before + 8 * 3600...unixTime() + 8 * 3600).contains(expiration), "the longest time that Apple stores")
        }
        #expect(daemon.says(#"Channel "match-1" created: \#(id), storage latest."#))
    }

    @Test func `the storage of the channel limits the expiration`() throws {
        let (stage, _) = try givenOpen(Self.settings)
        let soon = unixTime() + 600
        try stage.push([
            job("match-1", #""identifier":1,"expiry":60"#), job("match-1", #""identifier":2,"expiry":100000"#),
            job("match-1", #""identifier":3,"expires_at":\#(soon)"#), job("match-1", #""identifier":4,"expiry":0"#),
            job("silent", #""identifier":5,"expiry":60"#), job("silent", #""identifier":6,"expires_at":\#(soon)"#),
        ])
        let before = unixTime()
        #expect(try stage.settles(7))
        #expect(try stage.deadLetters().isEmpty)
        func expirations(_ name: String) throws -> [Int64] {
            let id = try #require(try record(stage, name)?.text("id"))
            return stage.simulator.ledger.requests(for: id).compactMap { $0.expiration.flatMap { Int64($0) } }.sorted()
        }
        let latest = try expirations("match-1")
        #expect(latest.count == 4 && latest[0] == 0 && (before...before + 400).contains(latest[1]) && latest[2] == soon)
        #expect(latest[3] <= unixTime() + 8 * 3600)
        #expect(try expirations("silent") == [0, 0])
    }

    @Test func `without a record, and with a rule that creates none, it is a bad job`() throws {
        let (stage, _) = try givenOpen(Self.settings)
        try stage.push([job("news-1"), pushJob("ab")])
        #expect(try waitUntil { try stage.status().dead == 1 })
        let letter = try #require(try stage.deadLetters().first)
        let sentence = #"channel_name "news-1" does not exist, and the setting channels creates no channel of this name"#
        #expect(letter.text("reason")?.contains(sentence) == true && letter.text("job") == job("news-1"))
        #expect(stage.simulator.totals.channelRequests == 0)
        // An operator may create it.
        #expect(try channel(stage, "create", "news-1").text("state") == "active")
        // The daemon believes for a second that there is none.
        #expect(
            try waitUntil {
                try stage.push(job("news-1"))
                return stage.accepts(3, atMost: .seconds(2))
            })
    }

    @Test func `a full account holds the name and not the app`() throws {
        let stage = try Stage()
        stage.simulator.behave { $0.channelLimit = 1 }
        let daemon = try stage.startOpen(Self.settings)
        try stage.push([job("match-1"), job("match-2")])
        #expect(try stage.accepts(2) && waitUntil { try stage.delayed().count == 1 })
        #expect(daemon.says("CannotCreateChannelConfig"))
        try stage.push((0..<200).map { pushJob(deviceToken($0)) } + [job("match-1")])
        #expect(stage.accepts(203))
        #expect(try stage.status().dead == 0 && stage.delayed().count == 1)
        #expect(stage.simulator.totals.channelRequests == 2, "the app does not ask again for each job")
    }

    @Test func `a management API that fails delays the names, and the device pushes go on`() throws {
        let stage = try Stage()
        let faults: [Answer] = [
            .usual(503), .reason(.featureNotEnabled), .reason(.invalidProviderToken), .closeConnection(recorded: false),
        ]
        stage.simulator.behave { $0.managementTurns = faults.enumerated().map { .init($0.offset + 1, $0.element) } }
        let daemon = try stage.startOpen(Self.settings)
        try stage.push((1...4).map { job("match-\($0)") } + (0..<100).map { pushJob(deviceToken($0)) })
        #expect(stage.accepts(101))
        // The first repetitions follow after five seconds.
        for number in 1...4 { #expect(daemon.says(#"Channel "match-\#(number)" cannot be created"#)) }
        #expect(try stage.settles(105))
        #expect(try stage.deadLetters().isEmpty)
    }

    /// A proxy keeps the requests of the daemon from the management API: it closes each connection before or during its
    /// handshake, or forwards nothing.
    enum Obstacle: CaseIterable, Sendable {
        case refused, torn, swallowed

        var behaviour: FaultProxy.Behaviour {
            var behaviour = FaultProxy.Behaviour()
            switch self {
            case .refused: behaviour.refuses = true
            case .torn: behaviour.tearsRequest = 1
            case .swallowed: behaviour.swallowsRequests = true
            }
            return behaviour
        }
    }

    @Test(arguments: Obstacle.allCases)
    func `a creation whose request never reached APNs leaves no channel without a record`(obstacle: Obstacle) throws {
        let stage = try Stage()
        let proxy = try FaultProxy(toPort: stage.service.port, seed: 1)
        proxy.behaviour = obstacle.behaviour
        let address = ["apns_management_server": "\"localhost:\(proxy.port)\""]
        let daemon = try stage.startOpen(Self.settings.merging(address) { $1 })
        try stage.push([job("match-1")] + (0..<100).map { pushJob(deviceToken($0)) })
        #expect(stage.accepts(101), "the device pushes go on")
        #expect(daemon.says(#"Channel "match-1" cannot be created"#))
        #expect(stage.simulator.totals.channelRequests == 0)
        proxy.behaviour = FaultProxy.Behaviour()
        #expect(try stage.settles(102))
        #expect(try stage.deadLetters().isEmpty && stage.counter(.retried) == 0)
        #expect(stage.simulator.totals.channelRequests == 1)
        #expect(daemon.stop()?.status == 0)
        let found = try channel(stage, "sweep", "--unknown")
        #expect(found.number("unknown_count") == 0 && found["missing"] == .array([]))
    }

    @Test func `a lost reply leaves one channel without a record, which sweep finds`() throws {
        let stage = try Stage()
        stage.simulator.behave {
            $0.managementTurns = [.init(1, .closeConnection(recorded: true)), .init(2, .halfOpen(recorded: true))]
        }
        let daemon = try stage.startOpen(Self.settings)
        try stage.push([job("match-1"), job("match-2")])
        #expect(try stage.settles(3))
        #expect(daemon.stop()?.status == 0)
        let found = try channel(stage, "sweep")
        #expect(found.number("unknown_count") == 2 && found["unknown"] == .array([]))
        let deleted = try channel(stage, "sweep", "--unknown", "--yes")
        #expect(deleted.number("deleted") == 2)
        let left = try channel(stage, "sweep", "--unknown")
        #expect(left.number("unknown_count") == 0 && left["missing"] == .array([]))
        for name in ["match-1", "match-2"] { #expect(try channel(stage, "show", name).text("state") == "active") }
    }

    /// The steps of a creation, in order: the daemon is killed at one.
    enum Kill: CaseIterable, Sendable {
        case readingRecord, leasing, leased, created, recording, recorded

        /// Channels that APNs has and no record names.
        var orphans: Int64 { self == .created || self == .recording ? 1 : 0 }
    }

    /// Kills the daemon when a proxy or the simulator sees this step of its next creation.
    private func arrange(_ kill: Kill, of daemon: DaemonProcess, _ stage: Stage) throws {
        let (process, keys) = (daemon.process, stage.keys)
        func text(_ words: String...) -> String { words.map { "$\($0.utf8.count)\r\n\($0)\r\n" }.joined() }
        // As the requests have them: HMGET, the script of the lease with two keys, and that of the record with three.
        let lease = text(keys.channels.replacing("channels", with: "nothing"), keys.channelWork)
        let record = text(keys.channels, keys.channelWork)
        let (pattern, moment): (String, FaultProxy.Tripwire.Moment)
        switch kill {
        case .readingRecord: (pattern, moment) = (text("HMGET", keys.channels), .insteadOfForwarding)
        case .leasing: (pattern, moment) = (lease, .insteadOfForwarding)
        case .leased: (pattern, moment) = (lease, .afterForwarding)
        case .recording: (pattern, moment) = (record, .insteadOfForwarding)
        case .recorded: (pattern, moment) = (record, .afterForwarding)
        case .created: return stage.simulator.behave { $0.managementTurns = [.init(2, .halfOpen(recorded: true))] }
        }
        stage.redisProxy?.set(.init(on: pattern, at: moment) { process.kill(SIGKILL) })
    }

    @Test(.timeLimit(.minutes(20)), arguments: Kill.allCases)
    func `a daemon that is killed at a step of a creation leaves at most one channel without a record`(kill: Kill) throws {
        let stage = try Stage(proxySeed: 1)
        let settings = Self.settings.merging(["channels": #"{"*": {"storage": "latest", "create": true}}"#]) { $1 }
        let first = try stage.startOpen(settings)
        // Afterwards Redis knows the scripts.
        try stage.push(job("match-0"))
        #expect(try stage.settles(2))
        try arrange(kill, of: first, stage)
        try stage.push(job("match-1"))
        let hasTakenPlace = waitUntil(atMost: .seconds(60)) {
            kill == .created ? stage.simulator.totals.channelRequests == 2 : first.process.poll() != nil
        }
        #expect(hasTakenPlace)
        first.crash()
        let second = try stage.start(settings)
        #expect(try stage.settles(3))
        #expect(try stage.deadLetters().isEmpty)
        #expect(second.stop()?.status == 0)
        let found = try channel(stage, "sweep")
        #expect(found.number("unknown_count") == kill.orphans && found["missing"] == .array([]))
        #expect(try channel(stage, "sweep", "--unknown", "--yes").number("deleted") == kill.orphans)
        let id = try #require(try record(stage, "match-1")?.text("id"))
        #expect(stage.simulator.ledger.requests(for: id).count == 1, "the job went out once")
        #expect(try channel(stage, "sweep", "--unknown").number("unknown_count") == 0)
    }

    @Test func `two daemons create one channel`() throws {
        let stage = try Stage()
        stage.simulator.behave { $0.latencyOfManagement(.milliseconds(100)) }
        let daemons = try ["one.json", "two.json"].map { try stage.start(Self.settings, name: $0) }
        try stage.open(daemons[0])
        try stage.push((0..<400).map { job("match-\($0 % 4)") })
        #expect(try stage.settles(401))
        #expect(try stage.command("HLEN", stage.keys.channels).integer == 4)
        let found = try channel(stage, "sweep")
        #expect(found.number("unknown_count") == 0 && found["missing"] == .array([]))
        for daemon in daemons { #expect(daemon.stop()?.status == 0) }
    }

    @Test func `an accepted end is recorded, and the channel is deleted after it`() throws {
        let (stage, daemon) = try givenOpen(Self.settings)
        try stage.push([job("keep"), job("match-1")])
        #expect(try stage.settles(3))
        let id = try #require(try record(stage, "match-1")?.text("id"))
        try stage.push([job("match-1", event: "end"), job("keep", event: "end")])
        #expect(try stage.settles(5))
        #expect(try waitUntil { try record(stage, "match-1") == nil })
        #expect(daemon.says(#"Channel "match-1" deleted after its end."#))
        #expect(try waitUntil { try record(stage, "keep")?.number("ended") != nil }, "its rule keeps it")
        // The name can be used again.
        try stage.push(job("match-1"))
        #expect(try stage.settles(6))
        let other = try #require(try record(stage, "match-1")?.text("id"))
        #expect(other != id)
        // The id means the same channel.
        let end = #"{"aps":{"timestamp":1795300000,"event":"end","content-state":{}}}"#
        try stage.push(#"{"channel":"\#(other)","data":\#(end)}"#)
        #expect(try waitUntil { try record(stage, "match-1") == nil })
        #expect(try stage.deadLetters().isEmpty)
    }

    @Test func `a channel that others have deleted is looked up again before its job is final`() throws {
        let (stage, _) = try givenOpen(Self.settings)
        try stage.push(job("match-1"))
        #expect(try stage.settles(2))
        #expect(try channel(stage, "delete", "match-1").number("deleted") == 1)
        try stage.push(job("match-1"))
        #expect(try stage.settles(3))
        #expect(try stage.deadLetters().isEmpty)
        // The record still has an id that APNs does not know.
        let text = try #require(try record(stage, "match-1")).line
        let id = try #require(try record(stage, "match-1")?.text("id"))
        #expect(try channel(stage, "delete", "match-1").number("deleted") == 1)
        try stage.command("HSET", stage.keys.channels, "match-1", text)
        try stage.push(job("match-1"))
        #expect(try waitUntil { try stage.status().dead == 1 })
        let letter = try #require(try stage.deadLetters().first)
        #expect(letter.text("reason") == "ChannelNotRegistered" && letter.text("token") == id)
        #expect(try channel(stage, "sweep", "--yes")["missing"]?.line.contains(id) == true)
    }

    @Test func `apps have channels of their own under the same name, and results name the channel`() throws {
        let apps = #"{"beta": \#(appJSON(topic: "com.example.beta"))}"#
        let (stage, _) = try givenOpen(Self.settings.merging(["apps": apps, "redis_results_key": "\"results\""]) { $1 })
        try stage.push([job("match-1"), job("match-1", #""app":"beta""#)])
        #expect(try stage.settles(3))
        let fields = try stage.command("HKEYS", stage.keys.channels).items?.compactMap(\.text) ?? []
        #expect(fields.count == 2 && fields.contains("match-1"))
        let records = try fields.compactMap { try record(stage, $0) }
        #expect(
            Set(records.compactMap { $0.text("app") }) == ["", "beta"] && Set(records.compactMap { $0.text("id") }).count == 2)
        let named = try stage.results().compactMap { $0["channel_name"] }
        #expect(named == ["match-1", "match-1"])
    }
}

extension Behaviour {
    /// Delays the answers to all channel management requests.
    fileprivate mutating func latencyOfManagement(_ time: Duration) {
        managementTurns = [.init(1, repeats: true, .delay(time, then: .accept))]
    }
}
