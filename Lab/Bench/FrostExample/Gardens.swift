import APNSSimulator

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
