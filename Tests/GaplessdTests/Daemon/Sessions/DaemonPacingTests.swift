import APNSSimulator
import Glibc
import Harness
import Platform
import RedisQueue
import Testing

/// RateLimitsTests and PushQueueLimitsTests test the arithmetic.
@Suite("max_rate and max_bandwidth", .blocking)
struct DaemonPacingTests {
    /// A push may arrive late, in another second than the one it was sent in.
    private static let jitter = 0.1

    /// Returns the largest sum within any second less the jitter.
    private static func most(_ entries: [LedgerEntry], of size: (LedgerEntry) -> Int = { _ in 1 }) -> Int {
        var (first, sum, most) = (0, 0, 0)
        for entry in entries {
            sum += size(entry)
            while entry.time - entries[first].time >= .seconds(1 - jitter) {
                sum -= size(entries[first])
                first += 1
            }
            most = max(most, sum)
        }
        return most
    }

    @Test func `no second has more pushes or payload bits than the limits, all apps together`() throws {
        let beta = #"{"beta": \#(appJSON(topic: "com.example.beta"))}"#
        let (stage, daemon) = try given(["apps": beta, "max_rate": "100"])
        try stage.push((0..<150).map { pushJob(deviceToken($0), $0 % 2 == 0 ? "" : #""app":"beta""#) })
        #expect(stage.accepts(150))
        #expect(Self.most(stage.simulator.ledger.entries) <= 100)
        try stage.write(["apps": beta, "max_bandwidth": "200000"])
        daemon.signal(SIGHUP)
        #expect(waitUntil { daemon.reports.count { $0.contains("Reloaded: ") } == 1 })
        let data = #"{"aps":{"alert":"\#(String(repeating: "x", count: 980))"}}"#
        try stage.push((1000..<1040).map { pushJob(deviceToken($0), data: data) })
        #expect(stage.accepts(190))
        let entries = Array(stage.simulator.ledger.entries.dropFirst(150))
        #expect(Self.most(entries) { ($0.body?.count ?? 0) * 8 } <= 200_000)
        #expect(try stage.drains())
        #expect(stage.simulator.ledger.acceptedCounts.values.allSatisfy { $0 == 1 })
    }

    @Test func `max_rate of an app limits this app, beside the limit of all apps`() throws {
        let beta = appJSON(topic: "com.example.beta", #""max_rate": 20"#)
        let (stage, _) = try given(["apps": #"{"beta": \#(beta)}"#, "max_rate": "80"])
        try stage.push((0..<150).map { pushJob(deviceToken($0), $0 % 5 == 0 ? #""app":"beta""# : "") })
        #expect(stage.accepts(150))
        let entries = stage.simulator.ledger.entries
        #expect(Self.most(entries) <= 80)
        #expect(Self.most(entries.filter { $0.topic == "com.example.beta" }) <= 20)
        #expect(try stage.drains())
        #expect(stage.simulator.ledger.acceptedCounts.values.allSatisfy { $0 == 1 })
    }

    @Test func `SIGHUP changes the limit at once, and a stop does not wait for it`() throws {
        let (stage, daemon) = try given(["max_rate": "0.01"])
        try stage.push((0..<300).map { pushJob(deviceToken($0)) })
        #expect(stage.accepts(1))
        try stage.write(["max_rate": "0"])
        daemon.signal(SIGHUP)
        // With the old limit the second push is due after 100 s.
        #expect(stage.accepts(300))
        try stage.write(["max_rate": "0.01"])
        daemon.signal(SIGHUP)
        #expect(waitUntil { daemon.standardOutput.split(separator: "Reloaded: ").count == 3 })
        let jobs = (1000..<1020).map { pushJob(deviceToken($0)) }
        try stage.push(jobs)
        #expect(stage.accepts(301))
        #expect(daemon.stop()?.status == 0)
        #expect(try stage.backlog() == Array(jobs.dropFirst()))
    }

    @Test func `an idle connection that Redis has closed is replaced silently, and an outage is reported`() throws {
        let (stage, daemon) = try givenOpen(["max_rate_fleet": "50"])
        try stage.killClients()
        try stage.push((0..<1000).map { pushJob(deviceToken($0)) })
        #expect(stage.accepts(60))
        #expect(!daemon.standardError.contains("no share of the limits"), "\(daemon.standardError)")
        stage.redis.kill()
        #expect(daemon.says("max_rate_fleet: no share of the limits from Redis"))
        try stage.redis.restart()
        #expect(daemon.says("max_rate_fleet: Redis gives shares of the limits again"))
    }

    @Test func `two daemons together keep the limit of the fleet, and SIGHUP ends it`() throws {
        let stage = try Stage()
        let settings = try stage.write(["max_rate_fleet": "100"])
        let daemons = try ["one", "two"].map { try stage.start(settings, name: $0) }
        try stage.push((0..<300).map { pushJob(deviceToken($0)) })
        #expect(stage.accepts(300))
        #expect(Self.most(stage.simulator.ledger.entries) <= 100)
        #expect(Set(stage.simulator.ledger.entries.map(\.connection)).count > 2, "both daemons send")
        try stage.write(["max_rate_fleet": "0.01"])
        for daemon in daemons { daemon.signal(SIGHUP) }
        #expect(waitUntil { daemons.allSatisfy { $0.standardOutput.contains("Reloaded: ") } })
        try stage.push((1000..<1300).map { pushJob(deviceToken($0)) })
        #expect(stage.accepts(301))
        try stage.write(["max_rate_fleet": "0"])
        for daemon in daemons { daemon.signal(SIGHUP) }
        // With the old limit the next push is due after 100 s.
        #expect(try stage.settles(600))
        for daemon in daemons { #expect(daemon.stop()?.status == 0) }
    }
}
