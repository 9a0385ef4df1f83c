import Glibc
import HTTP1
import Harness
import Platform

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
