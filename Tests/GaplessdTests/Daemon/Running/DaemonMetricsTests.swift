import APNSSimulator
import Glibc
import Harness
import JSONBytes
import Platform
import RedisQueue
import Testing

@testable import gaplessd

extension DaemonProcess {
    /// The port of the last `Metrics are at http://127.0.0.1:…/metrics.`
    func metricsPort(after count: Int = 0) -> Int? {
        var port: Int?
        _ = waitUntil {
            let lines = standardOutput.split(separator: "\n").filter { $0.contains("Metrics are at http://127.0.0.1:") }
            guard lines.count > count else { return false }
            port = lines.last?.split(separator: ":").last.flatMap { Int($0.prefix { $0.isNumber }) }
            return port != nil
        }
        return port
    }

    fileprivate var threadNames: [String] {
        folderEntries("/proc/\(process.pid)/task").map { File.read("/proc/\(process.pid)/task/\($0)/comm") }
    }
}

/// Returns a stage, and a daemon that serves metrics at this port.
func givenMetrics(
    _ changes: [String: String?] = [:], on stage: Stage? = nil
) throws -> (stage: Stage, daemon: DaemonProcess, port: Int) {
    let (stage, daemon) = try given(changes.merging(["metrics_listen": "\"127.0.0.1:0\""]) { $1 }, on: stage)
    return (stage, daemon, try #require(daemon.metricsPort()))
}

/// The value of a metric with its labels, as it stands in the text.
private func value(_ metric: String, at port: Int) -> Double? {
    let line = HTTPTalk.get("/metrics", port: port)?.body.split(separator: "\n").first { $0.hasPrefix(metric + " ") }
    return line?.split(separator: " ").last.flatMap { Double($0) }
}

@Suite("metrics_listen", .blocking)
struct DaemonMetricsTests {
    private static let listens: [String: String?] = ["metrics_listen": "\"127.0.0.1:0\""]

    @Test func `metrics equal the status, and contain no secret`() throws {
        let (stage, daemon, port) = try givenMetrics()
        try stage.open(daemon)
        stage.simulator.plan(token: "0b", answers: [.usual(410)])
        try stage.push((0..<20).map { pushJob(deviceToken($0)) } + [pushJob("0b"), "no JSON"])
        #expect(try stage.drains())
        #expect(try waitUntil { try stage.counter(.sent) == 21 })
        let status = try stage.status()
        let queue = "{queue=\"\(Stage.list)\"}"
        #expect(waitUntil { value("gapless_sent_total\(queue)", at: port) == 21 })
        for counter in Counter.allCases {
            #expect(value("gapless_\(counter.rawValue)_total\(queue)", at: port) == Double(status.counters[counter, default: 0]))
        }
        let gauges = [
            "backlog": status.backlog, "in_flight": status.inFlight, "delayed": status.delayed, "recovered": status.recovered,
            "dead": status.dead, "feedback": status.feedback, "workers": 1,
        ]
        for (name, count) in gauges { #expect(value("gapless_\(name)\(queue)", at: port) == Double(count), "\(name)") }
        #expect(status.dead == 2)
        let app = #"{app="(top level)"}"#
        #expect(
            waitUntil {
                value("gapless_sessions_open\(app)", at: port) == 2 && value("gapless_streams_in_use\(app)", at: port) == 0
            })
        #expect(value("gapless_worker_sent_total", at: port) == 21)
        let age = try #require(value("gapless_provider_token_age_seconds\(app)", at: port))
        #expect(age >= 0 && age < 60)
        let contact = try #require(value("gapless_redis_last_contact_timestamp_seconds\(queue)", at: port))
        #expect(abs(contact - Double(unixTime())) < 20)
        let answer = try #require(HTTPTalk.get("/metrics", port: port))
        #expect(answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8")
        let page = try #require(HTTPTalk.get("/", port: port))
        #expect(page.headers["content-type"] == "text/html; charset=utf-8")
        let policy = try #require(page.headers["content-security-policy"])
        let start = try #require(policy.firstRange(of: "script-src 'nonce-")).upperBound
        let nonce = String(policy[start...].prefix { $0 != "'" })
        #expect(policy == StatusPage.policy(nonce: nonce) && page.body == StatusPage.html(nonce: nonce))
        let document = try #require(HTTPTalk.get("/status.json", port: port))
        #expect(document.headers["content-type"] == "application/json")
        let read = try JSONValue.parse(Array(document.body.utf8))
        #expect(read["counters"]?["sent"]?.integerValue == 21 && read["dead"]?.integerValue == 2)
        for text in [answer.body, page.body, document.body] {
            for secret in ["SIMKEY0001", "SIMTEAM001", deviceToken(3), "bearer"] {
                #expect(!text.contains(secret), "\(secret)")
            }
        }
        #expect(!answer.body.contains("0b\"") && document.body.contains(#""token": "0b""#))
        let curl = try ChildProcess(
            "curl", ["-sf", "http://127.0.0.1:\(port)/healthz"], standardOutput: .file(stage.folder.file("curl")))
        #expect(curl.wait().status == 0)
        #expect(File.read(stage.folder.file("curl")) == "ok\n")
    }

    /// The endpoint needs two descriptors, and the thread that reads the settings another one from the first reload on.
    @Test func `a reload that finds too few free descriptors is rejected`() throws {
        let (stage, daemon) = try givenOpen()
        #expect(daemon.reloads())
        try stage.write(Self.listens)
        // Without those that are open for a moment.
        var used: Set<rlim_t> = []
        #expect(
            waitUntil {
                let before = used
                used = Set(folderEntries("/proc/\(daemon.process.pid)/fd").compactMap { rlim_t($0) })
                return used == before
            })
        var (limit, unused) = (rlim_t(0), 0)
        while unused < 1 {
            if !used.contains(limit) { unused += 1 }
            limit += 1
        }
        func setLimit(_ limit: rlim_t) throws {
            let arguments = ["--pid", "\(daemon.process.pid)", "--nofile=\(limit):1024"]
            #expect(try ChildProcess("prlimit", arguments).wait().status == 0)
        }
        try setLimit(limit)
        #expect(daemon.reloads(saying: "Reload failed: "), "\(daemon.standardError)")
        #expect(daemon.standardError.contains("metrics"), "\(daemon.standardError)")
        try setLimit(1024)
        daemon.process.kill(SIGHUP)
        #expect(waitUntil { daemon.reports.count { $0.contains("Reloaded: ") } == 2 })
        #expect(HTTPTalk.get("/healthz", port: try #require(daemon.metricsPort()))?.status == 200)
    }

    @Test func `a held app is not ready until it is repaired`() throws {
        let (stage, daemon, port) = try givenMetrics()
        stage.simulator.behave { $0.script.failures = [.init(.status(403, "InvalidProviderToken"), 1)] }
        #expect(waitUntil { HTTPTalk.get("/readyz", port: port)?.status == 200 })
        try stage.push(pushJob("0a"))
        #expect(
            waitUntil {
                HTTPTalk.get("/readyz", port: port)?.body.hasPrefix(
                    "app (top level) is held: APNs does not accept the credential") == true
            })
        #expect(HTTPTalk.get("/readyz", port: port)?.status == 503)
        #expect(HTTPTalk.get("/healthz", port: port)?.status == 200)
        #expect(value(#"gapless_app_held{app="(top level)",reason="credential"}"#, at: port) == 1)
        stage.simulator.behave { $0.script.failures = [] }
        daemon.signal(SIGHUP)
        #expect(stage.accepts(1))
        #expect(waitUntil { HTTPTalk.get("/readyz", port: port).map { $0.status == 200 && $0.body == "ready\n" } == true })
        #expect(value(#"gapless_app_held{app="(top level)",reason="credential"}"#, at: port) == 0)
    }

    @Test func `a Redis that hangs leaves the figures of the process`() throws {
        let (stage, _, port) = try givenMetrics()
        #expect(waitUntil { HTTPTalk.get("/readyz", port: port)?.status == 200 })
        #expect(value("gapless_redis_up", at: port) == 1)
        stage.redis.process.kill(SIGSTOP)
        #expect(waitUntil { value("gapless_redis_up", at: port) == 0 })
        #expect(HTTPTalk.get("/healthz", port: port)?.status == 200)
        let text = try #require(HTTPTalk.get("/metrics", port: port)?.body)
        #expect(!text.contains("gapless_backlog"))
        #expect(text.contains("gapless_worker_in_flight 0\n"))
        #expect(HTTPTalk.get("/", port: port)?.status == 200)
        let document = try JSONValue.parse(Array(try #require(HTTPTalk.get("/status.json", port: port)?.body).utf8))
        #expect(document["redis_fault"]?.stringValue != nil && document["lists"] == nil)
        #expect(waitUntil { HTTPTalk.get("/readyz", port: port)?.body == "list \(Stage.list): no connection to Redis\n" })
        stage.redis.process.kill(SIGCONT)
        #expect(waitUntil(atMost: .seconds(30)) { HTTPTalk.get("/readyz", port: port)?.status == 200 })
        #expect(waitUntil { value("gapless_redis_up", at: port) == 1 })
    }

    @Test func `clients that hold every connection delay no push`() throws {
        let (stage, _, port) = try givenMetrics()
        let idle = (0..<80).map { _ in HTTPTalk(port: port) }
        for talk in idle { talk?.send("GET /metrics HT") }
        try stage.push((0..<500).map { pushJob(deviceToken($0)) })
        #expect(try stage.settles(500))
        #expect(idle.count == 80)
    }

    @Test func `a port in use at the start exits with 78 and names the key`() throws {
        let (stage, _, port) = try givenMetrics()
        let second = try stage.start(["metrics_listen": "\"127.0.0.1:\(port)\""], name: "second.json")
        #expect(second.exitStatus() == 78)
        #expect(
            second.standardError.contains(
                "second.json: metrics_listen: cannot listen at 127.0.0.1:\(port): "
                    + "Address already in use; expected an address of this machine"
            ))
        #expect(try stage.status().workers.count == 1)
    }

    @Test func `SIGHUP moves, closes and opens it, and rejects a port in use`() throws {
        let (stage, daemon, first) = try givenMetrics()
        let taken = try #require(HTTPTalk(port: stage.simulator.port))
        try stage.write(["metrics_listen": "\"127.0.0.1:\(stage.simulator.port)\""])
        #expect(
            daemon.reloads(saying: "metrics_listen: cannot listen at 127.0.0.1:\(stage.simulator.port): Address already in use"))
        #expect(daemon.says("Reload failed"))
        #expect(HTTPTalk.get("/healthz", port: first)?.status == 200)
        try stage.write(["metrics_listen": "\"127.0.0.1:\(FreePort.pick())\""])
        daemon.signal(SIGHUP)
        let second = try #require(daemon.metricsPort(after: 1))
        #expect(HTTPTalk.get("/healthz", port: second)?.status == 200)
        #expect(HTTPTalk(port: first) == nil)
        // The same port at another address: the daemon closes its own listener after it has the other one.
        try stage.write(["metrics_listen": "\"0.0.0.0:\(second)\""])
        #expect(daemon.reloads(saying: "Metrics are at http://0.0.0.0:\(second)/metrics."))
        #expect(HTTPTalk.get("/healthz", port: second)?.status == 200)
        try stage.write(["metrics_listen": "\"192.0.2.1:\(second)\""])
        #expect(daemon.reloads(saying: "metrics_listen: cannot listen at 192.0.2.1:\(second): Cannot assign requested address"))
        #expect(HTTPTalk.get("/healthz", port: second)?.status == 200)
        try stage.write()
        daemon.signal(SIGHUP)
        #expect(waitUntil { HTTPTalk(port: second) == nil })
        #expect(waitUntil { !daemon.threadNames.contains { $0.hasPrefix("metrics") } })
        _ = taken
    }

    @Test func `a stuck main loop is neither healthy nor ready`() {
        let now = Instant.now
        func notice(_ age: Duration) -> ProcessBoard.Notice {
            ProcessBoard.Notice(snapshot: MachineFixture().machine.snapshot, at: now - age)
        }
        for notice in [notice(.seconds(11)), nil] {
            #expect(!Readiness.isAlive(notice, started: now - .seconds(11), now: now))
        }
        #expect(Readiness.isAlive(notice(.seconds(9)), started: now - .seconds(60), now: now))
        #expect(Readiness.faults(notice(.seconds(11)), now: now).first == "dispatcher loop stalled for 11 s")
        #expect(!Readiness.faults(notice(.seconds(9)), now: now).contains { $0.contains("stalled") })
    }

    @Test func `without the setting there is no thread for it`() throws {
        let (stage, daemon) = try givenOpen()
        #expect(!daemon.threadNames.isEmpty)
        #expect(!daemon.threadNames.contains { $0.hasPrefix("metrics") })
        let other = try stage.start(Self.listens, name: "other.json")
        #expect(other.metricsPort() != nil)
        #expect(other.threadNames.filter { $0.hasPrefix("metrics") }.count == 1)
    }
}

