import Foundation
import Testing

@testable import FrostAlert

@Suite("The registered devices")
struct DeviceTableTests {
    private let database: TestDatabase
    private let now = Fixture.date("2026-11-25T00:00:00Z")

    init() throws { database = try TestDatabase() }

    @Test func `a device and a place are stored once`() async throws {
        for _ in 0..<3 {
            try await database.devices.register(Fixture.token, at: now)
            try await database.devices.add(Fixture.location, to: Fixture.token, at: now)
        }
        #expect(try await database.values("SELECT token FROM device") == ["0a1b2c"])
        #expect(try await database.values("SELECT name FROM watch") == ["Berlin"])
    }

    @Test func `the newest name and unit of a place count`() async throws {
        try await database.devices.add(Fixture.location, to: Fixture.token, at: now)
        let renamed = Location(place: Fixture.place, name: "Garden", unit: .fahrenheit)
        try await database.devices.add(renamed, to: Fixture.token, at: now)
        #expect(try await database.values("SELECT name || ' ' || unit FROM watch") == ["Garden fahrenheit"])
    }

    @Test func `a removed place is gone for this device only`() async throws {
        let other = Fixture.token(1)
        for token in [Fixture.token, other] { try await database.devices.add(Fixture.location, to: token, at: now) }
        for _ in 0..<2 { try await database.devices.remove(Fixture.place, from: Fixture.token) }
        #expect(try await database.values("SELECT token FROM watch") == [other.hex])
    }

    @Test func `a 410 later than the registration deletes the device with its places and waiting alerts`() async throws {
        try await database.devices.add(Fixture.location, to: Fixture.token, at: now)
        let cycle = try await database.cycles.begin(at: now)
        try await database.cycles.record(Fixture.frost, for: Fixture.place, in: cycle)
        #expect(try await database.devices.delete([GoneDevice(token: Fixture.token, since: now + 1)]) == 1)
        for table in ["device", "watch", "alert"] {
            #expect(try await database.values("SELECT token FROM \(table)") == [], "\(table)")
        }
    }

    @Test func `a 410 from before the registration deletes nothing`() async throws {
        try await database.devices.register(Fixture.token, at: now - 100)
        try await database.devices.register(Fixture.token, at: now)
        #expect(try await database.devices.delete([GoneDevice(token: Fixture.token, since: now - 1)]) == 0)
        #expect(try await database.devices.delete([GoneDevice(token: Fixture.token, since: now)]) == 0)
        #expect(try await database.values("SELECT token FROM device") == ["0a1b2c"])
    }
}
