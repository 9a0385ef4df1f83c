internal import Foundation
internal import GRDB

/// The forecast cycles, and the forecasts that each of them has.
struct CycleTable: Sendable {
    /// Cycles whose alerts and outcomes stay in the database: a week with two a day.
    static let keptCycles: Int64 = 14

    let database: DatabasePool

    func latest() async throws -> Cycle? {
        try await database.read { db in
            try Row.fetchOne(db, sql: "SELECT * FROM cycle ORDER BY number DESC LIMIT 1").map { row in
                Cycle(number: row["number"], start: Date(timeIntervalSince1970: row["start"]), isFinished: row["finished"])
            }
        }
    }

    /// Begins a cycle, and forgets old ones.
    func begin(at now: Date) async throws -> Cycle {
        try await database.write { db in
            try db.execute(sql: "INSERT INTO cycle (start, finished) VALUES (?, 0)", arguments: [now.timeIntervalSince1970])
            let number = db.lastInsertedRowID
            let oldest = number - Self.keptCycles
            try db.execute(sql: "DELETE FROM cycle WHERE number <= ?", arguments: [oldest])
            try db.execute(sql: "DELETE FROM forecast WHERE cycle <= ?", arguments: [oldest])
            try db.execute(sql: "DELETE FROM alert WHERE cycle <= ? AND queued = 1", arguments: [oldest])
            return Cycle(number: number, start: now, isFinished: false)
        }
    }

    func finish(_ cycle: Cycle) async throws {
        try await database.write { db in
            try db.execute(sql: "UPDATE cycle SET finished = 1 WHERE number = ?", arguments: [cycle.number])
        }
    }

    func hasPlaces() async throws -> Bool {
        try await database.read { try Bool.fetchOne($0, sql: "SELECT EXISTS (SELECT * FROM watch)") ?? false }
    }

    /// Returns the places that a device watches and whose forecast the cycle does not have.
    func missingPlaces(in cycle: Cycle) async throws -> [Place] {
        try await database.read { db in
            let sql = """
                SELECT DISTINCT latitude, longitude FROM watch
                EXCEPT SELECT latitude, longitude FROM forecast WHERE cycle = ?
                """
            return try Row.fetchAll(db, sql: sql, arguments: [cycle.number]).compactMap { row in
                Place(latitude: row["latitude"], longitude: row["longitude"])
            }
        }
    }

    /// Stores in one step that the cycle has the forecast of a place, and one alert for each device that watches it. A second
    /// call changes nothing.
    ///
    /// - Parameter frost: `nil` if there is nothing to alert of.
    func record(_ frost: Frost?, for place: Place, in cycle: Cycle) async throws {
        try await database.write { db in
            try db.execute(
                sql: "INSERT INTO forecast VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                arguments: [cycle.number, place.latitude, place.longitude])
            guard let frost, db.changesCount == 1 else { return }
            try db.execute(
                sql: """
                    INSERT INTO alert (cycle, token, latitude, longitude, name, unit, time, local_time, celsius)
                    SELECT ?, token, latitude, longitude, name, unit, ?, ?, ? FROM watch WHERE latitude = ? AND longitude = ?
                    """,
                arguments: [
                    cycle.number, frost.time.timeIntervalSince1970, frost.localTime, frost.celsius, place.latitude,
                    place.longitude,
                ])
        }
    }
}
