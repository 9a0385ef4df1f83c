import Foundation

/// Coordinates in degrees with four decimals, which is 11 metres: one forecast for each place.
struct Place: Hashable, Sendable {
    let latitude: Double
    let longitude: Double

    /// Returns `nil` for coordinates that are not on the globe.
    init?(latitude: Double, longitude: Double) {
        guard (-90...90).contains(latitude), (-180...180).contains(longitude) else { return nil }
        self.latitude = Self.rounded(latitude)
        self.longitude = Self.rounded(longitude)
    }

    /// The sum turns -0 into 0, so that both are the same text.
    private static func rounded(_ degrees: Double) -> Double { (degrees * 10_000).rounded() / 10_000 + 0 }
}
