import Harness
import JSONBytes
import Platform
import RedisQueue

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
        let output = stage.folder.file("h2load")
        let (warmUp, window) = DistanceBench.seconds
        let process = try ChildProcess(
            "h2load",
            ["-c", String(connections), "-m", "1000", "-D", String(window), "--warm-up-time", String(warmUp)]
                + stage.h2loadRequest(port: relay.port, bodyBytes: point.payload),
            standardOutput: .file(output))
        _ = process.wait()
        let text = File.read(output)
        guard let match = text.firstMatch(of: #/finished in [^,]+, ([0-9.]+) req\/s/#), let rate = Double(match.1) else {
            throw LabError(description: "h2load failed:\n" + text)
        }
        return rate
    }
}

/// A round trip and a payload.
struct DistancePoint: Equatable {
    /// Milliseconds.
    var roundTrip: Int
    /// Bytes of the payload.
    var payload: Int

    static let all = [20, 100, 300].flatMap { trip in [200, 1024, 4096].map { DistancePoint(roundTrip: trip, payload: $0) } }

    /// For `--point`.
    var name: String { "\(roundTrip)x\(payload)" }

    var delay: Duration { .milliseconds(roundTrip) / 2 }

    /// A relay to the port that delays both directions.
    func relay(to port: Int) throws -> FaultProxy {
        let relay = try FaultProxy(toPort: port, seed: 1)
        relay.behaviour.delay = delay
        return relay
    }

    /// The pushes per second that a session carries if a round trip takes its whole window, or all its streams.
    var mostPerSession: Double { min(65_535 / Double(payload), 1000) * 1000 / Double(roundTrip) }
}

/// One run of the daemon at a distance.
struct DistanceRun {
    let point: DistancePoint
    /// `nil` for `"pool_size": "auto"`.
    let sessions: Int?

    /// The time after which a fixed pool, or an automatic one, is measured, and the time of the measurement.
    private static let warmUp = (fixed: Duration.seconds(2), auto: Duration.seconds(5))
    private static let window = Duration.seconds(5)
    private static let leastWindow = Duration.seconds(1)
    private static let hiddenList = "backlog"
    private static let streams = 1000.0
    /// The most bytes of the backlog in Redis, and its most jobs.
    private static let most = (bytes: 400 << 20, jobs: 1_000_000)

    private struct Look {
        var time: Instant
        var sent: Int
        var cpu: Duration
    }

    func measure() throws -> DistanceResult {
        let stage = try Stage(simulator: ["--token-streams", "\(Int(DistanceRun.streams))"], ledger: false)
        let relay = try point.relay(to: stage.service.port)
        let size = sessions.map(String.init) ?? "\"auto\""
        let daemon = try stage.start(try stage.write(["apns_server": "\"localhost:\(relay.port)\"", "pool_size": size]))
        // Until the first acceptance, 20 jobs are in flight at most.
        try stage.push([BenchJob.text(0, bodyBytes: point.payload)])
        try stage.await("no first push:", atMost: .seconds(20), every: .milliseconds(20)) { try stage.sent() == 1 }
        // The whole backlog appears at once: a fast pool sends as fast as one client pushes.
        try stage.push((1...jobs).lazy.map { BenchJob.text($0, bodyBytes: point.payload) }, to: DistanceRun.hiddenList)
        try stage.command("RENAME", DistanceRun.hiddenList, Stage.list)
        let start = Instant.now
        let begin = start + warmUp
        let looks = try watch(stage, daemon, until: begin + DistanceRun.window)
        let status = try stage.status()
        guard daemon.stop()?.status == 0 else { throw stage.failure("gaplessd failed:") }
        let after = try stage.status()
        // The counters that the simulator prints at its end.
        let line = stage.service.stop()
        let totals = try JSONValue.parse(Array(line.utf8))
        guard let accepted = totals["accepted"]?.integerValue, let connections = totals["connections"]?.integerValue else {
            throw LabError(description: "the simulator printed no totals: \(line)")
        }
        return try result(
            looks, start, from: begin, status, twice: Int(accepted) - after.counter(.sent), connections: Int(connections))
    }

    private var warmUp: Duration { sessions == nil ? DistanceRun.warmUp.auto : DistanceRun.warmUp.fixed }

    /// Enough for the whole run, and no more than the memory of a small machine holds.
    private var jobs: Int {
        let seconds = (warmUp + DistanceRun.window) / .seconds(1) + 2
        // The daemon claims up to two jobs for each stream ahead.
        let wanted = (point.mostPerSession * seconds + 2 * DistanceRun.streams) * Double(sessions ?? 32)
        return min(Int(wanted), DistanceRun.most.bytes / point.payload, DistanceRun.most.jobs)
    }

