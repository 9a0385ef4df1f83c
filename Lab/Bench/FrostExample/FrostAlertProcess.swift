import Glibc
import Harness

/// A running frost-alert server and its database.
final class FrostAlertProcess {
    static let results = "push_results"

    private let program: String
    private let folder: TemporaryFolder
    private let port = FreePort.pick()
    private var process: ChildProcess

    /// - Parameter forecasts: the port of the forecast service.
    init(_ program: String, _ stage: Stage, forecasts: Int) throws {
        (self.program, folder) = (program, stage.folder)
        let settings = """
            {
                "port": \(port), "database": "frost.sqlite", "redis_socket_path": "\(stage.redis.socketPath)",
                "redis_queue_key": "\(Stage.list)", "redis_results_key": "\(Self.results)",
                "forecast_url": "http://127.0.0.1:\(forecasts)"
            }

            """
        try File.write(settings, to: folder.file("frost.json"))
        process = try Self.start(program, folder)
        try awaitStart()
    }

    private static func start(_ program: String, _ folder: TemporaryFolder) throws -> ChildProcess {
        try ChildProcess(
            program, [folder.file("frost.json")], standardOutput: .file(folder.file("frost.log")),
            standardError: .file(folder.file("frost.log")))
    }

    private func awaitStart() throws {
        let isUp = waitUntil(atMost: .seconds(60)) { HTTPTalk(port: port) != nil || process.poll() != nil }
        guard isUp, process.poll() == nil else { throw LabError(description: "frost-alert did not start") }
    }

    /// Sends SIGKILL and starts the server again.
    func restart() throws {
        process.kill(SIGKILL)
        _ = process.wait()
        process = try Self.start(program, folder)
        try awaitStart()
    }

    /// Sends SIGTERM and returns the exit.
    func stop() -> ChildProcess.Exit? {
        process.kill(SIGTERM)
        return process.wait(atMost: .seconds(30))
    }

    var logTail: String { File.read(folder.file("frost.log")).split(separator: "\n").suffix(20).joined(separator: "\n") }

    /// Sends a request, and expects the status 201.
    func post(_ path: String, _ body: String) throws {
        guard let talk = HTTPTalk(port: port) else { throw LabError(description: "frost-alert does not listen") }
        talk.send(
            "POST \(path) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)")
        guard let response = talk.readToEnd().flatMap(HTTPTalk.Response.init), response.status == 201 else {
            throw LabError(description: "\(path) was not answered with 201")
        }
    }

    // MARK: The database

    /// Returns the rows of a query with one column.
    func values(_ sql: String) throws -> [String] {
        let output = folder.file("rows")
        unsafe unlink(output)
        let errors = folder.file("frost.log")
        let query = try ChildProcess(
            "sqlite3", ["-readonly", "-cmd", ".timeout 5000", folder.file("frost.sqlite"), sql],
            standardOutput: .file(output), standardError: .file(errors))
        guard query.wait(atMost: .seconds(30))?.status == 0 else { throw LabError(description: "sqlite3 failed: \(sql)") }
        return File.read(output).split(separator: "\n").map(String.init)
    }

    func count(_ table: String) throws -> Int {
        try values("SELECT count(*) FROM \(table)").first.flatMap { Int($0) } ?? 0
    }

    /// Whether the cycle is complete, and every alert is queued and has its outcome.
    var isIdle: Bool {
        get throws {
            let cycles = "SELECT count(*) FROM cycle WHERE finished = 0"
            let alerts = "SELECT count(*) FROM alert WHERE status IS NULL"
            return try values("SELECT (\(cycles)) + (\(alerts))") == ["0"]
        }
    }
}
