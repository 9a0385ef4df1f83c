import APNSSimulator
import Harness
import Testing

@Suite("watch_files in the daemon", .blocking)
struct DaemonWatchTests {
    @Test func `a replaced key is used without a signal, and a faulty settings file changes nothing`() throws {
        let stage = try Stage()
        let daemon = try stage.start(["watch_files": "true"])
        try stage.open(daemon)
        try File.write("{\"half", to: stage.folder.file("settings.json"))
        #expect(daemon.says("Reload failed: "), "\(daemon.standardError)")
        try stage.push(pushJob("0b"))
        #expect(stage.accepts(2))
        try stage.write([
            "watch_files": "true", "apns_auth_key_path": "\"credentials/AuthKey_SIMKEY0002.p8\"",
            "apns_auth_key_id": "\"SIMKEY0002\"",
        ])
        #expect(daemon.says("signed with the key SIMKEY0002"), "\(daemon.standardError)")
        #expect(daemon.says("Reloaded: "))
        try stage.write()
        #expect(waitUntil { daemon.reports.count { $0.contains("Reloaded: ") } == 2 }, "watch_files is off from now on")
        #expect(daemon.stop()?.status == 0)
    }
}
