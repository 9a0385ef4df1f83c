internal import Foundation
internal import GRDB

/// The SQLite file. A committed change survives kill -9 and a loss of power.
enum Database {
    /// Opens the file, and creates it or changes it to the newest schema.
    ///
    /// A pool has a write-ahead log: readers do not wait for the writer.
    static func open(_ path: String) throws -> DatabasePool {
        var configuration = Configuration()
        configuration.busyMode = .timeout(5)
        configuration.prepareDatabase { try $0.execute(sql: "PRAGMA synchronous = FULL") }
        let pool = try DatabasePool(path: path, configuration: configuration)
        try migrator.migrate(pool)
        return pool
    }

    private static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("first") { try $0.execute(sql: schema) }
        migrator.registerMigration("outbox name") {
            try $0.execute(sql: "INSERT INTO state VALUES ('outbox', ?)", arguments: [UUID().uuidString])
        }
        return migrator
    }

    /// Times are Unix seconds. The primary keys and the unique constraint are the reason why no duplicate is ever stored.
    private static let schema = """
        CREATE TABLE device (token TEXT PRIMARY KEY, registered REAL NOT NULL);

        CREATE TABLE watch (
            token TEXT NOT NULL REFERENCES device ON DELETE CASCADE,
            latitude REAL NOT NULL, longitude REAL NOT NULL, name TEXT NOT NULL, unit TEXT NOT NULL,
            PRIMARY KEY (token, latitude, longitude));
        CREATE INDEX watchers ON watch (latitude, longitude);

        CREATE TABLE cycle (number INTEGER PRIMARY KEY AUTOINCREMENT, start REAL NOT NULL, finished INTEGER NOT NULL);

        CREATE TABLE forecast (
            cycle INTEGER NOT NULL, latitude REAL NOT NULL, longitude REAL NOT NULL,
            PRIMARY KEY (cycle, latitude, longitude));

        CREATE TABLE alert (
            number INTEGER PRIMARY KEY AUTOINCREMENT, cycle INTEGER NOT NULL, token TEXT NOT NULL,
            latitude REAL NOT NULL, longitude REAL NOT NULL, name TEXT NOT NULL, unit TEXT NOT NULL,
            time REAL NOT NULL, local_time TEXT NOT NULL, celsius REAL NOT NULL,
            queued INTEGER NOT NULL DEFAULT 0, status INTEGER, reason TEXT,
            UNIQUE (cycle, token, latitude, longitude));
        CREATE INDEX unqueued ON alert (number) WHERE queued = 0;

        CREATE TABLE state (key TEXT PRIMARY KEY, value TEXT NOT NULL);
        """
}
