import Glibc
import Harness
import Platform
import RedisQueue

/// One run of one row.
struct BenchRun {
    enum Layout {
        /// The load on processor 0, Redis and the server on processor 1.
        case serverBesideRedis
        /// Redis on processor 1, the daemon and the server on processor 0.
        case redisAlone
    }

    let jobs: Int
    var layout = Layout.serverBesideRedis
    /// The path of the program, for a row of another program.
    var program: String?
    private static let server = ["--token-streams", "1000"]

    func measure(_ load: BenchRow.Load) throws -> Measurement {
        if case .daemon(let settings, let simulator, let bodyBytes) = load { return try daemon(settings, simulator, bodyBytes) }
        let stage = try Stage(simulator: BenchRun.server, ledger: false, pinned: 1)
        let nghttpd = load == .h2loadToNghttpd || load == .poolToNghttpd ? try Nghttpd(stage) : nil
        let port = nghttpd?.port ?? stage.service.port
        return try withExtendedLifetime(nghttpd) {
            switch load {
            case .h2load(let bodyBytes): try h2load(stage, port: port, bodyBytes: bodyBytes)
            case .h2loadToNghttpd: try h2load(stage, port: port, bodyBytes: 200)
            case .client(let options): try pushLoad(stage, port: port, [program ?? ""] + options)
            case .pool, .poolToNghttpd: try pushLoad(stage, port: port, [BuiltProducts.path("gapless-lab"), "push-load"])
            case .daemon: preconditionFailure("the daemon has another stage")
            }
        }
    }

    private func h2load(_ stage: Stage, port: Int, bodyBytes: Int) throws -> Measurement {
        let output = stage.folder.file("h2load")
        let process = try ChildProcess(
            "taskset",
            ["-c", "0", "h2load", "-n", String(jobs), "-c", "2", "-m", "500"]
                + stage.h2loadRequest(port: port, bodyBytes: bodyBytes),
            standardOutput: .file(output))
        let run = measure(process)
        guard File.read(output).contains(" \(jobs) succeeded") else {
            throw LabError(description: "h2load failed:\n" + File.read(output))
        }
        return run
    }

    /// Measures a program that sends pushes.
    private func pushLoad(_ stage: Stage, port: Int, _ command: [String]) throws -> Measurement {
        let output = stage.folder.file("push-load")
        let process = try ChildProcess(
            "taskset",
            ["-c", "0"] + command
                + ["--port", String(port), "--credentials", stage.folder.file("credentials"), "--count", String(jobs)],
            standardOutput: .file(output), standardError: .file(output))
        let run = measure(process)
        guard process.wait().status == 0 else { throw LabError(description: "\(command) failed:\n" + File.read(output)) }
        return run
    }

    /// Measures a program until its exit.
    private func measure(_ process: ChildProcess) -> Measurement {
        let start = Instant.now
        var peak = 0
        _ = waitUntil(atMost: .seconds(180), every: .milliseconds(10)) {
            peak = max(peak, peakMemory(process.pid))
            return process.poll() != nil
        }
        if process.poll() == nil { process.kill(SIGKILL) }
        let exit = process.wait()
        return Measurement(cpu: exit.processorTime, seconds: (.now - start) / .seconds(1), peak: peak)
    }

    private func daemon(_ changes: [String: String], _ simulator: [String], _ bodyBytes: Int) throws -> Measurement {
        let stage = try Stage(simulator: BenchRun.server + simulator, ledger: false, pinned: 1)
        if layout == .redisAlone, let simulator = stage.service as? SimulatorProcess { simulator.process.pin(to: 0) }
        try stage.push((0..<jobs).lazy.map { BenchJob.text($0, bodyBytes: bodyBytes) })
        let settings = try stage.write(changes.merging(["apns_max_concurrent_streams": "500"]) { ours, _ in ours })
        let redisBefore = processorTime(stage.redis.process.pid)
        let start = Instant.now
        let daemon = try stage.start(settings, program: program, pinned: 0)
        let isDone = try waitUntil(atMost: .seconds(180), every: .milliseconds(10)) { try stage.settled() >= jobs }
        let seconds = (.now - start) / .seconds(1)
        let redis = processorTime(stage.redis.process.pid) - redisBefore
        let peak = daemon.peakBytes
        guard isDone, let exit = daemon.stop(), exit.status == 0 else {
            throw stage.failure("gaplessd did not send all jobs:")
        }
        return Measurement(cpu: exit.processorTime, seconds: seconds, redis: redis, peak: peak)
    }
}

extension Stage {
    /// Returns a provider token that the simulator accepts, for senders that cannot make one.
    func providerToken() throws -> String {
        let output = folder.file("token")
        let process = try ChildProcess(
            BuiltProducts.path("apns-simulator"), ["provider-token", folder.file("credentials")],
            standardOutput: .file(output), standardError: .inherited)
        guard process.wait().status == 0 else { throw LabError(description: "no provider token") }
        return File.read(output).split(separator: "\n").first.map(String.init) ?? ""
    }

