import APNSSimulator
import ArgumentParser
import Glibc
import Harness
import Platform

/// Runs the frost-alert server of Examples with gaplessd, Redis, a forecast service and a simulated APNs, and kills it often.
struct FrostExample: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "frost-example",
        abstract: "Runs the frost-alert server with 1,000 devices, and checks that each receives each of its alerts once.")

    @Option(help: "The path of the frost-alert server.")
    var server: String

    @Option(help: "The seed of the moments at which the server is killed. Default: a random one, which is printed.")
    var seed: UInt64?

    func run() throws {
        let seed = seed ?? .random(in: 1...999_999)
        say("frost-alert with gaplessd, Redis, a forecast service and a simulated APNs, on this machine. Seed \(seed).\n")
        let stage = try Stage(on: try RedisServer()) { folder in try HostedSimulator(folder: folder) }
        let gardens = Gardens()
        let forecasts = try ForecastService(gardens)
        let process = try FrostAlertProcess(server, stage, forecasts: forecasts.port)
        let daemon = try stage.start(try stage.write(["redis_results_key": "\"\(FrostAlertProcess.results)\""]))
        var run = Run(
            stage: stage, gardens: gardens, forecasts: forecasts, process: process, random: SeededGenerator(seed: seed))
        do {
            try run.register()
            try run.alert()
            let report = try run.report()
            guard process.stop()?.status == 0 else { throw LabError(description: "frost-alert did not exit with 0") }
            guard daemon.stop()?.status == 0 else { throw LabError(description: "gaplessd did not exit with 0") }
            try report.check()
        } catch {
            say("The end of the log of frost-alert:\n" + process.logTail)
            throw error
        }
        say("\nEach device received exactly one alert for each of its frosty places; nothing was lost.")
    }
}

extension FrostExample {
    /// The steps of one run.
    struct Run {
        /// Served forecasts at which the server is killed.
        private static let killsAt = [13, 25, 38]
        private static let timeout = Duration.seconds(120)

        let stage: Stage
        let gardens: Gardens
        let forecasts: ForecastService
        let process: FrostAlertProcess
        var random: SeededGenerator

        /// Registers every device with its places, some of them twice, and kills the server then.
        mutating func register() throws {
            for device in gardens.devices {
                let times = device.number % 10 == 0 ? 2 : 1
                for _ in 0..<times {
                    try process.post("/register", #"{"token": "\#(device.token)"}"#)
                    for place in device.places { try process.post("/add_location", place.body(token: device.token)) }
                }
            }
            try process.restart()
            let places = gardens.devices.map(\.places.count).reduce(0, +)
            let stored = try (process.count("device"), process.count("watch"))
            say("  registered     \(stored.0) devices with \(stored.1) places (50 distinct); kill -9 afterwards lost none")
            guard stored == (gardens.devices.count, places) else { throw LabError(description: "registrations were lost") }
        }

        /// Lets the forecasts begin, kills the server in the middle of them and of the pushes, and waits for the end.
        mutating func alert() throws {
            // APNs noticed now that some devices are gone. For others it was before they registered again.
            stage.simulator.behave { $0.devices = gardens.rules(now: Int64(time(nil)) * 1000) }
            for count in Self.killsAt {
                forecasts.serve(upTo: count)
                try reach("\(count) forecasts") { forecasts.served >= count }
                wait(.milliseconds(Int64.random(in: 0...300, using: &random)))
                try killed(after: "\(forecasts.served) of 50 forecasts")
            }
            forecasts.serve(upTo: .max)
            let simulator = stage.simulator
            let requests = { simulator.totals.requests }
            let some = Int.random(in: gardens.expected.count / 3...gardens.expected.count * 2 / 3, using: &random)
            try reach("\(some) pushes") { requests() >= some }
            try killed(after: "\(requests()) of \(gardens.expected.count) pushes")
            try reach("the end of the cycle") { try process.isIdle }
            let gone = gardens.devices.count { $0.state == .gone }
            try reach("the deletion of the devices that are gone") {
                try process.count("device") <= gardens.devices.count - gone
            }
        }

        private func killed(after event: String) throws {
            try process.restart()
            say("  kill -9        after \(event); frost-alert is started again")
        }

        private func reach(_ event: String, _ condition: () throws -> Bool) throws {
            guard try waitUntil(atMost: Self.timeout, every: .milliseconds(10), condition) else {
                throw LabError(description: "\(event): not within \(Self.timeout)")
            }
        }

        func report() throws -> FrostReport {
            FrostReport(
                gardens: gardens, entries: stage.simulator.ledger.entries,
                stored: Set(try process.values("SELECT token FROM device")), served: forecasts.servedByPlace,
                kills: Self.killsAt.count + 1, coldHour: forecasts.coldHour)
        }
    }
}

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
            requests[Gardens.Expected(token: device.token, place: place), default: []].contains(where: \.verdict.isAccepted)
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
