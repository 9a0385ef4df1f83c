import Foundation
import Testing

@testable import FrostAlert

@Suite("The forecasts of a cycle")
struct CycleTableTests {
    private let database: TestDatabase
    private let now = Fixture.date("2026-11-25T00:00:00Z")

    init() throws { database = try TestDatabase() }

    @Test func `a place of several devices is missing once, until it is recorded`() async throws {
        for number in 0..<3 { try await database.devices.add(Fixture.location, to: Fixture.token(number), at: now) }
        let cycle = try await database.cycles.begin(at: now)
        #expect(try await database.cycles.missingPlaces(in: cycle) == [Fixture.place])
        try await database.cycles.record(nil, for: Fixture.place, in: cycle)
        #expect(try await database.cycles.missingPlaces(in: cycle) == [])
        let next = try await database.cycles.begin(at: now)
        #expect(try await database.cycles.missingPlaces(in: next) == [Fixture.place])
    }

    @Test func `a forecast that is recorded twice gives each device one alert`() async throws {
        for number in 0..<3 { try await database.devices.add(Fixture.location, to: Fixture.token(number), at: now) }
        let cycle = try await database.cycles.begin(at: now)
        for _ in 0..<2 { try await database.cycles.record(Fixture.frost, for: Fixture.place, in: cycle) }
        #expect(try await database.alerts.unqueued(atMost: 9).map(\.token) == (0..<3).map(Fixture.token))
        #expect(try await database.alerts.unqueued(atMost: 9).map(\.frost) == [Fixture.frost, Fixture.frost, Fixture.frost])
    }

    @Test func `a place without a frost gives no alert, also if it is recorded again`() async throws {
        try await database.devices.add(Fixture.location, to: Fixture.token, at: now)
        let cycle = try await database.cycles.begin(at: now)
        try await database.cycles.record(nil, for: Fixture.place, in: cycle)
        try await database.cycles.record(Fixture.frost, for: Fixture.place, in: cycle)
        #expect(try await database.alerts.unqueued(atMost: 9) == [])
    }

    @Test func `a device that was deleted and registers again in the same cycle gets no second alert`() async throws {
        try await database.devices.add(Fixture.location, to: Fixture.token, at: now)
        let cycle = try await database.cycles.begin(at: now)
        try await database.cycles.record(Fixture.frost, for: Fixture.place, in: cycle)
        try await database.alerts.markQueued(upTo: 1)
        try await database.devices.delete([GoneDevice(token: Fixture.token, since: now + 1)])
        try await database.devices.add(Fixture.location, to: Fixture.token, at: now + 2)
        #expect(try await database.cycles.missingPlaces(in: cycle) == [])
        #expect(try await database.alerts.unqueued(atMost: 9) == [])
    }

    @Test func `old alerts are deleted, except those that are not queued`() async throws {
        try await database.devices.add(Fixture.location, to: Fixture.token, at: now)
        for number in 1...3 {
            let cycle = try await database.cycles.begin(at: now)
            try await database.cycles.record(Fixture.frost, for: Fixture.place, in: cycle)
            if number < 3 { try await database.alerts.markQueued(upTo: 2) }
        }
        for _ in 0..<CycleTable.keptCycles { _ = try await database.cycles.begin(at: now) }
        #expect(try await database.values("SELECT cycle FROM alert") == ["3"])
        #expect(try await database.values("SELECT cycle FROM forecast") == [])
    }
}
