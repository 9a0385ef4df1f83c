import Foundation
import Logging
import Testing

@testable import FrostAlert

@Suite("Between the database and Redis")
struct DeliveryTests {
    private let database: TestDatabase
    private let redis: RedisServer
    private let sender: AlertSender
    private let reader: OutcomeReader
    private let feedback = "{apns_queue}:gapless:feedback"
    private let now = Fixture.date("2026-11-25T00:00:00Z")

    init() throws {
        (database, redis) = (try TestDatabase(), try RedisServer())
        let (logger, link) = (Logger(label: "test"), redis.link)
        sender = AlertSender(alerts: database.alerts, redis: link, logger: logger)
        reader = OutcomeReader(devices: database.devices, alerts: database.alerts, redis: link, logger: logger)
    }

    private func makeAlerts(_ count: Int) async throws {
        for number in 0..<count { try await database.devices.add(Fixture.location, to: Fixture.token(number), at: now) }
        let cycle = try await database.cycles.begin(at: now)
        try await database.cycles.record(Fixture.frost, for: Fixture.place, in: cycle)
    }

    @Test func `each alert becomes one job`() async throws {
        try await makeAlerts(600)
        while try await sender.sendBatch() > 0 {}
        let jobs = try redis.list("apns_queue")
        #expect(jobs.count == 600)
        #expect(Set(jobs).count == 600)
        let first = Alert(number: 1, cycle: 1, token: Fixture.token(0), location: Fixture.location, frost: Fixture.frost)
        #expect(try jobs[0] == first.job)
    }

    @Test func `a crash between the push and the mark pushes nothing twice and loses nothing`() async throws {
        try await makeAlerts(10)
        let jobs = try await database.alerts.unqueued(atMost: 4).map { ($0.number, try $0.job) }
        try await redis.link.push(jobs, from: try await database.alerts.outbox())
        #expect(try redis.list("apns_queue").count == 4)
        // The mark is missing: the next process sends these four and the others.
        while try await sender.sendBatch() > 0 {}
        #expect(try redis.list("apns_queue").count == 10)
        #expect(Set(try redis.list("apns_queue")).count == 10)
    }

    @Test func `a new database has an outbox of its own`() async throws {
        try await makeAlerts(2)
        try await sender.sendBatch()
        let other = try TestDatabase()
        try await other.devices.add(Fixture.location, to: Fixture.token, at: now)
        try await other.cycles.record(Fixture.frost, for: Fixture.place, in: try await other.cycles.begin(at: now))
        try await AlertSender(alerts: other.alerts, redis: redis.link, logger: Logger(label: "test")).sendBatch()
        #expect(try redis.list("apns_queue").count == 3)
    }

    @Test func `the connection is made again after an error`() async throws {
        let link = redis.link
        #expect(try await link.feedback() == [])
        try redis.command(["CLIENT", "KILL", "TYPE", "normal"])
        _ = try? await link.feedback()
        #expect(try await link.feedback() == [])
    }

    @Test func `results are recorded once, with their alert`() async throws {
        try await makeAlerts(2)
        // The last one is of another producer in the same list.
        for (alert, token, status, reason) in [
            ("1", Fixture.token(0).hex, "200", ""), ("2", Fixture.token(1).hex, "410", "Unregistered"),
            ("1", "ffff", "400", "BadTopic"),
        ] {
            let fields = ["identifier", alert, "token", token, "status", status, "reason", reason]
            try redis.command(["XADD", "push_results", "*"] + fields)
        }
        try await reader.readResults()
        let outcomes = try await database.values("SELECT status || ' ' || ifnull(reason, '-') FROM alert")
        #expect(outcomes == ["200 -", "410 Unregistered"])
        #expect(try await redis.link.results(after: try await database.alerts.lastResult()) == [])
    }

    @Test func `feedback deletes the devices that are gone, and leaves the list`() async throws {
        try await makeAlerts(3)
        let milliseconds = Int(now.timeIntervalSince1970 * 1000)
        let entry = { (number: Int, timestamp: Int, verdict: String) in
            #"{"token": "\#(Fixture.token(number).hex)", "timestamp": \#(timestamp), "verdict": "\#(verdict)"}"#
        }
        let entries = [
            entry(0, milliseconds + 1, "dead"), entry(1, milliseconds - 1, "dead"), entry(2, milliseconds + 1, "suspect"),
            "not JSON",
        ]
        try redis.command(["RPUSH", feedback] + entries)
        try await reader.readFeedback()
        #expect(try await database.values("SELECT token FROM device ORDER BY token") == [1, 2].map { Fixture.token($0).hex })
        #expect(try redis.list(feedback) == [])
    }
}