    /// Returns the arguments of h2load for the push that the benchmarks send.
    func h2loadRequest(port: Int, bodyBytes: Int) throws -> [String] {
        let body = folder.file("body")
        try File.write(BenchJob.payload(bodyBytes), to: body)
        let headers = [
            "apns-topic: com.example.app", "apns-push-type: alert", "apns-priority: 10", "apns-expiration: 2000000000",
            "authorization: bearer \(try providerToken())",
        ]
        return ["-d", body] + headers.flatMap { ["-H", $0] } + ["https://127.0.0.1:\(port)/3/device/\(BenchJob.fixedToken)"]
    }

    /// The number of jobs with a final outcome.
    func settled() throws -> Int {
        let counts = try command("HMGET", keys.stats, "sent", "dead").items ?? []
        return counts.compactMap { $0.text.flatMap { Int($0) } }.reduce(0, +)
    }
}

/// The results of all runs of one row.
struct BenchResult {
    let row: BenchRow
    private(set) var cpu = Figures()
    private(set) var rate = Figures()
    private(set) var redis = Figures()
    private(set) var peak = 0

    init(_ row: BenchRow) { self.row = row }

    mutating func add(_ run: Measurement, pushes: Int) {
        cpu.values.append(run.cpu / .microseconds(1) / Double(pushes))
        redis.values.append(run.redis / .microseconds(1) / Double(pushes))
        rate.values.append(Double(pushes) / run.seconds)
        peak = max(peak, run.peak)
    }

    /// The ratio of the CPU per push to that of the reference, run by run: both ran one after the other.
    func ratio(to reference: BenchResult) -> Figures {
        Figures(values: zip(cpu.values, reference.cpu.values).map { $0 / $1 })
    }

    static let header =
        padRight("", 32) + padRight("CPU us/push", 26) + padRight("pushes/s", 28) + padRight("x h2load", 21)
        + padRight("Redis us", 10) + "peak MB"

    func line(_ ratio: Figures?) -> String {
        padRight(row.title, 32) + padRight(cpu.text(2), 26) + padRight(rate.text(0), 28)
            + padRight(ratio?.text(2) ?? "", 21) + padRight(redis.median > 0 ? decimal(redis.median, 2) : "", 10)
            + megabytes(peak)
    }

    func json(_ ratio: Figures?) -> JSON {
        var members: [(String, JSON)] = [
            ("row", .text(row.name)), ("title", .text(row.title)), ("runs", .integer(cpu.values.count)),
            ("cpu_us_per_push", cpu.json), ("pushes_per_second", rate.json), ("redis_us_per_push", redis.json),
        ]
        if let ratio { members.append(("ratio_to_h2load", ratio.json)) }
        return .object(members + [("peak_bytes", .integer(peak))])
    }
}

/// The jobs of the benchmarks.
enum BenchJob {
    static let fixedToken = deviceToken(1)

    static func payload(_ bytes: Int) -> String {
        let start = #"{"aps":{"alert":{"title":"Bench","body":""#
        let end = #""},"sound":"default"}}"#
        return start + String(repeating: "x", count: bytes - start.utf8.count - end.utf8.count) + end
    }

    static func text(_ number: Int, bodyBytes: Int = 200, app: String? = nil) -> String {
        let member = app.map { #""app":"\#($0)","# } ?? ""
        return #"{"token":"\#(deviceToken(number))",\#(member)"identifier":\#(number),"data":\#(payload(bodyBytes))}"#
    }
}

/// The cost of one run.
struct Measurement {
    /// User and system time of the daemon, the pool or h2load.
    var cpu: Duration
    var seconds: Double
    /// Processor time of Redis.
    var redis = Duration.zero
    /// The peak resident memory, in bytes.
    var peak: Int
}

/// nghttp2's server with the certificate of the simulator. It responds to every POST with 200 and an empty file.
struct Nghttpd {
    let port: Int
    private let process: ChildProcess

    init(_ stage: Stage) throws {
        let root = stage.folder.file("htdocs")
        for path in [root, root + "/3", root + "/3/device"] { unsafe mkdir(path, 0o700) }
        try File.write("", to: root + "/3/device/\(BenchJob.fixedToken)")
        let credentials = stage.folder.file("credentials")
        let port = FreePort.pick()
        let process = try ChildProcess(
            "nghttpd",
            [
                "-a", "127.0.0.1", "-m", "1000", "-d", root, String(port), credentials + "/server-key.pem",
                credentials + "/server.pem",
            ],
            standardError: .inherited)
        process.pin(to: 1)
        guard waitUntil({ FreePort.isTaken(port) }) else { throw LabError(description: "nghttpd does not listen") }
        (self.port, self.process) = (port, process)
    }
}
