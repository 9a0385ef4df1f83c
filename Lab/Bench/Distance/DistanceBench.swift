import Harness

/// Measures fixed and automatic pools through a relay that delays, next to h2load with as many connections through the same
/// relay. No process is pinned, because the relay needs time as well.
struct DistanceBench {
    /// The fixed sizes, and those that h2load repeats.
    private static let sizes = (pools: [2, 8, 32], h2load: [2, 8])
    private static let seconds = (warmUp: 2, window: 5)

    var points = DistancePoint.all

    /// Prints a table, and returns its figures.
    func measure() throws -> JSON {
        say(DistanceResult.header)
        var rows: [JSON] = []
        for point in points {
            var references: [Int: Double] = [:]
            for size in DistanceBench.sizes.h2load { references[size] = try h2load(point, connections: size) }
            let results = try DistanceBench.sizes.pools.map { try DistanceRun(point: point, sessions: $0).measure() }
            let best = results.map(\.rate).max() ?? 1
            for result in results + [try DistanceRun(point: point, sessions: nil).measure()] {
                let reference = result.sessions.flatMap { references[$0] }
                say(result.line(point, reference: reference, best: best))
                rows.append(result.json(point, reference: reference, best: best))
            }
        }
        return .array(rows)
    }

    /// Returns requests per second of nghttp2's load generator.
    private func h2load(_ point: DistancePoint, connections: Int) throws -> Double {
        let stage = try Stage(simulator: ["--token-streams", "1000"], ledger: false)
        let relay = try point.relay(to: stage.service.port)
        let (body, output) = (stage.folder.file("body"), stage.folder.file("h2load"))
        try File.write(BenchJob.payload(point.payload), to: body)
        let headers = [
            "apns-topic: com.example.app", "apns-push-type: alert", "apns-priority: 10", "apns-expiration: 2000000000",
            "authorization: bearer \(try stage.providerToken())",
        ]
        let (warmUp, window) = DistanceBench.seconds
        let process = try ChildProcess(
            "h2load",
            ["-c", String(connections), "-m", "1000", "-D", String(window), "--warm-up-time", String(warmUp), "-d", body]
                + headers.flatMap { ["-H", $0] } + ["https://127.0.0.1:\(relay.port)/3/device/\(BenchJob.fixedToken)"],
            standardOutput: .file(output))
        _ = process.wait()
        let text = File.read(output)
        guard let match = text.firstMatch(of: #/finished in [^,]+, ([0-9.]+) req\/s/#), let rate = Double(match.1) else {
            throw LabError(description: "h2load failed:\n" + text)
        }
        return rate
    }
}
