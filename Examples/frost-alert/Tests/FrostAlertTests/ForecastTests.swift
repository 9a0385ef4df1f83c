import Foundation
import Testing

@testable import FrostAlert

@Suite("A forecast")
struct ForecastTests {
    private func forecast(_ hourly: String, offset: Int = 0) throws -> Forecast {
        let json = #"{"utc_offset_seconds": \#(offset), "hourly": \#(hourly)}"#
        return try JSONDecoder().decode(Forecast.self, from: Data(json.utf8))
    }

    private func temperatures(_ celsius: Double...) -> Forecast {
        let start = Fixture.date("2026-11-25T00:00:00Z")
        return Forecast(
            hours: celsius.enumerated().map { hour, celsius in
                Forecast.Hour(time: start + TimeInterval(hour * 3600), localTime: "\(hour)", celsius: celsius)
            })
    }

    @Test func `a response of Open-Meteo has 72 hours in the time of the place`() throws {
        let forecast = try JSONDecoder().decode(Forecast.self, from: Fixture.berlin)
        #expect(forecast.hours.count == 72)
        #expect(forecast.hours[0].time == Fixture.date("2026-11-24T23:00:00Z"))
        #expect(forecast.hours[0].localTime == "2026-11-25T00:00")
        #expect(forecast.hours[5].celsius == 1.6)
    }

    @Test func `an hour without a temperature is left out`() throws {
        let hours = try forecast(#"{"time": ["2026-01-01T00:00", "2026-01-01T01:00"], "temperature_2m": [null, -1]}"#).hours
        #expect(hours.map(\.celsius) == [-1])
    }

    @Test(arguments: [
        #"{"time": ["2026-01-01T00:00"], "temperature_2m": []}"#, #"{"time": ["soon"], "temperature_2m": [1]}"#, #"{}"#,
    ])
    func `a response of another form is an error`(hourly: String) {
        #expect(throws: DecodingError.self) { try forecast(hourly) }
    }

    @Test func `its frost is the coldest hour of the next cold hours`() throws {
        let forecast = try JSONDecoder().decode(Forecast.self, from: Fixture.berlin)
        #expect(forecast.frost(after: Fixture.date("2026-11-24T20:00:00Z"), below: 3) == Fixture.frost)
        let third = forecast.frost(after: Fixture.date("2026-11-25T12:00:00Z"), below: 3)
        #expect(third?.localTime == "2026-11-27T05:00")
        #expect(third?.celsius == -4.4)
    }

    @Test func `hours that have begun and hours at the limit are no frost`() {
        let start = Fixture.date("2026-11-25T00:00:00Z")
        #expect(temperatures(-5, 3, 4).frost(after: start, below: 3) == nil)
        #expect(temperatures(-5, 3, 2.9).frost(after: start, below: 3)?.celsius == 2.9)
        #expect(temperatures().frost(after: start, below: 3) == nil)
    }

    @Test func `of equally cold hours the first one counts`() {
        let start = Fixture.date("2026-11-24T00:00:00Z")
        #expect(temperatures(5, 1, 0, 0, 2, 9, -8).frost(after: start, below: 3)?.localTime == "2")
    }
}
