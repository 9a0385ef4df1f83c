import Glibc
import Harness
import Platform
import RedisQueue

/// Measures a daemon with thousands of apps in `apps_dir`, of which few have jobs, beside one with only those.
struct AppsBench {
    var apps = 5000
    var active = 50
    var jobs = 100_000
    /// Seconds of changed files.
    var changing = 60

    /// Prints a line for each number of apps, and returns the figures.
    func measure() throws -> JSON {
        say("\(active) active apps alone, and among \(apps): half certificates, half keys; each with files of its own\n")
        return .array([try measure(apps: active), try measure(apps: apps)])
    }

    private func measure(apps: Int) throws -> JSON {
        let stage = try Stage(simulator: ["--token-streams", "1000"], ledger: false)
        try makeFolder(apps, stage)
        let settings = try stage.write([
            "apps_dir": "\"apps\"", "apps_idle_timeout": "5", "pool_size": "1", "redis_results_key": "\"results\"",
        ])
        let start = Instant.now
        let daemon = try stage.start(settings)
        defer { daemon.process.kill(SIGKILL) }
        try waitFor("the daemon has started", stage) { try stage.status().workers.count == 1 }
        let startTime = Instant.now - start
        Poller.sleep(.seconds(2))
        let idle = Process(daemon)

        let cold = try (0..<20).map { try pushTime(app: apps - 1 - $0, number: 10_000_000 + $0, stage) }
        let busy = try rate(stage)
        let latency = try latencies(stage)
        let (lost, turn) = try change(apps, stage, daemon)
        let figures: [(String, Double, Int)] = [
            ("start ms", startTime / .milliseconds(1), 0), ("resident MB", Double(idle.bytes) / 1_048_576, 1),
            ("threads", Double(idle.threads), 0), ("descriptors", Double(idle.descriptors), 0),
            ("first push of a cold app ms", Figures(values: cold).median, 1), ("at most ms", Figures(values: cold).most, 1),
            ("pushes per second", busy, 0), ("p99 ms", latency.percentile(99), 1),
            ("lost while files change", Double(lost), 0), ("longest turn ms", turn / .milliseconds(1), 0),
        ]
        say("\(apps) apps: " + figures.map { "\($0.0) \(decimal($0.1, $0.2))" }.joined(separator: ", "))
        guard daemon.stop()?.status == 0 else { throw LabError(description: daemon.standardError) }
        return .object([("apps", .integer(apps))] + figures.map { ($0.0, .number($0.1, digits: $0.2)) })
    }

    /// The figures of the kernel.
    private struct Process {
        var bytes: Int
        var threads: Int
        var descriptors: Int

        init(_ daemon: DaemonProcess) {
            bytes = daemon.residentBytes
            threads = folderEntries("/proc/\(daemon.process.pid)/task").count
            descriptors = folderEntries("/proc/\(daemon.process.pid)/fd").count
        }
    }

    // MARK: The folder

    private func makeFolder(_ apps: Int, _ stage: Stage) throws {
        unsafe mkdir(stage.folder.file("apps"), 0o755)
        unsafe mkdir(stage.folder.file("own"), 0o755)
        let parts = ["client.pem", "client-key.pem", "AuthKey_SIMKEY0001.p8"].map {
            ($0, File.read(stage.folder.file("credentials/\($0)")))
        }
        for app in 0..<apps {
            for (name, content) in app % 2 == 0 ? parts[..<2] : parts[2...] {
                try File.write(content, to: stage.folder.file("own/\(app)-\(name)"))
            }
            try write(app, version: 0, stage)
        }
    }

