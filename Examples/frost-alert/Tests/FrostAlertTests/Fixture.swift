import Foundation
import GRDB
import Testing

@testable import FrostAlert

/// Values of the tests.
enum Fixture {
    /// A forecast for Berlin in the format of Open-Meteo, from 2026-11-25T00:00 local time, one hour ahead of GMT. The first
    /// night falls to 1.6 degrees at 05:00, the second to 5.6, the third to -4.4.
    static let berlin = data("berlin.json")

    static let token = DeviceToken("0a1b2c")!
    static let place = Place(latitude: 52.52, longitude: 13.405)!
    static let location = Location(place: place, name: "Berlin", unit: .celsius)
    static let frost = Frost(time: date("2026-11-25T04:00:00Z"), localTime: "2026-11-25T05:00", celsius: 1.6)

    static func data(_ name: String) -> Data {
        let url = Bundle.module.url(forResource: "Fixtures/\(name)", withExtension: nil)
        return url.flatMap { try? Data(contentsOf: $0) } ?? Data()
    }

    static func date(_ text: String) -> Date {
        (try? Date(text, strategy: .iso8601)) ?? .distantPast
    }

    static func token(_ number: Int) -> DeviceToken { DeviceToken("ab" + String(number, radix: 16))! }
}

/// A database in a folder that ends with this object.
final class TestDatabase {
    let folder = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
    let pool: DatabasePool

    init() throws {
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        pool = try Database.open(folder.appending(path: "test.sqlite").path)
    }

    deinit { try? FileManager.default.removeItem(at: folder) }

    var devices: DeviceTable { DeviceTable(database: pool) }
    var cycles: CycleTable { CycleTable(database: pool) }
    var alerts: AlertTable { AlertTable(database: pool) }

    /// The first column of a query, as text.
    func values(_ sql: String) async throws -> [String] { try await pool.read { try String.fetchAll($0, sql: sql) } }
}
