import Foundation
import RedisQueue
import Testing

@testable import FrostAlert

@Suite("The settings")
struct SettingsTests {
    private func settings(_ json: String) throws -> Settings { try Settings(json: Data(json.utf8)) }

    @Test func `have defaults`() throws {
        let settings = try settings("{}")
        #expect(settings.forecastInterval == 12 * 3600)
        #expect(settings.frostBelow == 3)
        #expect(settings.forecastURL == "https://api.open-meteo.com")
        #expect(settings.queue.server == .tcp(host: "127.0.0.1", port: 6379))
    }

    @Test func `are read`() throws {
        let settings = try settings(
            """
            {"host": "::1", "port": 0, "database": "a", "redis_socket_path": "/s", "redis_queue_key": "q", \
            "redis_results_key": "r", "forecast_url": "u", "forecast_interval": 60, "frost_below": -1.5}
            """)
        #expect(settings.host == "::1")
        #expect(settings.port == 0)
        #expect(settings.queue.server == .unix(path: "/s"))
        #expect(settings.queue.list == "q")
        #expect(settings.resultsKey == "r")
        #expect(settings.forecastInterval == 60)
        #expect(settings.frostBelow == -1.5)
    }

    @Test(arguments: [
        "[]", #"{"prot": 1}"#, #"{"port": "80"}"#, #"{"port": 70000}"#, #"{"forecast_interval": 0}"#, #"{"host": 1}"#,
    ])
    func `with a fault are an error`(json: String) {
        #expect(throws: Settings.Fault.self) { try settings(json) }
    }
}
