public import Foundation
internal import RedisQueue

/// The settings file: one JSON object.
public struct Settings: Equatable, Sendable {
    public struct Fault: Error, CustomStringConvertible { public var description: String }

    var host = "127.0.0.1"
    var port = 8080
    /// The SQLite file.
    var database = "frost-alert.sqlite"
    var redisHost = "127.0.0.1"
    var redisPort = 6379
    var redisSocket: String?
    /// As in the settings of gaplessd.
    var queueKey = "apns_queue"
    var resultsKey = "push_results"
    var forecastURL = "https://api.open-meteo.com"
    /// Seconds between the starts of two cycles: 12 hours.
    var forecastInterval: TimeInterval = 43_200
    /// Degrees Celsius.
    var frostBelow = 3.0

    /// Reads a file. A relative path in it is relative to the file.
    public init(file: URL) throws {
        try self.init(json: Data(contentsOf: file))
        database = URL(filePath: database, relativeTo: file).path
        redisSocket = redisSocket.map { URL(filePath: $0, relativeTo: file).path }
    }

    init(json: Data) throws {
        guard let values = try JSONSerialization.jsonObject(with: json) as? [String: Any] else {
            throw Fault(description: "expected one JSON object")
        }
        for (key, value) in values.sorted(by: { $0.key < $1.key }) {
            guard try set(key, to: value) else { throw Fault(description: "\(key): unknown key, or a value of another type") }
        }
    }

    /// Returns false for an unknown key or a value of another type.
    private mutating func set(_ key: String, to value: Any) throws -> Bool {
        switch (key, value) {
        case ("host", let value as String): host = value
        case ("port", let value as Int) where 0...65535 ~= value: port = value
        case ("database", let value as String): database = value
        case ("redis_host", let value as String): redisHost = value
        case ("redis_port", let value as Int) where 1...65535 ~= value: redisPort = value
        case ("redis_socket_path", let value as String): redisSocket = value
        case ("redis_queue_key", let value as String): queueKey = value
        case ("redis_results_key", let value as String): resultsKey = value
        case ("forecast_url", let value as String): forecastURL = value
        case ("forecast_interval", let value as Double) where value > 0: forecastInterval = value
        case ("frost_below", let value as Double): frostBelow = value
        default: return false
        }
        return true
    }

    var queue: QueueSettings {
        let server = redisSocket.map { QueueSettings.Server.unix(path: $0) } ?? .tcp(host: redisHost, port: redisPort)
        return QueueSettings(list: queueKey, server: server)
    }
}
