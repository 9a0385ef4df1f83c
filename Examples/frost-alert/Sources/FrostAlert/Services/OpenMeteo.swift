internal import Foundation
internal import FoundationNetworking

/// The forecast service (open-meteo.com).
struct OpenMeteo: Sendable {
    struct BadStatus: Error, CustomStringConvertible {
        var code: Int
        var description: String { "the forecast service responded with \(code)" }
    }

    /// Seconds without a byte of the response.
    private static let patience: TimeInterval = 10

    /// The most bytes of a response. Three days of temperatures have about 3,000.
    static let mostBytes = 1 << 20

    /// For example `https://api.open-meteo.com`.
    let base: String

    /// Requests the forecast of the next three days. The times are those of the place.
    func forecast(for place: Place) async throws -> Forecast {
        let query =
            "latitude=\(place.latitude)&longitude=\(place.longitude)&hourly=temperature_2m&forecast_days=3&timezone=auto"
        guard let url = URL(string: "\(base)/v1/forecast?\(query)") else { throw URLError(.badURL) }
        let request = URLRequest(url: url, timeoutInterval: Self.patience)
        let (body, response) = try await BoundedLoad.data(for: request, limit: Self.mostBytes)
        guard let status = (response as? HTTPURLResponse)?.statusCode else { throw URLError(.badServerResponse) }
        guard status == 200 else { throw BadStatus(code: status) }
        return try JSONDecoder().decode(Forecast.self, from: body)
    }
}
