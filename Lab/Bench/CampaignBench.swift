import Glibc
import Harness
import Platform
import RedisQueue

/// Measures campaigns beside single jobs and jobs for 250 devices: rate, processor time per push, memory of Redis and of the
/// daemon. Then the pace of `over`, also over a kill, the pushes after each call that stops a campaign, and the latency of an
/// urgent list beside one.
struct CampaignBench {
    /// With other payloads, more daemons or late responses, only the loads are measured.
    static let usualBytes = 200

    var tokens = 1_000_000
    var daemons = 1
    var bodyBytes = CampaignBench.usualBytes
    /// The latency of responses in milliseconds.
    var latency = 0

    private enum Load: String, CaseIterable {
        case campaign, jobs
        case tokens250 = "tokens of 250"
    }

    /// Prints a table, and returns its figures.
    func measure() throws -> JSON {
        say(
            "\(tokens) pushes, \(bodyBytes)-byte body, \(daemons) daemon(s), pool_size auto, responses after \(latency) ms. "
                + "Redis: the most bytes beyond the empty server, and those of the load before the start")
        say(
            padRight("", 16) + padLeft("seconds", 9) + padLeft("pushes/s", 10) + padLeft("daemon us/push", 16)
                + padLeft("Redis us/push", 15) + padLeft("daemon MB", 11) + padLeft("Redis before", 14) + padLeft("most", 10)
                + padLeft("bytes/token", 13))
        var records: [JSON] = []
        for load in Load.allCases { records.append(try run(load)) }
        // The rest is measured once.
        if daemons > 1 || latency > 0 || bodyBytes != Self.usualBytes { return .array(records) }
        say("")
        for daemons in [1, 4] { for kills in [false, true] { records.append(try pace(daemons, kills: kills)) } }
        records.append(try stops())
        records.append(try urgentList())
        return .array(records)
    }

    private func stage() throws -> Stage {
        try Stage(
            simulator: ["--token-streams", "1000"] + (latency > 0 ? ["--latency", "\(latency)ms"] : []), ledger: false, pinned: 1)
    }

    private func start(_ count: Int, _ stage: Stage, rate: Int? = nil) throws -> [DaemonProcess] {
        let settings = try stage.write(["pool_size": "\"auto\"", "max_rate": rate.map(String.init)])
        return try (0..<count).map { try stage.start(settings, name: "daemon\($0)", pinned: 0) }
    }

    private func handOver(_ count: Int, _ stage: Stage) throws {
        try stage.push((0..<count).lazy.map(deviceToken), to: "audience")
    }

    private func job(_ members: String = "") -> String {
        #"{"tokens_from":"audience","campaign":"sale"\#(members),"data":\#(BenchJob.payload(bodyBytes))}"#
    }

