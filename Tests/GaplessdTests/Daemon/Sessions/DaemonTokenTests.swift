import APNSSimulator
import Glibc
import Harness
import RedisQueue
import Testing

@testable import gaplessd

@Suite("Provider tokens of a fleet", .blocking)
struct DaemonTokenTests {
    /// FLEET=50 is the full size.
    private static let fleet = getenv("FLEET").flatMap { Int(String(cString: $0)) } ?? 12

    @Test func `processes that start together share one token, also with later ones`() throws {
        let stage = try Stage()
        let state = stage.folder.file("state")
        var minted = 0
        for round in 1...2 {
            let fleet = try Fleet(Self.fleet) { try stage.start(["pool_size": "1"], name: "\($0).json", stateFolder: state) }
            #expect(fleet.isOpen(within: .seconds(60)))
            try stage.push((0..<1000).map { pushJob(deviceToken(round * 10_000 + $0)) })
            #expect(stage.accepts(1000 * round))
            for daemon in fleet.daemons { #expect(daemon.stop()?.status == 0) }
            minted += fleet.minted
            #expect(fleet.unshared == 0)
        }
        #expect(minted == 1)
        #expect(stage.simulator.totals.answers.filter { $0.key != "200" }.isEmpty)
    }

    @Test func `processes without a common folder share one token through Redis, which cannot use it`() throws {
        let stage = try Stage()
        let fleet = try Fleet(Self.fleet) {
            try stage.start(["pool_size": "1"], name: "\($0).json", stateFolder: stage.folder.file("state\($0)"))
        }
        #expect(fleet.isOpen(within: .seconds(60)))
        try stage.push((0..<1000).map { pushJob(deviceToken($0)) })
        #expect(stage.accepts(1000))
        let stored = try stage.command("HGETALL", stage.keys.providerTokens).items?.compactMap(\.bytes) ?? []
        #expect(stored.contains { $0.count > 100 })
        #expect(stored.allSatisfy { !String(decoding: $0, as: UTF8.self).contains("eyJ") }, "the start of a JWT")
        for daemon in fleet.daemons { #expect(daemon.stop()?.status == 0) }
        #expect(fleet.minted == 1)
        #expect(stage.simulator.totals.providerTokens.values.reduce(0, +) == 1)
    }

    @Test func `a user of Redis without the right to share tokens causes one warning`() throws {
        let stage = try Stage()
        let keys =
            "~\(Stage.list) "
            + ["workers", "worker:*", "holders", "chunks:*", "inflight:*", "recovered:*", "delayed", "dead", "large", "feedback"]
            .map { "~{\(Stage.list)}:gapless:\($0)" }.joined(separator: " ")
        let others = ["stats", "nothing", "paused", "pace", "asides", "aside:*"]
            .map { " ~{\(Stage.list)}:gapless:\($0)" }.joined()
        let words = "ACL SETUSER narrow reset on >secret +@all \(keys)\(others)"
        try stage.command(words.split(separator: " ").map(String.init))
        let daemon = try stage.start(["redis_username": "\"narrow\"", "redis_password": "\"secret\""])
        try stage.push((0..<10).map { pushJob(deviceToken($0)) })
        #expect(stage.accepts(10), "\(daemon.standardError)")
        #expect(daemon.says("Provider tokens are not shared with other machines: "))
    }

    @Test func `commands share it`() throws {
        let stage = try Stage()
        let state = stage.folder.file("state")
        let daemon = try stage.start(stateFolder: state)
        try stage.open(daemon)
        let before = try #require(token(in: state))
        let settings = stage.folder.file("settings.json")
        #expect(
            try Call(["send", settings, "--token", "0a", "--alert", "x"], environment: ["STATE_DIRECTORY": state]).status == 0)
        #expect(
            try Call(["check", settings], environment: ["STATE_DIRECTORY": state]).output.contains(
                "tokens      kept in \(state)\n"))
        #expect(token(in: state) == before)
    }

    @Test func `without a state folder the daemon warns once and continues`() throws {
        let stage = try Stage()
        let daemon = try stage.start(stateFolder: "/proc/nowhere")
        try stage.push(pushJob("0a"))
        #expect(stage.accepts(1))
        #expect(daemon.complaints.count { $0.contains("cannot be kept for other processes") } == 1)
        let settings = stage.folder.file("settings.json")
        let check = try Call(["check", settings], environment: ["STATE_DIRECTORY": "/proc/nowhere"])
        #expect(check.status == 0)
        #expect(check.errors.hasPrefix("warning: The provider token of the key SIMKEY0001 cannot be kept"))
    }

    private func token(in folder: String) -> String? {
        folderEntries(folder).first { $0.hasPrefix("provider-token-SIMTEAM001-SIMKEY0001-") && !$0.hasSuffix(".lock") }.map {
            File.read("\(folder)/\($0)")
        }
    }
}

@Suite("The state folder")
struct StateFolderTests {
    private func path(_ environment: [String: String], isRoot: Bool = false) -> String? {
        StateFolder.path(environment: { environment[$0] }, isRoot: isRoot)
    }

    @Test func `STATE_DIRECTORY has precedence over the default folders of root and users`() {
        #expect(path(["STATE_DIRECTORY": "/var/lib/a:/var/lib/b", "HOME": "/h"], isRoot: true) == "/var/lib/a")
        #expect(path(["HOME": "/root"], isRoot: true) == "/var/lib/gaplessd")
        #expect(path(["XDG_STATE_HOME": "/s", "HOME": "/h"]) == "/s/gaplessd")
        #expect(path(["HOME": "/h"]) == "/h/.local/state/gaplessd")
        #expect(path([:]) == nil)
    }

    @Test func `a relative path is ignored`() {
        #expect(path(["STATE_DIRECTORY": "state", "XDG_STATE_HOME": "x", "HOME": "/h"]) == "/h/.local/state/gaplessd")
    }
}
