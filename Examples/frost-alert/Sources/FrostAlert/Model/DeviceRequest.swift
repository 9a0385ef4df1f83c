import Foundation

/// The bodies of the three requests. Each is checked as a whole: a body with one invalid value changes nothing.
enum DeviceRequest {
    /// The fault of a body, as the response names it.
    struct Fault: Error, Equatable { var text: String }

    private struct Wire: Decodable {
        struct Location: Decodable {
            var latitude: Degrees
            var longitude: Degrees
            var name: String?
            var unit: String?
        }

        /// A number, or a string with one, as the app of the original sends it.
        struct Degrees: Decodable {
            let value: Double

            init(from decoder: any Decoder) throws {
                let container = try decoder.singleValueContainer()
                if let text = try? container.decode(String.self) {
                    // Digits as in JSON: neither a blank nor "nan" nor a hexadecimal number.
                    guard text.allSatisfy({ "0123456789.-+eE".contains($0) }), let number = Double(text) else {
                        throw DecodingError.dataCorruptedError(in: container, debugDescription: "no number")
                    }
                    value = number
                } else {
                    value = try container.decode(Double.self)
                }
            }
        }

        var token: String
        var location: Location?
    }

    /// `{"token": …}`
    static func registration(_ body: Data) throws(Fault) -> DeviceToken {
        try token(of: wire(body))
    }

    /// `{"token": …, "location": {"latitude": …, "longitude": …, "name": …, "unit": …}}`
    static func addition(_ body: Data) throws(Fault) -> (DeviceToken, Location) {
        let wire = try wire(body)
        let place = try place(of: wire)
        guard let name = wire.location?.name, !name.isEmpty, name.utf8.count <= Location.mostNameBytes,
            !name.unicodeScalars.contains(where: { $0.properties.generalCategory == .control })
        else {
            throw Fault(text: "location.name: expected 1 to \(Location.mostNameBytes) bytes without control characters")
        }
        guard let unit = wire.location?.unit.flatMap({ TemperatureUnit($0) }) else {
            throw Fault(text: "location.unit: expected celsius or fahrenheit")
        }
        return (try token(of: wire), Location(place: place, name: name, unit: unit))
    }

    /// As for an addition; the name and the unit of the location are ignored.
    static func removal(_ body: Data) throws(Fault) -> (DeviceToken, Place) {
        let wire = try wire(body)
        return (try token(of: wire), try place(of: wire))
    }

    private static func wire(_ body: Data) throws(Fault) -> Wire {
        do {
            return try JSONDecoder().decode(Wire.self, from: body)
        } catch {
            throw Fault(text: "expected a JSON object with the keys token and location")
        }
    }

    private static func token(of wire: Wire) throws(Fault) -> DeviceToken {
        guard let token = DeviceToken(wire.token) else {
            throw Fault(text: "token: expected \(DeviceToken.lengths.lowerBound) to \(DeviceToken.lengths.upperBound) hex digits")
        }
        return token
    }

    private static func place(of wire: Wire) throws(Fault) -> Place {
        guard let location = wire.location,
            let place = Place(latitude: location.latitude.value, longitude: location.longitude.value)
        else {
            throw Fault(text: "location: expected a latitude from -90 to 90 and a longitude from -180 to 180")
        }
        return place
    }
}