    private func write(_ app: Int, version: Int, _ stage: Stage) throws {
        let credential =
            app % 2 == 0
            ? #""apns_cert_path": "own/\#(app)-client.pem", "apns_key_path": "own/\#(app)-client-key.pem""#
            : #""apns_auth_key_path": "own/\#(app)-AuthKey_SIMKEY0001.p8", "apns_auth_key_id": "SIMKEY0001", "#
                + #""apns_team_id": "SIMTEAM001", "apns_topic": "\#(Stage.topic)""#
        let file = stage.folder.file("apps/app\(app).json")
        try File.write(#"{"_version": \#(version), \#(credential)}"#, to: file + ".new")
        guard unsafe rename(file + ".new", file) == 0 else { throw LabError(description: "cannot rename \(file)") }
    }

    // MARK: Pushes

    private static func job(_ number: Int, app: Int) -> String { BenchJob.text(number, app: "app\(app)") }

    /// Milliseconds until a push of an app without sessions is accepted.
    private func pushTime(app: Int, number: Int, _ stage: Stage) throws -> Double {
        let before = try stage.sent()
        let start = Instant.now
        try stage.push(Self.job(number, app: app))
        try waitFor("the first push of app \(app)", stage) { try stage.sent() > before }
        return (Instant.now - start) / .milliseconds(1)
    }

    /// Pushes per second while the active apps drain a backlog.
    private func rate(_ stage: Stage) throws -> Double {
        // Their sessions open, and each gets an acceptance.
        for round in 0..<2 {
            let before = try stage.sent()
            try stage.push((0..<active).map { Self.job(20_000_000 + round * active + $0, app: $0) })
            try waitFor("the active apps", stage) { try stage.sent() >= before + active }
        }
        let before = try stage.sent()
        try stage.push((0..<jobs).lazy.map { Self.job($0, app: $0 % active) }, to: "aside")
        let start = Instant.now
        try stage.command("RENAME", "aside", Stage.list)
        try waitFor("the backlog", stage) { try stage.sent() >= before + jobs }
        return Double(jobs) / ((Instant.now - start) / .seconds(1))
    }

    /// Milliseconds from claim to response at a tenth of the rate of `rate`, from the results.
    private func latencies(_ stage: Stage) throws -> Figures {
        try stage.command("DEL", "results")
        let before = try stage.sent()
        let (steps, perStep) = (500, 10)
        for step in 0..<steps {
            try stage.push((0..<perStep).map { Self.job(30_000_000 + step * perStep + $0, app: (step + $0) % active) })
            Poller.sleep(.milliseconds(10))
        }
        try waitFor("the paced jobs", stage) { try stage.sent() >= before + steps * perStep }
        var figures = Figures()
        for entry in try stage.command("XRANGE", "results", "-", "+").items ?? [] {
            let fields = entry.items?.last?.items?.compactMap(\.text) ?? []
            func field(_ name: String) -> Double? {
                fields.firstIndex(of: name).flatMap { $0 + 1 < fields.count ? Double(fields[$0 + 1]) : nil }
            }
            if let claimed = field("claimed_at"), let responded = field("responded_at") {
                figures.values.append(responded - claimed)
            }
        }
        return figures
    }

    /// A hundred files change each second, also those of active apps, while pushes go on. Returns the lost pushes and the longest
    /// turn of the daemon.
    private func change(_ apps: Int, _ stage: Stage, _ daemon: DaemonProcess) throws -> (lost: Int, turn: Duration) {
        let before = try stage.sent()
        var pushed = 0
        for second in 0..<changing {
            let end = Instant.now + .seconds(1)
            for change in 0..<100 {
                try write((second * 100 + change * 7) % apps, version: second * 100 + change + 1, stage)
                if change % 10 == 0 {
                    try stage.push((0..<active).map { Self.job(40_000_000 + pushed + $0, app: $0) })
                    pushed += active
                }
            }
            if .now < end { Poller.sleep(end - .now) }
        }
        let isDone = try waitUntil(atMost: .seconds(60)) { try stage.sent() >= before + pushed }
        let sent = try stage.sent() - before
        return (isDone ? 0 : pushed - sent, daemon.longestTurn() ?? .zero)
    }

    private func waitFor(_ what: String, _ stage: Stage, _ condition: () throws -> Bool) throws {
        try stage.await("timeout: \(what)", every: .milliseconds(1), condition)
    }
}
