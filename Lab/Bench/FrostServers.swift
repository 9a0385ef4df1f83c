import APNSSimulator
import Glibc
import HTTP1
import Harness
import Platform

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

/// Open-Meteo's forecast on this machine: the nights are cold at most places. It is out of order until `serve(upTo:)`.
final class ForecastService: Sendable {
    private struct State {
        var limit = 0
        /// Responses with status 200, by latitude.
        var served: [String: Int] = [:]
        var total = 0
    }

    private let state: Locked<State>
    private let server: StatusServer
    /// Unix seconds: tomorrow at 05:00, the coldest hour.
    let coldHour: Int

    var port: Int { server.port }
    var served: Int { state.withLock { $0.total } }
    var servedByPlace: [String: Int] { state.withLock { $0.served } }

    init(_ gardens: Gardens) throws {
        let day = Int(time(nil)) / 86_400
        coldHour = (day + 1) * 86_400 + 5 * 3600
        let state = Locked(State())
        self.state = state
        let places = Set(gardens.devices.flatMap(\.places))
        let bodies = Dictionary(uniqueKeysWithValues: places.map { ($0.latitude, Self.body($0, day: day)) })
        server = try StatusServer(host: "127.0.0.1", port: 0) { request in
            guard request.path == "/v1/forecast", request.query.contains("hourly=temperature_2m&forecast_days=3"),
                let latitude = request.query.split(separator: "&").first(where: { $0.hasPrefix("latitude=") })?.dropFirst(9),
                let body = bodies[Self.normal(latitude)]
            else { return nil }
            return state.withLock { state in
                let isServed = state.total < state.limit
                if isServed {
                    state.served[Self.normal(latitude), default: 0] += 1
                    state.total += 1
                }
                return .now(isServed ? Self.response(body) : StatusResponse(status: 503, text: "out of order\n"))
            }
        }
    }

    deinit { server.close() }

    /// Serves until this many forecasts were served in all, and responds with 503 then.
    func serve(upTo limit: Int) { state.withLock { $0.limit = limit } }

    private static func response(_ body: String) -> StatusResponse {
        StatusResponse(contentType: "application/json; charset=utf-8", text: body)
    }

    /// `40.5` and `40.50` are one latitude.
    private static func normal(_ latitude: some StringProtocol) -> String { Double(latitude).map { "\($0)" } ?? "" }

    private static func body(_ place: Gardens.Place, day: Int) -> String {
        let hours = (0..<72).map { hour in
            let time = date(day * 86_400 + hour * 3600)
            // The coldest hour is 05:00 of the second day.
            let celsius = 12 - (hour == 29 ? 14 : 0) + (place.isFrosty ? 0 : 10)
            return (time, "\(celsius).5")
        }
        let times = hours.map { "\"\($0.0)\"" }.joined(separator: ",")
        let temperatures = hours.map(\.1).joined(separator: ",")
        return """
            {"latitude":\(place.latitude),"longitude":8.5,"generationtime_ms":0.03,"utc_offset_seconds":0,"timezone":"GMT",\
            "timezone_abbreviation":"GMT","elevation":38.0,"hourly_units":{"time":"iso8601","temperature_2m":"°C"},\
            "hourly":{"time":[\(times)],"temperature_2m":[\(temperatures)]}}
            """
    }

    /// Returns, for example, `2026-11-25T05:00`.
    private static func date(_ seconds: Int) -> String {
        let hour = seconds % 86_400 / 3600
        return UTCDate.day(Int64(seconds)) + "T\(hour < 10 ? "0" : "")\(hour):00"
    }
}

/// The devices and places of the frost example. The same in every run.
struct Gardens {
    struct Place: Hashable {
        var number: Int

        var name: String { "Garden \(number)" }
        /// Unique to the place; the forecast service recognizes it.
        var latitude: String { "\(40 + number / 4).\(number % 4 * 2)" }
        var isFrosty: Bool { number % 5 != 0 }

        func body(token: String) -> String {
            let location = #""latitude": \#(latitude), "longitude": 8.5, "name": "\#(name)", "unit": "celsius""#
            return #"{"token": "\#(token)", "location": {\#(location)}}"#
        }
    }

    struct Device {
        enum State { case present, gone, returned }

        var number: Int
        var places: [Place]

        /// 3 % of the devices are gone; 1 % were gone once and registered again.
        var state: State {
            switch number % 100 {
            case 7, 41, 83: .gone
            case 50: .returned
            default: .present
            }
        }

        var token: String {
            let prefix =
                switch state {
                case .present: "ab"
                case .gone: Device.gonePrefix
                case .returned: Device.returnedPrefix
                }
            let digits = String(number, radix: 16)
            return prefix + String(repeating: "0", count: 64 - prefix.count - digits.count) + digits
        }

        static let gonePrefix = "dead"
        static let returnedPrefix = "beef"
    }

    /// One alert of one device.
    struct Expected: Hashable {
        var token: String
        var place: Place
    }

    static let placeCount = 50
    let devices: [Device]

    init() {
        devices = (0..<1000).map { number in
            // 7 and 17 have no divisor in common with 50: the places of a device differ.
            let places = (0...number % 3).map { Place(number: (number * 7 + $0 * 17) % Self.placeCount) }
            return Device(number: number, places: places)
        }
    }

    /// The alerts of all devices, those that are gone included.
    var expected: Set<Expected> {
        Set(devices.flatMap { device in device.places.filter(\.isFrosty).map { Expected(token: device.token, place: $0) } })
    }

    /// - Parameter now: Unix milliseconds.
    func rules(now: Int64) -> [DeviceRule] {
        [
            DeviceRule(prefix: Device.gonePrefix, .unregistered(since: now + 1000)),
            DeviceRule(prefix: Device.returnedPrefix, .unregistered(since: now - 86_400_000)),
        ]
    }
}