    /// Looks until the window or the backlog ends.
    private func watch(_ stage: Stage, _ daemon: DaemonProcess, until end: Instant) throws -> [Look] {
        var looks: [Look] = []
        _ = try waitUntil(atMost: .seconds(60), every: .milliseconds(200)) {
            looks.append(Look(time: .now, sent: try stage.sent(), cpu: daemon.preciseProcessorTime))
            return try .now >= end || stage.status().backlog == 0
        }
        return looks
    }

    private func result(
        _ looks: [Look], _ start: Instant, from begin: Instant, _ status: QueueStatus, twice: Int, connections: Int
    ) throws -> DistanceResult {
        guard let last = looks.last, let first = looks.first(where: { $0.time >= begin }),
            last.time - first.time >= DistanceRun.leastWindow
        else { throw LabError(description: "\(point.name), pool \(sessions ?? 0): the list was empty too early") }
        let (seconds, pushes) = ((last.time - first.time) / .seconds(1), last.sent - first.sent)
        let rates = zip(looks, looks.dropFirst(5)).map {
            (at: $0.time - start, rate: Double($1.sent - $0.sent) / (($1.time - $0.time) / .seconds(1)))
        }
        return DistanceResult(
            sessions: sessions, rate: Double(pushes) / seconds,
            cpu: (last.cpu - first.cpu) / .microseconds(1) / Double(max(1, pushes)), connections: connections,
            retried: status.counter(.retried), doubted: status.counter(.maybeDuplicate), twice: twice, rates: rates)
    }
}

/// The figures of one run at a distance.
struct DistanceResult {
    /// `nil` for `"pool_size": "auto"`.
    var sessions: Int?
    /// Pushes per second.
    var rate: Double
    /// Microseconds of processor time per push.
    var cpu: Double
    /// Connections that the server saw.
    var connections: Int
    var retried: Int
    /// Pushes counted as `maybe_duplicate`.
    var doubted: Int
    /// Pushes that the server accepted twice.
    var twice: Int
    /// Rates over about a second, with the time since the backlog appeared.
    var rates: [(at: Duration, rate: Double)]

    var name: String { sessions.map(String.init) ?? "auto" }

    /// The time after which this rate was first reached.
    func reached(_ wanted: Double) -> Duration? { rates.first { $0.rate >= wanted }?.at }

    static let header =
        padRight("round trip", 12) + padRight("payload", 9) + padRight("pool_size", 11) + padRight("jobs/s", 9)
        + padRight("h2load/s", 10) + padRight("of h2load", 11) + padRight("of best", 9) + padRight("CPU us", 8)
        + padRight("connections", 13) + padRight("retries", 9) + padRight("twice", 7) + "90 % after"

    /// - Parameters:
    ///   - reference: requests per second of h2load with as many connections.
    ///   - best: the rate of the best fixed pool.
    func line(_ point: DistancePoint, reference: Double?, best: Double) -> String {
        let after = sessions == nil ? reached(0.9 * best).map { decimal($0 / .seconds(1), 1) + " s" } ?? "never" : ""
        return padRight("\(point.roundTrip) ms", 12) + padRight("\(point.payload) B", 9) + padRight(name, 11)
            + padRight(decimal(rate, 0), 9) + padRight(reference.map { decimal($0, 0) } ?? "", 10)
            + padRight(reference.map { decimal(100 * rate / max(1, $0), 0) + " %" } ?? "", 11)
            + padRight(decimal(100 * rate / best, 0) + " %", 9) + padRight(decimal(cpu, 2), 8)
            + padRight("\(connections)", 13) + padRight("\(retried)", 9) + padRight("\(twice)", 7) + after
    }

    func json(_ point: DistancePoint, reference: Double?, best: Double) -> JSON {
        var members: [(String, JSON)] = [
            ("round_trip_ms", .integer(point.roundTrip)), ("payload_bytes", .integer(point.payload)), ("pool_size", .text(name)),
            ("jobs_per_second", .number(rate, digits: 1)), ("share_of_best", .number(rate / best, digits: 3)),
            ("cpu_us_per_push", .number(cpu, digits: 3)), ("connections", .integer(connections)),
            ("retries", .integer(retried)), ("maybe_duplicate", .integer(doubted)), ("delivered_twice", .integer(twice)),
        ]
        if let reference { members.append(("h2load_per_second", .number(reference, digits: 1))) }
        if sessions == nil, let after = reached(0.9 * best) {
            members.append(("seconds_to_90_percent_of_best", .number(after / .seconds(1), digits: 1)))
        }
        return .object(members)
    }
}
