import ArgumentParser
import Glibc
import Harness
import RedisQueue

/// CPU per push and pushes per second of the whole daemon, with h2load's bare requests beside it in the same run.
struct Bench: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Processor time per push, pushes per second and memory; h2load is the yardstick.",
        discussion: """
            The load runs on one processor, Redis and the simulator on the other. h2load sends the same request to the same \
            server, without a queue: its processor time per request is the yardstick, and the ratio to it is what may be \
            compared between machines. Runs of all rows alternate; medians of --runs, with minimum and maximum.
            """)

    @Option(help: "Jobs of one run.")
    var jobs = 200_000

    @Option(help: "Runs of each row.")
    var runs = 5

    @Flag(help: "Also drain a backlog of a million jobs, for its memory.")
    var million = false

    func run() throws {
        say("gaplessd bench: \(machine())")
        say("\(jobs) pushes a run, 2 sessions x 500 streams, 200-byte body, provider token; medians of \(runs) (min - max)\n")
        var yardstick = Row("h2load, bare requests")
        var atLeastOnce = Row("gaplessd, at least once")
        var atMostOnce = Row("gaplessd, at most once")
        var logging = Row("gaplessd, log_successes")
        for _ in 0..<runs {
            try measureH2load(&yardstick)
            try measureDaemon(&atLeastOnce, [:])
            try measureDaemon(&atMostOnce, ["redis_delivery": "\"at_most_once\""])
            try measureDaemon(&logging, ["log_successes": "true"])
        }
        say(padRight("", 26) + padRight("CPU us/push", 26) + padRight("pushes/s", 32) + padRight("Redis us", 10) + "peak MB")
        for row in [yardstick, atLeastOnce, atMostOnce, logging] { say(row.description) }
        let ratio = atLeastOnce.cpu.median / yardstick.cpu.median
        say("\nwhole path / bare request: \(decimal(ratio, 2)) x h2load's processor time, everything included (Redis, JSON, delivery)")
        if million { try measureMillion() }
    }

    private func measureH2load(_ row: inout Row) throws {
        let stage = try Stage(simulator: ["--token-streams", "1000"], ledger: false, pinned: 1)
        let token = try providerToken(stage)
        let body = stage.folder.file("body")
        try File.write(payload, to: body)
        let process = try ChildProcess(
            "taskset",
            [
                "-c", "0", "h2load", "-n", String(jobs), "-c", "2", "-m", "500", "-d", body, "-H", "apns-topic: com.example.app",
                "-H", "apns-push-type: alert", "-H", "apns-priority: 10", "-H", "apns-expiration: 2000000000", "-H",
                "authorization: bearer \(token)", "https://127.0.0.1:\(stage.simulator.port)/3/device/\(deviceToken(1))",
            ], standardOutput: .file(stage.folder.file("h2load")))
        let start = ContinuousClock.now
        var peak = 0
        _ = waitUntil(atMost: .seconds(120), every: .milliseconds(10)) {
            peak = max(peak, peakMemory(process.pid))
            return process.poll() != nil
        }
        let exit = process.wait()
        let seconds = (ContinuousClock.now - start) / .seconds(1)
        guard File.read(stage.folder.file("h2load")).contains(" \(jobs) succeeded") else {
            throw LabFailure(description: "h2load failed:\n" + File.read(stage.folder.file("h2load")))
        }
        row.add(cpu: exit.processorTime, seconds: seconds, redis: .zero, peak: peak, pushes: jobs)
    }

    private func measureDaemon(_ row: inout Row, _ changes: [String: String?]) throws {
        let stage = try Stage(simulator: ["--token-streams", "1000"], ledger: false, pinned: 1)
        try stage.push((0..<jobs).lazy.map(job))
        let settings = try stage.settings(changes.merging(["apns_max_concurrent_streams": "500"]) { ours, _ in ours })
        let redisBefore = processorTime(stage.redis.process.pid)
        let start = ContinuousClock.now
        let daemon = try stage.start(settings, pinned: 0)
        let isDone = try waitUntil(atMost: .seconds(120), every: .milliseconds(10)) { try stage.sent() >= jobs }
        let seconds = (ContinuousClock.now - start) / .seconds(1)
        let redis = processorTime(stage.redis.process.pid) - redisBefore
        let peak = daemon.peakBytes
        guard isDone, let exit = daemon.stop(), exit.status == 0 else {
            throw LabFailure(description: "gaplessd did not send all:\n" + daemon.standardError)
        }
        row.add(cpu: exit.processorTime, seconds: seconds, redis: redis, peak: peak, pushes: jobs)
    }

    /// Resident memory of the daemon while a million jobs wait: the queue is Redis, not the daemon.
    private func measureMillion() throws {
        let stage = try Stage(simulator: ["--token-streams", "1000"], ledger: false, pinned: 1)
        try stage.push((0..<1_000_000).lazy.map(job))
        let daemon = try stage.start(try stage.settings(), pinned: 0)
        var memory: [Int] = []
        let isDone = try waitUntil(atMost: .seconds(180), every: .milliseconds(20)) {
            memory.append(daemon.residentBytes)
            return try stage.sent() >= 1_000_000
        }
        let settled = memory.dropFirst(memory.count / 5)
        let peak = daemon.peakBytes
        guard isDone, let low = settled.min(), let high = settled.max(), daemon.stop()?.status == 0 else {
            throw LabFailure(description: "the backlog of a million did not drain:\n" + daemon.standardError)
        }
        say("backlog of 1,000,000: resident \(megabytes(low)) - \(megabytes(high)) MB while it drains, peak \(megabytes(peak)) MB")
    }

    /// 200 bytes.
    private var payload: String {
        let start = #"{"aps":{"alert":{"title":"Bench","body":""#
        let end = #""},"sound":"default"}}"#
        return start + String(repeating: "x", count: 200 - start.utf8.count - end.utf8.count) + end
    }

    private func job(_ number: Int) -> String {
        #"{"token":"\#(deviceToken(number))","identifier":\#(number),"data":\#(payload)}"#
    }

    private func providerToken(_ stage: Stage) throws -> String {
        let output = stage.folder.file("token")
        let process = try ChildProcess(
            BuiltProducts.path("apns-simulator"), ["provider-token", stage.folder.file("credentials")],
            standardOutput: .file(output), standardError: .inherited)
        guard process.wait().status == 0 else { throw LabFailure(description: "no provider token") }
        return File.read(output).split(separator: "\n").first.map(String.init) ?? ""
    }

    private func machine() -> String {
        let model = File.read("/proc/cpuinfo").split(separator: "\n").first { $0.hasPrefix("model name") }
        let name = model.flatMap { $0.split(separator: ":").last }.map { $0.drop { $0 == " " } } ?? "unknown processor"
        let kernel = File.read("/proc/sys/kernel/osrelease").split(separator: "\n").first ?? ""
        return "\(sysconf(CInt(_SC_NPROCESSORS_ONLN))) x \(name), Linux \(kernel)"
    }
}

