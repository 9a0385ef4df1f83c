import APNSSimulator
import Harness
import RedisQueue
import Testing

@testable import Platform
@testable import PushPool
@testable import gaplessd

@Suite("The side channel", .blocking)
struct SideChannelTests {
    private let folder = TemporaryFolder()
    private let log = LogFixture()
    private let limits = SharedRateLimits()

    init() throws { _ = try Credentials.make(.init()).write(to: folder.path) }

    private func load(_ members: String = "", socket: String) throws -> Configuration {
        let file = folder.file("settings.json")
        try File.write(
            """
            {"redis_queue_key": "q", "redis_socket_path": "\(socket)", "apns_server": "127.0.0.1:1",
             "apns_topic": "com.example.app",
             "apns_cert_path": "client.pem", "apns_key_path": "client-key.pem"\(members)}
            """, to: file)
        return try Configuration.load(SettingsFile(path: file))
    }

    /// A duty that is due until it has made its steps, and counts them.
    private struct Fake: SideDuty {
        struct Count {
            var connections: [Int] = []
            var failures: [RedisError] = []
            var left: Int
        }

        let count: Locked<Count>
        let command: [String]

        init(_ steps: Int, _ command: [String] = ["PING"]) {
            count = Locked(Count(left: steps))
            self.command = command
        }

        var wanted: WakeUp? { nil }

        func due(isWanted: Bool, now: Instant) -> Instant? { count.withLock { $0.left > 0 } ? now : nil }

        func step(_ client: inout RedisClient, connection: Int) throws(RedisError) {
            count.withLock { $0.connections.append(connection) }
            _ = try client.command(command)
            count.withLock { $0.left -= 1 }
        }

        func failed(_ error: RedisError) { count.withLock { $0.failures.append(error) } }
    }

    @Test func `One failed dial is a failure of every duty that is due, and follows after a pause`() throws {
        let channel = try SideChannel(load(socket: folder.file("none")), limits, log: log.log)
        let (one, two, idle) = (Fake(1), Fake(1), Fake(0))
        try channel.start([one, two, idle])
        #expect(waitUntil { one.count.withLock { $0.failures.count } >= 2 })
        channel.stop()
        let counts = [one, two, idle].map { $0.count.withLock { $0 } }
        #expect(counts.map(\.connections) == [[], [], []])
        #expect(counts[0].failures.count == counts[1].failures.count && counts[2].failures.isEmpty)
    }

    @Test func `A duty that Redis refuses fails alone, and keeps the connection of the others`() throws {
        let server = try RedisServer()
        let channel = try SideChannel(load(socket: server.socketPath), limits, log: log.log)
        let (refused, other) = (Fake(1, ["NO-SUCH-COMMAND"]), Fake(3))
        try channel.start([refused, other])
        #expect(waitUntil { refused.count.withLock { $0.failures.count } >= 2 })
        channel.stop()
        #expect(other.count.withLock { $0.connections } == [1, 1, 1])
        #expect(other.count.withLock { $0.failures.isEmpty })
        #expect(Set(refused.count.withLock { $0.connections }) == [1])
    }

    @Test func `A closed connection is replaced without a failure, and new settings replace the connection`() throws {
        let server = try RedisServer()
        let configuration = try load(socket: server.socketPath)
        let channel = try SideChannel(configuration, limits, log: log.log)
        let duty = Fake(1)
        try channel.start([duty])
        #expect(waitUntil { duty.count.withLock { $0.left } == 0 })
        var client = try RedisClient(settings: QueueSettings(list: "q", server: .unix(path: server.socketPath)))
        _ = try client.command(["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"])
        duty.count.withLock { $0.left = 1 }
        channel.wakeUp.ring()
        #expect(waitUntil { duty.count.withLock { $0.left } == 0 })
        duty.count.withLock { $0.left = 1 }
        channel.adopt(configuration)
        #expect(waitUntil { duty.count.withLock { $0.left } == 0 })
        channel.stop()
        #expect(duty.count.withLock { $0.failures.isEmpty })
        #expect(duty.count.withLock { $0.connections.last } == 3)
    }

