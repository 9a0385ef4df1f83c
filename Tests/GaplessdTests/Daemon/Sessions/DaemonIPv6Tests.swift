import APNSSimulator
import Glibc
import Harness
import RedisQueue
import Testing

@testable import gaplessd

@Suite("APNs over IPv6", .blocking)
struct DaemonIPv6Tests {
    /// Whether the loopback interface has `::1`.
    private static let hasIPv6 = File.read("/proc/net/if_inet6").contains(" lo\n")
    /// Whether this machine allows mount namespaces, in which a daemon has a hosts file of its own.
    private static let hasNamespaces = (try? ChildProcess("unshare", ["-Urm", "true"]).wait().status) == 0

    @Test(.enabled(if: hasIPv6)) func `an address in brackets is dialled, and its pushes are answered`() throws {
        let stage = try Stage(configure: { $0.host = "::1" })
        let daemon = try stage.start(["apns_server": "\"[::1]:\(stage.service.port)\"", "log_successes": "true"])
        try stage.push((0..<100).map { pushJob(deviceToken($0)) })
        #expect(try stage.settles(100))
        #expect(daemon.standardOutput.contains(" to [::1]:\(stage.service.port) is open, "), "\(daemon.standardOutput)")
        #expect(stage.simulator.ledger.entries.allSatisfy { $0.token.count == 64 })
        let call = try Call(["check", stage.folder.file("settings.json")])
        #expect(call.status == 0, "\(call.errors)")
        #expect(daemon.stop()?.status == 0)
    }

    /// One of the two addresses has no server.
    @Test(.enabled(if: hasIPv6 && hasNamespaces), arguments: ["::1", "127.0.0.1"])
    func `a name with addresses of both families is served by the one that answers`(alive: String) throws {
        let stage = try Stage(configure: { $0.host = alive })
        let hosts = stage.folder.file("hosts")
        try File.write("127.0.0.1 localhost\n::1 localhost\n", to: hosts)
        let mount = #"mount --bind "$1" /etc/hosts && shift && exec "$@""#
        let daemon = try stage.start(
            ["pool_size": "4"], under: ["unshare", "-Urm", "sh", "-c", mount, "sh", hosts])
        try stage.push((0..<100).map { pushJob(deviceToken($0)) })
        #expect(try stage.settles(100), "\(daemon.standardError.suffix(1000))")
        #expect(waitUntil { stage.simulator.totals.openConnections == 4 })
        #expect(stage.simulator.ledger.acceptedCounts.values.allSatisfy { $0 == 1 })
        #expect(daemon.stop()?.status == 0)
    }
}
