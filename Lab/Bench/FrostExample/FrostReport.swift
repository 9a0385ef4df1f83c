import APNSSimulator

/// The alerts that the devices of the frost example received, and the devices that the server has stored at the end.
struct FrostReport {
    private let gardens: Gardens
    /// The requests to APNs by device and place.
    private var requests: [Gardens.Expected: [LedgerEntry]] = [:]
    private var problems: [String] = []
    private let stored: Set<String>

    /// - Parameters:
    ///   - entries: the requests to APNs.
    ///   - stored: the tokens in the database.
    ///   - served: forecasts by place.
    ///   - kills: the number of kills after the start of the cycle. Each may repeat the forecasts that were in flight.
    ///   - coldHour: Unix seconds.
    init(gardens: Gardens, entries: [LedgerEntry], stored: Set<String>, served: [String: Int], kills: Int, coldHour: Int) {
        (self.gardens, self.stored) = (gardens, stored)
        let places = Dictionary(
            uniqueKeysWithValues: Set(gardens.devices.flatMap(\.places)).map { (Self.collapseID($0), $0) })
        for entry in entries {
            guard let place = entry.collapseID.flatMap({ places[$0] }) else {
                problems.append("a push with another collapse id: \(entry.collapseID ?? "none")")
                continue
            }
            requests[Gardens.Expected(token: entry.token, place: place), default: []].append(entry)
            let text = String(decoding: entry.body ?? [], as: UTF8.self)
            if !text.contains("\"subtitle\":\"Frost Alert for \(place.name)\"") { problems.append("another text: \(text)") }
            if entry.expiration != "\(coldHour)" { problems.append("another expiration: \(entry.expiration ?? "none")") }
        }
        checkForecasts(served, kills: kills)
        checkDevices()
        say("")
        printDevices()
    }

    private static func collapseID(_ place: Gardens.Place) -> String { "frost \(Double(place.latitude) ?? 0),8.5" }

    /// Throws if anything was lost, doubled or kept.
    func check() throws {
        guard problems.isEmpty else {
            throw LabError(description: "\(problems.count) faults:\n  " + problems.prefix(10).joined(separator: "\n  "))
        }
    }

    private mutating func checkForecasts(_ served: [String: Int], kills: Int) {
        let total = served.values.reduce(0, +)
        say("  forecasts      \(total) responses for \(served.count) places")
        // Four requests are in flight at a time.
        if served.count != Gardens.placeCount || total > Gardens.placeCount + 4 * kills {
            problems.append("\(total) forecasts for \(served.count) places")
        }
    }

    private mutating func checkDevices() {
        var faults: [String] = []
        for device in gardens.devices {
            for place in device.places {
                let count = requests[Gardens.Expected(token: device.token, place: place), default: []].count
                // A device is deleted with the first 410: its other alerts may be gone with it.
                let isRight = device.state == .gone && place.isFrosty ? count <= 1 : count == (place.isFrosty ? 1 : 0)
                if !isRight { faults.append("device \(device.number), \(place.name): \(count) pushes") }
            }
            if stored.contains(device.token) != (device.state != .gone) {
                faults.append("device \(device.number) (\(device.state)) is \(stored.contains(device.token) ? "" : "not ")stored")
            }
        }
        let unexpected = Set(requests.keys).subtracting(gardens.expected)
        if !unexpected.isEmpty { faults.append("\(unexpected.count) pushes to another device or place") }
        problems += faults
    }

    private func received(by device: Gardens.Device) -> [String] {
        device.places.filter { place in
            requests[Gardens.Expected(token: device.token, place: place), default: []].contains { entry in
                if case .accepted = entry.verdict { true } else { false }
            }
        }.map(\.name)
    }

    private func printDevices() {
        say("The devices received:\n")
        for (state, name) in [
            (Gardens.Device.State.present, "present"), (.returned, "gone and registered again"), (.gone, "gone"),
        ] {
            let devices = gardens.devices.filter { $0.state == state }
            let counts = Dictionary(devices.map { (received(by: $0).count, 1) }, uniquingKeysWith: +)
            let kept = devices.count { stored.contains($0.token) }
            for (count, number) in counts.sorted(by: { $0.key < $1.key }) {
                say("  \(pad(number)) devices (\(name)): \(count) alert\(count == 1 ? "" : "s")")
            }
            say("  \(pad(kept)) of \(devices.count) are still registered\n")
        }
        for device in gardens.devices.prefix(3) {
            let names = received(by: device).map { "Frost Alert for \($0)" }
            say("  device \(device.number): \(names.isEmpty ? "nothing" : names.joined(separator: ", "))")
        }
    }
}
