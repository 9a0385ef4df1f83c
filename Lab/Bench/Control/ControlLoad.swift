import Glibc
import Harness
import Platform
import RedisQueue

/// A long list with two apps, and three daemons that deliver it.
struct ControlLoad {
    let stage: Stage
    private let settings: String
    private let jobs: Int
    private let daemons: [DaemonProcess]

    init(jobs: Int, rate: Int) throws {
        self.jobs = jobs
        stage = try Stage(simulator: ["--token-streams", "1000", "--topic", Stage.topic, "--topic", "com.example.news"])
        let news = """
            {"news": {"apns_topic": "com.example.news", "apns_auth_key_path": "credentials/AuthKey_SIMKEY0001.p8", \
            "apns_auth_key_id": "SIMKEY0001", "apns_team_id": "SIMTEAM001"}}
            """
        settings = try stage.write(["apps": news, "max_rate": "\(max(1, rate / 3))"])
        try stage.push((0..<jobs).lazy.map(Self.job))
        let (stage, settings) = (stage, settings)
        daemons = try (1...3).map { try stage.start(settings, name: "daemon\($0)") }
        let isRunning = try waitUntil(atMost: .seconds(30)) { try stage.sent() > rate * 2 }
        if !isRunning { throw LabError(description: "the daemons do not deliver:\n" + stage.standardErrors.suffix(2000)) }
    }

    static func isOfApp(_ number: Int) -> Bool { number % 10 < 3 }

    static func job(_ number: Int) -> String {
        let app = isOfApp(number) ? #""app": "news", "# : ""
        return
            #"{"token": "\#(deviceToken(number))", \#(app)"identifier": \#(number), "data": {"aps": {"alert": "Hi \#(number)"}}}"#
    }

    private static func number(of token: String) -> Int? { Int(token.suffix(16), radix: 16) }

    /// Runs a call of gaplessd and returns its output.
    func call(_ call: String, _ arguments: String..., killedAfter limit: Duration? = nil) throws -> String {
        let output = stage.folder.file("call.out")
        _ = unsafe unlink(output)
        let process = try ChildProcess(
            BuiltProducts.path("gaplessd"), [call, settings] + arguments, standardOutput: .file(output),
            standardError: .file(output))
        if let limit {
            if process.wait(atMost: limit) == nil { process.kill(SIGKILL) }
            _ = process.wait()
        } else if process.wait(atMost: .seconds(1800))?.status != 0 {
            throw LabError(description: "gaplessd \(call) failed:\n" + File.read(output))
        }
        return File.read(output)
    }

    /// Deliveries per second.
    func rate(over length: Duration) throws -> Double { try rate { wait(length) } }

    /// Deliveries per second during an action.
    func rate(during action: () throws -> Void) throws -> Double {
        let (before, begin) = (try stage.sent(), Instant.now)
        try action()
        let seconds = (Instant.now - begin) / .seconds(1)
        return Double(try stage.sent() - before) / max(0.001, seconds)
    }

    /// Watches the counter of claims. Returns the time of its last change.
    func lastChangeOfClaims(within length: Duration) throws -> Instant {
        let end = Instant.now + length
        var (known, changed) = (try claimed(), Instant.now - .seconds(60))
        while .now < end {
            wait(.milliseconds(20))
            let now = try claimed()
            if now != known { (known, changed) = (now, .now) }
        }
        return changed
    }

    private func claimed() throws -> Int { try stage.command("HGET", stage.keys.stats, "claimed").text.flatMap { Int($0) } ?? 0 }

    /// Reads where all jobs are, once nothing is in flight.
    func state() throws -> ControlState {
        let isQuiet = try waitUntil(atMost: .seconds(30)) { try stage.status().inFlight == 0 }
        if !isQuiet { throw LabError(description: "jobs stay in flight although the list is paused") }
        return try ControlState(
            jobs: jobs, waiting: try elements(Stage.list), cancelled: try elements(stage.keys.cancelled),
            delivered: stage.service.ledger.accepted, original: Self.job, number: Self.number, isOfApp: Self.isOfApp)
    }

    private func elements(_ key: String) throws -> [[UInt8]] {
        var all: [[UInt8]] = []
        while true {
            let page = try stage.command("LRANGE", key, "\(all.count)", "\(all.count + 4999)").items?.compactMap(\.bytes) ?? []
            if page.isEmpty { return all }
            all += page
        }
    }
}