    private func run(_ load: Load) throws -> JSON {
        let stage = try stage()
        let empty = try usedMemory(stage)
        switch load {
        case .campaign:
            try handOver(tokens, stage)
            try stage.push(job())
        case .jobs: try stage.push((0..<tokens).lazy.map { BenchJob.text($0, bodyBytes: bodyBytes) })
        case .tokens250:
            try stage.push(
                (0..<tokens / 250).lazy.map { number in
                    let list = (0..<250).map { #""\#(deviceToken(number * 250 + $0))""# }.joined(separator: ",")
                    return #"{"tokens":[\#(list)],"data":\#(BenchJob.payload(bodyBytes))}"#
                })
        }
        let before = try usedMemory(stage) - empty
        let redis = preciseProcessorTime(of: stage.redis.process.pid)
        let begin = Instant.now
        let fleet = try start(daemons, stage)
        var most = before
        let isDone = try waitUntil(atMost: .seconds(3600), every: .milliseconds(100)) {
            most = max(most, try usedMemory(stage) - empty)
            return try stage.sent() >= tokens
        }
        let seconds = (Instant.now - begin) / .seconds(1)
        let cpu = fleet.reduce(Duration.zero) { $0 + $1.preciseProcessorTime }
        let redisTime = preciseProcessorTime(of: stage.redis.process.pid) - redis
        let peak = fleet.map(\.peakBytes).max() ?? 0
        guard isDone, fleet.allSatisfy({ $0.stop()?.status == 0 }) else {
            throw stage.failure("\(load.rawValue) did not end:")
        }
        let each = { (time: Duration) in time / .microseconds(1) / Double(tokens) }
        let perToken = Double(most) / Double(tokens)
        say(
            padRight(load.rawValue, 16) + padLeft(decimal(seconds, 1), 9) + padLeft(decimal(Double(tokens) / seconds, 0), 10)
                + padLeft(decimal(each(cpu), 2), 16) + padLeft(decimal(each(redisTime), 2), 15) + padLeft(megabytes(peak), 11)
                + padLeft(megabytes(before), 14) + padLeft(megabytes(most), 10) + padLeft(decimal(perToken, 1), 13))
        return .object([
            ("load", .text(load.rawValue)), ("tokens", .integer(tokens)), ("seconds", .number(seconds, digits: 1)),
            ("daemon_us_per_push", .number(each(cpu), digits: 2)), ("redis_us_per_push", .number(each(redisTime), digits: 2)),
            ("daemon_peak_bytes", .integer(peak)), ("redis_bytes_before", .integer(before)),
            ("redis_bytes_most", .integer(most)),
        ])
    }

    /// A campaign of 60 s at 1,000 pushes per second: the distance from the line in each window of 10 s.
    ///
    /// - Parameter kills: whether SIGKILL ends a daemon in the middle of the second window, and another one starts.
    private func pace(_ daemons: Int, kills: Bool) throws -> JSON {
        let (seconds, rate) = (60, 1000)
        let stage = try stage()
        var fleet = try start(daemons, stage)
        try handOver(seconds * rate, stage)
        try stage.push(job(#","over":\#(seconds)"#))
        try awaitSent(100, stage)
        var worst = 0.0
        var last = (sent: try stage.sent(), at: Instant.now)
        for window in 1..<seconds / 10 {
            let end = last.at + .seconds(10)
            if kills && window == 2 {
                _ = waitUntil(atMost: .seconds(20), every: .milliseconds(1)) { .now >= end - .seconds(5) }
                fleet[0].process.kill(SIGKILL)
                fleet[0] = try stage.start(stage.folder.file("settings.json"), name: "next", pinned: 0)
            }
            _ = waitUntil(atMost: .seconds(20), every: .milliseconds(1)) { .now >= end }
            let now = (sent: try stage.sent(), at: Instant.now)
            let expected = Double(rate) * ((now.at - last.at) / .seconds(1))
            worst = max(worst, abs(Double(now.sent - last.sent) - expected) / expected)
            last = now
        }
        for daemon in fleet { daemon.process.kill(SIGKILL) }
        say(
            "over \(seconds) s, \(rate)/s, \(daemons) daemon(s)\(kills ? ", one killed" : ""): "
                + "at most \(decimal(worst * 100, 2)) % beside the line in 10 s")
        return .object([
            ("over_daemons", .integer(daemons)), ("kills", .integer(kills ? 1 : 0)),
            ("worst_percent", .number(worst * 100, digits: 2)),
        ])
    }

    /// Stops a campaign by each call in its middle. A rate limit makes it last longer than the calls.
    private func stops() throws -> JSON {
        let stage = try stage()
        let fleet = try start(daemons, stage, rate: tokens / 60)
        defer { for daemon in fleet { daemon.process.kill(SIGKILL) } }
        try handOver(tokens, stage)
        try stage.push(job())
        var records: [(String, JSON)] = []
        let calls = [["pause"], ["resume"], ["cancel", "--yes"], ["cancel", "--undo", "--limit", "\(tokens / 2)", "--yes"]]
        for (number, words) in calls.enumerated() {
            try awaitSent(tokens / 20 * (number + 1), stage, orFor: .seconds(10))
            let (sent, begin) = (try stage.sent(), Instant.now)
            guard sent < tokens / 2 else { throw LabError(description: "the audience is over before \(words[0])") }
            let output = try call(words + ["--campaign", "sale"], stage)
            let (after, seconds) = (try stage.sent(), (Instant.now - begin) / .seconds(1))
            wait(.seconds(3))
            let rest = try stage.sent() - after
            let name = words.joined(separator: " ")
            say(
                padRight(name, 34) + "\(decimal(seconds, 2)) s, \(after - sent) pushes during the call, \(rest) in 3 s after it: "
                    + output.split(separator: "\n").joined(separator: ", "))
            records.append((name, .array([.number(seconds, digits: 2), .integer(after - sent), .integer(rest)])))
        }
        return .object(records)
    }

    /// The latency of single jobs on an idle list, and while a campaign of a list of lower priority sends 1,000 pushes a second.
    private func urgentList() throws -> JSON {
        let (count, seconds) = (500, 30)
        let latency = try LatencyStage(["redis_queue_key": #"["\#(Stage.list)","bulk"]"#])
        var rows: [(String, JSON)] = []
        for isAlone in [true, false] {
            if !isAlone {
                try handOver(1000 * seconds, latency.stage)
                try latency.stage.push(job(#","over":\#(seconds)"#), to: "bulk")
                _ = try latency.arrival(of: deviceToken(5000))
            }
            var times = Figures()
            for number in 0..<count {
                wait(.milliseconds(Int.random(in: 3...13)))
                times.values.append(try latency.latency(of: 100_000 * (isAlone ? 1 : 2) + number))
            }
            let name = isAlone ? "urgent list alone" : "urgent list beside a campaign"
            let (half, most) = (times.percentile(50), times.percentile(99))
            say("\(name), RPUSH to request at the server: p50 \(decimal(half, 0)), p99 \(decimal(most, 0)) us")
            rows.append((name, .array([.number(half, digits: 0), .number(most, digits: 0)])))
        }
        return .object(rows)
    }

    private func call(_ words: [String], _ stage: Stage) throws -> String {
        let output = stage.folder.file("call.out")
        _ = unsafe unlink(output)
        let process = try stage.startCall(words, output: "call.out")
        guard process.wait(atMost: .seconds(60))?.status == 0 else {
            throw LabError(description: "\(words) failed:\n" + File.read(output))
        }
        return File.read(output)
    }

    private func awaitSent(_ count: Int, _ stage: Stage, orFor limit: Duration = .seconds(60)) throws {
        _ = try waitUntil(atMost: limit, every: .milliseconds(5)) { try stage.sent() >= count }
    }
}
