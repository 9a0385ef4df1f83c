internal import Foundation
internal import GRDB

/// The alerts: first in a queue of their own on the way to Redis (an outbox), later with the outcome of their push.
struct AlertTable: Sendable {
    let database: DatabasePool

    /// The name of this outbox in Redis. A new database has another one.
    func outbox() async throws -> String {
        try await database.read { try String.fetchOne($0, sql: "SELECT value FROM state WHERE key = 'outbox'") ?? "" }
    }

    /// Returns the first alerts that are not marked as queued, in the order of their numbers.
    func unqueued(atMost count: Int) async throws -> [Alert] {
        try await database.read { db in
            try Row.fetchAll(db, sql: "SELECT * FROM alert WHERE queued = 0 ORDER BY number LIMIT ?", arguments: [count])
                .compactMap(Alert.init)
        }
    }

    /// Marks all alerts up to this number as queued. Numbers rise, so that no alert below it can be added later.
    func markQueued(upTo number: Int64) async throws {
        try await database.write { db in
            try db.execute(sql: "UPDATE alert SET queued = 1 WHERE queued = 0 AND number <= ?", arguments: [number])
        }
    }

    /// The id of the last result that was recorded.
    func lastResult() async throws -> String {
        try await database.read { try String.fetchOne($0, sql: "SELECT value FROM state WHERE key = 'results'") ?? "0-0" }
    }

    /// Records outcomes and the place in the stream in one step.
    func record(_ results: [PushResult]) async throws {
        guard let last = results.last else { return }
        try await database.write { db in
            for result in results {
                try db.execute(
                    sql: "UPDATE alert SET status = ?, reason = ? WHERE number = ? AND token = ?",
                    arguments: [result.status, result.reason, result.alert, result.token?.hex])
            }
            try db.execute(
                sql: "INSERT INTO state VALUES ('results', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                arguments: [last.id])
        }
    }
}

extension Alert {
    fileprivate init?(_ row: Row) {
        guard let token = DeviceToken(row["token"]), let unit = TemperatureUnit(rawValue: row["unit"]),
            let place = Place(latitude: row["latitude"], longitude: row["longitude"])
        else { return nil }
        self.init(
            number: row["number"], cycle: row["cycle"], token: token,
            location: Location(place: place, name: row["name"], unit: unit),
            frost: Frost(
                time: Date(timeIntervalSince1970: row["time"]), localTime: row["local_time"], celsius: row["celsius"]))
    }
}
