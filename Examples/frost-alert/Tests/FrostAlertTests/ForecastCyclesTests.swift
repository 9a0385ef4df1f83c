import Foundation
import Logging
import Synchronization
import Testing

@testable import FrostAlert

@Suite("A forecast cycle")
struct ForecastCyclesTests {
    /// Counts the requests for each place; the first ones for some places fail.
    private final class Source: Sendable {
        struct Outage: Error {}
        let requests = Mutex<[Place: Int]>([:])
        let failures: Int

        init(failures: Int = 0) { self.failures = failures }

        func forecast(_ place: Place) throws -> Forecast {
            let count = requests.withLock { requests in
                requests[place, default: 0] += 1
                return requests[place, default: 0]
            }
            if count <= failures && place.latitude < 10 { throw Outage() }
            return Forecast(hours: [Forecast.Hour(time: .now + 3600, localTime: "2026-11-25T05:00", celsius: place.latitude)])
        }
    }

    private let database: TestDatabase

    init() throws { database = try TestDatabase() }

    private func service(_ source: Source) -> ForecastCycles {
        ForecastCycles(
            cycles: database.cycles, interval: 1000, limit: 3, logger: Logger(label: "test"), forecast: source.forecast)
    }

    private func watch(_ places: Range<Int>, devices: Int = 2) async throws {
        for place in places {
            let location = Location(place: Place(latitude: Double(place), longitude: 0)!, name: "\(place)", unit: .celsius)
            for device in 0..<devices { try await database.devices.add(location, to: Fixture.token(device), at: .now) }
        }
    }

    @Test func `requests each place once, and alerts of those below the limit`() async throws {
        try await watch(0..<20)
        let source = Source()
        try await service(source).run(try await database.cycles.begin(at: .now))
        #expect(source.requests.withLock { $0.values.sorted() } == Array(repeating: 1, count: 20))
        #expect(try await database.values("SELECT name FROM alert ORDER BY name") == ["0", "0", "1", "1", "2", "2"])
        #expect(try await database.cycles.latest()?.isFinished == true)
    }

    @Test func `continues after a crash with the places that it lacks`() async throws {
        try await watch(0..<20)
        let cycle = try await database.cycles.begin(at: .now)
        for latitude in 0..<8 {
            try await database.cycles.record(nil, for: Place(latitude: Double(latitude), longitude: 0)!, in: cycle)
        }
        let source = Source()
        try await service(source).run(cycle)
        #expect(source.requests.withLock { $0.keys.map(\.latitude).sorted() } == (8..<20).map(Double.init))
    }

    @Test func `requests a failed forecast again, and no other`() async throws {
        try await watch(8..<12)
        let source = Source(failures: 1)
        try await service(source).run(try await database.cycles.begin(at: .now))
        let requests = source.requests.withLock { $0.map { "\($0.key.latitude) \($0.value)" }.sorted() }
        #expect(requests == ["10.0 1", "11.0 1", "8.0 2", "9.0 2"])
        #expect(try await database.cycles.latest()?.isFinished == true)
    }

    @Test func `gives up the rest when the next cycle is due`() async throws {
        try await watch(0..<2)
        let source = Source(failures: .max)
        let cycle = try await database.cycles.begin(at: .now - 999.9)
        try await service(source).run(cycle)
        #expect(try await database.cycles.latest()?.isFinished == false)
    }
}