@Suite("The alert rules and the dashboard", .blocking)
struct DaemonMonitoringTests {
    private static let promtool = "/usr/bin/promtool"

    @Test func `name metrics that a daemon exports, as the documents do`() throws {
        let (stage, daemon, port) = try givenMetrics(["apps": #"{"cert": \#(certificateJSON)}"#])
        try stage.open(daemon)
        try stage.command("RPUSH", "audience", deviceToken(1))
        try stage.push(#"{"tokens_from":"audience","campaign":"sale","data":{"aps":{}}}"#)
        let pages = folderEntries("\(Checkout.path)/docs").filter { $0.hasSuffix(".md") }.map { "docs/\($0)" }
        let files = ["deploy/monitoring/alerts.yml", "deploy/monitoring/dashboard.json", "docs/metrics.md", "README.md"] + pages
        let named = files.map { Self.metrics(in: Checkout.read($0)) }
        #expect(named.prefix(3).allSatisfy { $0.count >= 8 })
        var exported: Set<Substring> = []
        // Some metrics follow the first beat to Redis or the first provider token.
        _ = waitUntil(atMost: .seconds(30)) {
            let lines = HTTPTalk.get("/metrics", port: port)?.body.split(separator: "\n") ?? []
            // Only a metric with a sample counts. The samples of a histogram have other names.
            let samples = Set(lines.filter { !$0.hasPrefix("#") }.map { $0.prefix { $0 != "{" && $0 != " " } })
            exported = samples.union(samples.filter { $0.hasSuffix("_bucket") }.map { $0.dropLast("_bucket".count) })
            return named.allSatisfy { $0.isSubset(of: exported) }
        }
        for (file, names) in zip(files, named) { #expect(names.subtracting(exported).sorted() == [], "\(file)") }
    }

    private static func metrics(in text: String) -> Set<Substring> {
        let names = Set(text.matches(of: /\b(?:gapless|process)_[a-z_]+/).map(\.output))
        return names.filter { name in
            name.hasPrefix("gapless_") || ["_seconds", "_total", "_bytes"].contains { name.hasSuffix($0) }
        }
    }

    @Test(.enabled(if: !File.read(promtool).isEmpty, "promtool is not installed (Debian's package prometheus)"))
    func `pass promtool: each alert fires with its fault, and only then`() throws {
        let folder = TemporaryFolder()
        let check = try ChildProcess(
            "\(Checkout.path)/scripts/check-monitoring", [], standardOutput: .file(folder.file("out")),
            standardError: .file(folder.file("out")))
        #expect(check.wait(atMost: .seconds(120))?.status == 0, "\(File.read(folder.file("out")))")
    }

    @Test(.enabled(if: !File.read(promtool).isEmpty, "promtool is not installed (Debian's package prometheus)"))
    func `Prometheus' own parser accepts the metrics, and has no advice`() throws {
        let (stage, daemon, port) = try givenMetrics()
        try stage.open(daemon)
        stage.simulator.plan(token: "0b", answers: [.usual(410)])
        try stage.push([pushJob("0b"), "no JSON"])
        let isComplete = waitUntil {
            HTTPTalk.get("/metrics", port: port)?.body.contains("reason=\"Unregistered\"} 1") ?? false
        }
        #expect(isComplete)
        let folder = TemporaryFolder()
        try File.write(HTTPTalk.get("/metrics", port: port)?.body ?? "", to: folder.file("metrics"))
        let check = try ChildProcess(
            "/bin/sh", ["-c", "\(Self.promtool) check metrics < \(folder.file("metrics"))"],
            standardOutput: .file(folder.file("out")), standardError: .file(folder.file("out")))
        #expect(check.wait(atMost: .seconds(60))?.status == 0, "\(File.read(folder.file("out")))")
    }

    @Test func `each alert leads to its section of the runbook, and each section has an alert`() {
        let alerts = Checkout.read("deploy/monitoring/alerts.yml").split(separator: "- alert: ").dropFirst()
        let sections = Checkout.read("docs/runbook.md").matches(of: /\n## (\w+)\n/).map { String($0.output.1) }
        #expect(alerts.map { String($0.prefix(while: \.isLetter)) } == sections)
        for (alert, section) in zip(alerts, sections) {
            #expect(
                alert.contains("runbook_url: https://gaplessd.example/docs/runbook.md#\(section.lowercased())\n"), "\(section)")
        }
    }

    @Test func `each alert has a test in which it fires`() {
        let names = Checkout.read("deploy/monitoring/alerts.yml").matches(of: /- alert: (\w+)/).map(\.output.1)
        #expect(names.count >= 10)
        let tests = Checkout.read("deploy/monitoring/alerts.test.yml")
        for name in names {
            #expect(tests.contains("alertname: \(name)\n        exp_alerts:\n          - exp_labels"), "\(name)")
            #expect(tests.contains("alertname: \(name), exp_alerts: []"), "\(name)")
        }
    }
}
