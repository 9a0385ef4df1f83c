import APNSSimulator
import Harness
import Testing

@Suite("The alert rules and the dashboard", .blocking)
struct DaemonMonitoringTests {
    private static let promtool = "/usr/bin/promtool"

    @Test func `name metrics that a daemon exports, as the documents do`() throws {
        let stage = try Stage()
        let certificate =
            #"{"cert": {"apns_cert_path": "credentials/client.pem", "apns_key_path": "credentials/client-key.pem"}}"#
        let daemon = try stage.start(["metrics_listen": "\"127.0.0.1:0\"", "apps": certificate])
        let port = try #require(daemon.metricsPort())
        try stage.open(daemon)
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
        #expect(daemon.stop()?.status == 0)
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
        let (stage, daemon) = try given(["metrics_listen": "\"127.0.0.1:0\""])
        let port = try #require(daemon.metricsPort())
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
        #expect(daemon.stop()?.status == 0)
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