    @Test func `Limits of the fleet apply from the adoption on, and need a lease`() throws {
        let server = try RedisServer()
        let channel = try SideChannel(load(socket: server.socketPath), limits, log: log.log)
        #expect(limits.holding == nil)
        channel.adopt(try load(#", "max_rate_fleet": 100"#, socket: server.socketPath))
        #expect(limits.holding == 50)
        var duty = FleetLimits(limits, Keys(list: "q"), log: log.log)
        #expect(duty.due(isWanted: false, now: .now) == nil)
        #expect(limits.admit(payload: 100, now: .now) != nil)
        #expect(duty.due(isWanted: true, now: .now) != nil)
        duty.failed(.closed)
        duty.failed(.closed)
        var client = try RedisClient(settings: QueueSettings(list: "q", server: .unix(path: server.socketPath)))
        try duty.step(&client, connection: 1)
        #expect(limits.wantedLease == nil && duty.due(isWanted: false, now: .now) == nil)
        let lines = log.finish()
        #expect(lines.errors.split(separator: "\n").count { $0.contains("no share of the limits from Redis") } == 1)
        #expect(lines.output.contains("Redis gives shares of the limits again."))
    }

    @Test func `The records of the worker follow a publication, and again after a failure`() throws {
        let server = try RedisServer()
        let keys = Keys(list: "q")
        var client = try RedisClient(settings: QueueSettings(list: "q", server: .unix(path: server.socketPath)))
        _ = try client.command(["HSET", keys.worker("w"), "pid", "1"])
        _ = try AcceptanceMemory.exchange(["g": .seconds(5)], wanted: [], removesOld: false, keys, &client)
        let records = WorkerRecords(["q"], WakeUp())
        let found = Locked<[[String: Duration]]>([])
        records.begin(workers: ["w"]) { ages in found.withLock { $0.append(ages) } }
        var duty = records.duty
        #expect(duty.due(isWanted: false, now: .now) == nil)
        var apps = [ProcessSnapshot.App(name: "a", fingerprint: "f"), .init(name: "b", fingerprint: "g")]
        apps[0].acceptedAt = .now
        records.publish(apps, at: .now)
        duty.failed(.closed)
        var steps = 0
        while let due = duty.due(isWanted: false, now: .now), due <= .now, steps < 10 {
            try duty.step(&client, connection: 1)
            steps += 1
        }
        #expect(steps == 2)
        var details: [String: String] = [:]
        for field in ["apps", "app_counts"] { details[field] = try client.command(["HGET", keys.worker("w"), field]).text }
        let worker = QueueStatus.Worker(name: "w", inFlight: 0, details: details)
        #expect(ReportedApp.all(of: worker).map(\.label) == ["a", "b"] && ReportedApp.total(of: worker) == 2)
        #expect(try Set(client.command(["HKEYS", keys.accepted]).items?.compactMap(\.text) ?? []) == ["f", "g"])
        #expect(found.withLock { $0.map { $0.keys.sorted() } } == [["g"]], "Redis remembers the app in doubt")
        records.publish(apps, at: .now)
        #expect(duty.due(isWanted: true, now: .now).map { $0 > .now } ?? false, "nothing has changed")
        apps[1].hold = .suspectTokens
        records.publish(apps, at: .now)
        #expect(duty.due(isWanted: true, now: .now).map { $0 <= .now } ?? false, "a hold is written at once")
    }

    @Test func `without a right an app in doubt asks Redis once in a minute, and again on a new connection`() throws {
        let server = try RedisServer()
        let settings = QueueSettings(list: "q", server: .unix(path: server.socketPath))
        var client = try RedisClient(settings: settings)
        _ = try client.command(["CONFIG", "RESETSTAT"])
        let keys = Keys(list: "q")
        // A key of a wrong type is refused as a right that is missing.
        for key in [keys.accepted, keys.apps] { _ = try client.command(["SET", key, "x"]) }
        let records = WorkerRecords(["q"], WakeUp())
        let found = Locked(0)
        records.begin(workers: ["w"]) { ages in found.withLock { $0 += ages.count } }
        var own = Settings.App()
        (own.name, own.topic) = ("b", "t")
        records.has([own])
        var duty = records.duty
        var app = ProcessSnapshot.App(name: "b", fingerprint: "g")
        func rounds(_ count: Int, connection: Int) throws {
            for round in 0..<count {
                app.hold = round % 2 == 0 ? .suspectTokens : nil
                records.publish([app], at: .now)
                while let due = duty.due(isWanted: true, now: .now), due <= .now {
                    try duty.step(&client, connection: connection)
                }
            }
        }
        func refusals() throws -> Int {
            let text = try client.command(["INFO", "errorstats"]).text ?? ""
            let line = text.split(whereSeparator: \.isNewline).first { $0.hasPrefix("errorstat_WRONGTYPE") }
            return line.flatMap { $0.split(separator: "=").last.flatMap { Int($0) } } ?? 0
        }
        try rounds(20, connection: 1)
        #expect(try refusals() == 2, "one of the acceptances, and one of the apps")
        for key in [keys.accepted, keys.apps] { _ = try client.command(["DEL", key]) }
        _ = try AcceptanceMemory.exchange(["g": .seconds(5)], wanted: [], removesOld: false, keys, &client)
        try rounds(2, connection: 1)
        #expect(found.withLock { $0 } == 0)
        try rounds(2, connection: 2)
        #expect(found.withLock { $0 } > 0)
        #expect(try AppRecords.read(keys, &client) == ["b": "t"])
    }

    @Test func `apps are recorded beside each list once, and the record of one that is gone stays`() throws {
        let server = try RedisServer()
        let lists = ["q", "r"]
        var client = try RedisClient(settings: QueueSettings(list: "q", server: .unix(path: server.socketPath)))
        let records = WorkerRecords(lists, WakeUp())
        var duty = records.duty
        func app(_ name: String?, _ topic: String, isRemoved: Bool = false) -> Settings.App {
            var app = Settings.App()
            (app.name, app.topic, app.isRemoved) = (name, topic, isRemoved)
            return app
        }
        func steps() throws -> Int {
            var steps = 0
            while let due = duty.due(isWanted: false, now: .now), due <= .now, steps < 20 {
                try duty.step(&client, connection: 1)
                steps += 1
            }
            return steps
        }
        func recorded() throws -> [[String: String]] { try lists.map { try AppRecords.read(Keys(list: $0), &client) } }
        let many = (0..<1500).map { app("app\($0)", "t\($0)") }
        records.has([app(nil, "top")] + many)
        #expect(try steps() == 5, "the acceptances, and two batches for each list")
        #expect(try recorded().map(\.count) == [1500, 1500])
        records.has(many)
        #expect(try steps() == 0, "nothing has changed")
        records.has([app("app1", "new"), app("app2", "t2", isRemoved: true), app("never", "", isRemoved: true)])
        #expect(try steps() == 3)
        #expect(try recorded().map { $0["app1"] } == ["new", "new"])
        #expect(try recorded().allSatisfy { $0["app2"] == "t2" && $0["never"] == nil })
        _ = try client.command(["FLUSHALL"])
        records.has([app("app3", "other")])
        #expect(try steps() <= 8, "it notices that Redis was emptied")
        #expect(try recorded().map(\.count) == [1499, 1499])
    }
}
