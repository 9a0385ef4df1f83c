import ArgumentParser
import Glibc
import Harness
import JSONBytes
import Platform
import PushPool

/// Measures the session pool alone, as h2load does for nghttp2: one notification repeatedly, without Redis and JSON.
struct PushLoad: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "push-load", abstract: "Pushes one notification repeatedly: a part of bench.",
        shouldDisplay: false)

    @Option var port: Int
    @Option(help: "The credentials directory of the simulator.") var credentials: String
    @Option var count = 200_000
    @Option var sessions = 2
    @Option var streams = 500

    func run() throws {
        let key = File.read(credentials + "/AuthKey_SIMKEY0001.p8")
        let settings = PoolSettings(
            host: "localhost", port: port, extraRootsPath: credentials + "/ca.pem", sessions: sessions,
            maxConcurrentStreams: streams)
        let deliveries = Mailbox<Delivery>()
        let pool = try SessionPool(
            settings: settings,
            credential: .signingKey(p8PEM: Array(key.utf8), keyID: "SIMKEY0001", teamID: "SIMTEAM001"),
            deliveries: deliveries, events: Mailbox<PoolEvent>())
        defer { _ = pool.close() }
        try drive(pool, deliveries)
    }

    /// Keeps twice as many notifications in flight as there are streams.
    private func drive(_ pool: SessionPool, _ deliveries: Mailbox<Delivery>) throws {
        let token = BenchJob.fixedToken
        let bytes = Array((token + BenchJob.payload(200)).utf8)
        let headers = SharedHeaders(topic: "com.example.app", pushType: "alert", priority: 10)
        var (pushed, settled) = (0, 0)
        var batch: [PushPool.Notification] = []
        var outcomes: [Delivery] = []
        var poller = Poller()
        while settled < count {
            while pushed < count && pushed - settled < 2 * sessions * streams {
                batch.append(
                    Notification(
                        id: UInt64(pushed), bytes: bytes, token: 0..<token.utf8.count,
                        payload: token.utf8.count..<bytes.count, headers: headers, expiration: 2_000_000_000))
                pushed += 1
            }
            pool.push(&batch)
            poller.reset()
            poller.add(deliveries.wakeDescriptor, for: .read)
            poller.wait(until: .now + .seconds(20))
            deliveries.drain(into: &outcomes)
            guard !outcomes.isEmpty else { throw LabError(description: "no outcome for 20 s") }
            for delivery in outcomes {
                guard case .delivered = delivery.outcome else { throw LabError(description: "\(delivery.outcome)") }
            }
            settled += outcomes.count
            outcomes.removeAll(keepingCapacity: true)
        }
    }
}

/// Measures the validation of jobs against the complete JSON grammar, on one processor.
struct ScannerBench {
    var rounds = 200
    var runs = 5

    /// Prints a line, and returns its figures.
    func measure() throws -> JSON {
        // One job in ten has escapes and non-ASCII characters.
        let jobs = (0..<5000).map { number in
            let text = number % 10 == 0 ? #"Gr\u00fc\u00dfe, \"世界\" 😀 "# : "Hello, "
            return Array(BenchJob.text(number).replacing("\"title\":\"Bench\"", with: "\"title\":\"\(text)\(number)\"").utf8)
        }
        let bytes = jobs.reduce(0) { $0 + $1.count } * rounds
        var speeds = Figures()
        for _ in 0..<runs {
            let start = Instant.now
            for _ in 0..<rounds {
                for job in jobs {
                    var cursor = JSONCursor()
                    _ = try cursor.value(in: job.span)
                    try cursor.finish(in: job.span)
                }
            }
            speeds.values.append(Double(bytes) / ((.now - start) / .seconds(1)) / 1e9)
        }
        let mean = Double(bytes) / Double(rounds * jobs.count)
        say(
            "scanner, complete grammar, jobs of \(decimal(mean, 0)) bytes: \(speeds.text(2)) GB/s, "
                + "\(decimal(mean / speeds.median, 0)) ns per job")
        return .object([("bytes_per_job", .number(mean, digits: 0)), ("gigabytes_per_second", speeds.json)])
    }
}
