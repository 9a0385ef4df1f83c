import Foundation

/// The unit in which a device shows temperatures.
enum TemperatureUnit: String, Sendable {
    case celsius, fahrenheit

    /// Accepts `celsius`, `C`, `fahrenheit` and `F` in any case.
    init?(_ text: String) {
        switch text.lowercased() {
        case "c", "celsius": self = .celsius
        case "f", "fahrenheit": self = .fahrenheit
        default: return nil
        }
    }

    /// Returns whole degrees, for example `-2 °C`.
    func text(celsius: Double) -> String {
        switch self {
        case .celsius: "\(Self.whole(celsius)) °C"
        case .fahrenheit: "\(Self.whole(celsius * 9 / 5 + 32)) °F"
        }
    }

    private static func whole(_ degrees: Double) -> Int { Int(degrees.rounded()) }
}
