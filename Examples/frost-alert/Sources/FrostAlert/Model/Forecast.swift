import Foundation

/// The temperatures of the next days at one place, as Open-Meteo forecasts them.
struct Forecast: Equatable, Sendable {
    struct Hour: Equatable, Sendable {
        var time: Date
        /// The same time at the place, for example `2026-11-25T05:00`.
        var localTime: String
        var celsius: Double
    }

    /// In the order of time. An hour without a temperature is left out.
    var hours: [Hour]
}

extension Forecast: Decodable {
    private enum CodingKeys: String, CodingKey {
        case hourly
        case offset = "utc_offset_seconds"
    }

    private struct Hourly: Decodable {
        var time: [String]
        var temperatures: [Double?]

        private enum CodingKeys: String, CodingKey {
            case time
            case temperatures = "temperature_2m"
        }
    }

    /// Reads a response to `hourly=temperature_2m`: local times in ISO 8601 without a zone, and their offset from GMT.
    init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        let hourly = try container.decode(Hourly.self, forKey: .hourly)
        let offset = try container.decodeIfPresent(Int.self, forKey: .offset) ?? 0
        guard hourly.time.count == hourly.temperatures.count else {
            throw DecodingError.dataCorruptedError(
                forKey: .hourly, in: container, debugDescription: "the numbers of times and temperatures differ")
        }
        hours = try zip(hourly.time, hourly.temperatures).compactMap { text, celsius in
            guard let local = Self.date(text) else {
                throw DecodingError.dataCorruptedError(forKey: .hourly, in: container, debugDescription: "a time is not ISO 8601")
            }
            return celsius.map { Hour(time: local - TimeInterval(offset), localTime: text, celsius: $0) }
        }
    }

    /// Reads `2026-11-25T05:00` as a time in GMT.
    private static func date(_ text: String) -> Date? {
        guard let match = text.wholeMatch(of: /(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d)/), let year = Int(match.1),
            let month = Int(match.2), let day = Int(match.3), let hour = Int(match.4), let minute = Int(match.5)
        else { return nil }
        return Calendar.greenwich.date(from: DateComponents(year: year, month: month, day: day, hour: hour, minute: minute))
    }
}

extension Calendar {
    /// The Gregorian calendar in GMT.
    static var greenwich: Calendar {
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = .gmt
        return calendar
    }
}