/// The runs of one row of the table.
struct Row: CustomStringConvertible {
    let name: String
    private(set) var cpu = Figures()
    private var rate = Figures()
    private var redis = Figures()
    private var peak = 0

    init(_ name: String) { self.name = name }

    mutating func add(cpu time: Duration, seconds: Double, redis redisTime: Duration, peak bytes: Int, pushes: Int) {
        cpu.values.append(time / .microseconds(1) / Double(pushes))
        redis.values.append(redisTime / .microseconds(1) / Double(pushes))
        rate.values.append(Double(pushes) / seconds)
        peak = max(peak, bytes)
    }

    var description: String {
        padRight(name, 26) + padRight(cpu.text(2), 26) + padRight(rate.text(0), 32) + padRight(decimal(redis.median, 2), 10)
            + megabytes(peak)
    }
}

/// Values of the same thing, measured several times.
struct Figures {
    var values: [Double] = []

    var median: Double {
        let sorted = values.sorted()
        return sorted.isEmpty ? 0 : sorted[sorted.count / 2]
    }

    func text(_ digits: Int) -> String {
        "\(decimal(median, digits)) (\(decimal(values.min() ?? 0, digits)) - \(decimal(values.max() ?? 0, digits)))"
    }
}

/// With so many digits behind the point.
func decimal(_ value: Double, _ digits: Int) -> String {
    var scale = 1.0
    for _ in 0..<digits { scale *= 10 }
    let scaled = Int((value * scale).rounded())
    if digits == 0 { return String(scaled) }
    let fraction = String(scaled % Int(scale))
    return "\(scaled / Int(scale))." + String(repeating: "0", count: digits - fraction.count) + fraction
}

func megabytes(_ bytes: Int) -> String { decimal(Double(bytes) / 1_048_576, 1) }
