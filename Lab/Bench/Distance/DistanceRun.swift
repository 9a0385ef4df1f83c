import Harness
import Platform
import RedisQueue

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
        guard try waitUntil(atMost: .seconds(20), every: .milliseconds(20), { try stage.sent() == 1 }) else {
            throw LabError(description: "no first push:\n" + stage.standardErrors.suffix(3000))
        }
        // The whole backlog appears at once: a fast pool sends as fast as one client pushes.
        try stage.push((1...jobs).lazy.map { BenchJob.text($0, bodyBytes: point.payload) }, to: DistanceRun.hiddenList)
        try stage.command("RENAME", DistanceRun.hiddenList, Stage.list)
        let start = Instant.now
        let begin = start + warmUp
        let looks = try watch(stage, daemon, until: begin + DistanceRun.window)
        let status = try stage.status()
        guard daemon.stop()?.status == 0 else {
            throw LabError(description: "gaplessd failed:\n" + stage.standardErrors.suffix(3000))
        }
        let after = try stage.status()
        let totals = try JSONTotals(stage.service.stop())
        return try result(
            looks, start, from: begin, status, twice: totals.accepted - after.counter(.sent), connections: totals.connections)
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
