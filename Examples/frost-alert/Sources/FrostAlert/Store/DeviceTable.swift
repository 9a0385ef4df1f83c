internal import Foundation
internal import GRDB

/// The registered devices and their locations.
struct DeviceTable: Sendable {
    let database: DatabasePool

    /// Stores a device. An app registers at each start: the newest time counts.
    func register(_ token: DeviceToken, at now: Date) async throws {
        try await database.write { db in
            try db.execute(
                sql: """
                    INSERT INTO device VALUES (?, ?)
                    ON CONFLICT (token) DO UPDATE SET registered = max(registered, excluded.registered)
                    """, arguments: [token.hex, now.timeIntervalSince1970])
        }
    }

    /// Stores a location of a device, and registers a device that is unknown. The newest name and unit of a place count.
    func add(_ location: Location, to token: DeviceToken, at now: Date) async throws {
        try await database.write { db in
            try db.execute(
                sql: "INSERT INTO device VALUES (?, ?) ON CONFLICT (token) DO NOTHING",
                arguments: [token.hex, now.timeIntervalSince1970])
            try db.execute(
                sql: """
                    INSERT INTO watch VALUES (?, ?, ?, ?, ?)
                    ON CONFLICT (token, latitude, longitude) DO UPDATE SET name = excluded.name, unit = excluded.unit
                    """,
                arguments: [
                    token.hex, location.place.latitude, location.place.longitude, location.name, location.unit.rawValue,
                ])
        }
    }

    func remove(_ place: Place, from token: DeviceToken) async throws {
        try await database.write { db in
            try db.execute(
                sql: "DELETE FROM watch WHERE token = ? AND latitude = ? AND longitude = ?",
                arguments: [token.hex, place.latitude, place.longitude])
        }
    }

    /// Deletes devices without the app, their locations, and their alerts that are not queued. A device that registered after
    /// its token became invalid stays.
    ///
    /// - Returns: the number of deleted devices.
    @discardableResult
    func delete(_ gone: [GoneDevice]) async throws -> Int {
        try await database.write { db in
            var deleted = 0
            for device in gone {
                try db.execute(
                    sql: "DELETE FROM device WHERE token = ? AND registered < ?",
                    arguments: [device.token.hex, device.since.timeIntervalSince1970])
                if db.changesCount == 0 { continue }
                deleted += 1
                try db.execute(sql: "DELETE FROM alert WHERE token = ? AND queued = 0", arguments: [device.token.hex])
            }
            return deleted
        }
    }
}
