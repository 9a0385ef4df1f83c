import Harness
import PushPool
import RedisQueue
import Testing

@testable import gaplessd

private let root = Checkout.path

@Suite("The settings files of the package")
struct ConfigTests {
    private func read(_ name: String) throws -> Configuration {
        try Configuration.read(SettingsFile(path: "\(root)/config/\(name)") { $0 == "CREDENTIALS_DIRECTORY" ? "/run/c" : nil })
    }

    @Test func `beta.json is the sample of the original, and runs unchanged`() throws {
        let reading = try read("beta.json")
        #expect(reading.warnings.map(\.key) == ["apns_server"])
        let app = try #require(reading.settings.apps.first)
        #expect(app.pool.host == "api.sandbox.push.apple.com")
        #expect(app.pool.sessions == 2)
        #expect(
            app.source
                == .certificate(path: "\(root)/config/beta_cert.pem", keyPath: "\(root)/config/beta_key.pem", password: nil))
        #expect(reading.settings.lists == ["beta_apns_queue"])
        #expect(reading.settings.redis.server == .tcp(host: "127.0.0.1", port: 6379))
        #expect(reading.settings.log.successes == 1)
    }

    @Test func `production.json has no warnings, and its key comes from systemd`() throws {
        let reading = try read("production.json")
        #expect(reading.warnings.isEmpty)
        let app = try #require(reading.settings.apps.first)
        #expect(app.pool.host == "api.push.apple.com")
        #expect(
            app.source
                == .signingKey(path: "/run/c/AuthKey_ABCDE12345.p8", keyID: "ABCDE12345", teamID: "TEAM123456"))
        #expect(reading.settings.log.format == .journal)
    }

    @Test func `demo.json is for the simulator`() throws {
        let reading = try read("demo.json")
        #expect(reading.warnings.isEmpty)
        #expect(reading.settings.apps.map(\.pool.host) == ["127.0.0.1"])
        #expect(reading.settings.apps.first?.pool.extraRootsPath == "\(root)/config/../.build/demo/credentials/ca.pem")
    }
}

@Suite("The tables of docs/settings.md")
struct SettingsPageTests {
    /// Each row between the marks: the keys of its first column, and its text.
    private let rows: [(keys: [String], text: String)]

    init() {
        let table = File.read("\(root)/docs/settings.md").split(separator: "<!-- settings:").last?.split(
            separator: "<!-- end of settings"
        ).first
        rows = (table ?? "").split(separator: "\n").filter { $0.hasPrefix("| `") }.map { row in
            let column = row.dropFirst(2).prefix { $0 != "|" }
            return (
                column.split(separator: "`").map(String.init).filter {
                    $0.allSatisfy { $0.isLowercase || "_0123456789".contains($0) }
                }, String(row)
            )
        }
    }

    @Test func `It names every known key, and no unknown key`() {
        let keys = rows.flatMap(\.keys)
        #expect(keys.count > 50)
        #expect(keys.filter { SettingsTable.byName[$0] == nil } == [])
        let text = rows.map(\.text).joined()
        #expect(SettingsTable.keys.map(\.name).filter { !text.contains("`\($0)`") } == [])
    }

    @Test func `Its defaults are those of the program`() {
        for row in rows {
            for key in row.keys {
                guard let text = SettingsTable.byName[key]?.defaultText else { continue }
                #expect(
                    row.text.replacing("`", with: " ").replacing(",", with: " ").split(separator: " ")
                        .contains { $0.trimming("\"") == text.split(separator: ",").first?.trimming("\"") ?? "" },
                    "The row of \(key) lacks the default \(text): \(row.text)")
            }
        }
    }
}

extension StringProtocol {
    fileprivate func trimming(_ character: Character) -> String { String(filter { $0 != character }) }
}

@Suite("The systemd unit")
struct ConfigUnitTests {
    private let text = File.read("\(root)/deploy/systemd/gaplessd.service")

    @Test(.enabled(if: !File.read("/usr/bin/systemd-analyze").isEmpty, "systemd-analyze is not installed"))
    func `systemd-analyze verify reports nothing`() throws {
        let folder = TemporaryFolder()
        // systemd looks for the program.
        try File.write(
            text.replacing("/usr/local/bin/gaplessd", with: BuiltProducts.path("gaplessd")), to: folder.file("gaplessd.service"))
        let verify = try ChildProcess(
            "/usr/bin/systemd-analyze", ["verify", "--man=no", folder.file("gaplessd.service")],
            standardOutput: .file(folder.file("out")), standardError: .file(folder.file("out")))
        #expect(verify.wait(atMost: .seconds(60))?.status == 0)
        #expect(File.read(folder.file("out")) == "")
    }

    /// 14 stands for an exposure of 1.4: what the first unit had.
    @Test(.enabled(if: !File.read("/usr/bin/systemd-analyze").isEmpty, "systemd-analyze is not installed"))
    func `Its exposure does not grow`() throws {
        let folder = TemporaryFolder()
        try File.write(text, to: folder.file("gaplessd.service"))
        let analysis = try ChildProcess(
            "/usr/bin/systemd-analyze",
            ["security", "--no-pager", "--offline=yes", "--threshold=14", folder.file("gaplessd.service")],
            standardOutput: .file(folder.file("out")), standardError: .file(folder.file("out")))
        #expect(analysis.wait(atMost: .seconds(60))?.status == 0, "\(File.read(folder.file("out")))")
    }

    @Test func `Its stop timeout is longer than the drain of the settings`() throws {
        let settings = try Configuration.read(SettingsFile(path: "\(root)/config/production.json") { _ in "/c" }).settings
        let line = try #require(text.split(separator: "\n").first { $0.hasPrefix("TimeoutStopSec=") })
        let seconds = try #require(Int(line.dropFirst("TimeoutStopSec=".count)))
        #expect(.seconds(seconds) > settings.drainTimeout + .seconds(5))
    }

    @Test func `It loads the key that the settings name`() {
        #expect(text.contains("LoadCredential=AuthKey_ABCDE12345.p8:"))
    }

    @Test func `A comment precedes each group of settings`() {
        var isExplained = false
        for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
            if line.isEmpty { isExplained = false }
            if line.hasPrefix("#") { isExplained = true }
            let isPlain = ["Description=", "Documentation=", "ExecStart="].contains(where: line.hasPrefix)
            if line.contains("="), !line.hasPrefix("#"), !isPlain { #expect(isExplained, "\(line)") }
        }
    }
}
