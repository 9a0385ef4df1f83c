import APNSSimulator
import Glibc
import Harness
import RedisQueue
import Testing

@testable import gaplessd

@Suite("Redis with TLS", .blocking)
struct DaemonTLSTests {
    @Test func `the daemon uses TLS with a client certificate, and reconnects after a restart`() throws {
        let secure = try SecureRedis()
        let stage = try Stage(redis: secure.options + ["--appendonly", "yes", "--appendfsync", "always"])
        try stage.push((0..<2000).map { pushJob(deviceToken($0)) })
        let daemon = try stage.start(secure.settings)
        #expect(stage.accepts(1000))
        stage.redis.kill()
        #expect(daemon.says("Jobs stay in the queue; trying again."))
        try stage.redis.restart()
        try stage.reconnect()
        try stage.push((2000..<2500).map { pushJob(deviceToken($0)) })
        #expect(try stage.drains())
        #expect(Set(stage.simulator.ledger.entries.map(\.token)).count == 2500)
        #expect(try stage.status().unexplained == 0)
        #expect(daemon.stop()?.status == 0)
    }

    @Test func `every command uses TLS`() throws {
        let secure = try SecureRedis()
        let stage = try Stage(redis: secure.options)
        let settings = try stage.write(secure.settings)
        // Batches of more than a megabyte, more than a socket accepts at once.
        let alert = String(repeating: "x", count: 3500)
        let jobs = (0..<2000).map { pushJob(deviceToken($0), data: #"{"aps":{"alert":"\#(alert)"}}"#) + "\n" }.joined()
        try File.write(jobs, to: stage.folder.file("jobs"))
        #expect(try Call(["enqueue", settings, stage.folder.file("jobs")]).output == "2,000 jobs pushed to beta_apns_queue\n")
        #expect(try stage.backlog().joined(separator: "\n") + "\n" == jobs)
        #expect(try Call(["status", settings]).output.contains("backlog     2,000"))
        let daemon = try stage.start(secure.settings)
        #expect(stage.accepts(2000), "\(daemon.standardError)")
        #expect(daemon.stop()?.status == 0)
        #expect(try Call(["audit", settings]).output.contains("balances"))
        #expect(try Call(["dead", settings, "list"]).status == 0)
        let check = try Call(["check", settings])
        #expect(check.status == 0, "\(check.errors)")
        #expect(check.output.contains("redis       localhost:\(secure.port) with TLS, database 0"))
        #expect(check.output.contains("redis: ok, localhost:\(secure.port), "))
    }

    /// Faults of the handshake, with their messages.
    enum Fault: CaseIterable {
        case untrustedRoot, wrongName, wrongAddress, noClientCertificate, unknownClientCertificate, plainPort

        var sentence: String {
            switch self {
            case .untrustedRoot: "TLS: the server's certificate is not trusted: "
            case .wrongName: "TLS: the server's certificate is not trusted: hostname mismatch"
            case .wrongAddress: "TLS: the server's certificate is not trusted: IP address mismatch"
            case .noClientCertificate: "TLS: the server refused our certificate: it requires one, and none was presented"
            case .unknownClientCertificate: "TLS: the server refused our certificate: tlsv1 alert unknown ca"
            case .plainPort: "the TLS handshake (does Redis speak TLS at this port?): no response in time"
            }
        }
    }

    @Test(arguments: Fault.allCases)
    func `a failed handshake is logged and repeated, and a command exits with 69`(fault: Fault) throws {
        let isMisnamed = fault == .wrongName || fault == .wrongAddress
        let secure = try SecureRedis(serverNames: isMisnamed ? ["redis.example.com"] : nil)
        let plain = FreePort.pick()
        let stage = try Stage(redis: secure.options + ["--port", String(plain)])
        var changes = secure.settings
        switch fault {
        case .untrustedRoot: changes["redis_ca_path"] = "\"\(stage.folder.file("credentials/ca.pem"))\""
        case .wrongName: break
        case .wrongAddress: changes["redis_host"] = "\"127.0.0.1\""
        case .noClientCertificate: (changes["redis_cert_path"], changes["redis_key_path"]) = (.some(nil), .some(nil))
        case .unknownClientCertificate:
            changes["redis_cert_path"] = "\"\(stage.folder.file("credentials/client.pem"))\""
            changes["redis_key_path"] = "\"\(stage.folder.file("credentials/client-key.pem"))\""
        case .plainPort: changes["redis_port"] = String(plain)
        }
        try stage.push(pushJob("0a"))
        let daemon = try stage.start(changes)
        #expect(daemon.says("Redis: \(fault.sentence)"), "\(daemon.standardError)")
        #expect(daemon.says("Jobs stay in the queue; trying again."))
        #expect(daemon.process.poll() == nil)
        #expect(daemon.stop()?.status == 0)
        #expect(try stage.status().backlog == 1)
        let call = try Call(["status", try stage.write(changes)])
        #expect(call.status == 69)
        #expect(call.errors.contains(fault.sentence), "\(call.errors)")
        let isUntrusted = fault.sentence.contains("is not trusted")
        #expect(call.errors.contains("; check redis_ca_path and redis_tls_name\n") == isUntrusted, "\(call.errors)")
        // A server that replied is not reported as silent.
        #expect(call.errors.hasPrefix(fault == .plainPort ? "redis: no response: " : "redis: failed: "), "\(call.errors)")
    }

    @Test func `redis_tls_name is the name in the certificate`() throws {
        let secure = try SecureRedis(serverNames: ["redis.example.com"])
        let stage = try Stage(redis: secure.options)
        let changes = secure.settings(["redis_host": "\"127.0.0.1\"", "redis_tls_name": "\"redis.example.com\""])
        try stage.push(pushJob("0a"))
        let daemon = try stage.start(changes)
        #expect(stage.accepts(1), "\(daemon.standardError)")
        #expect(daemon.stop()?.status == 0)
    }

    @Test func `without redis_tls a TLS port closes the connection`() throws {
        let secure = try SecureRedis()
        let stage = try Stage(redis: secure.options)
        let settings = try stage.write([
            "redis_socket_path": nil, "redis_host": "\"localhost\"", "redis_port": String(secure.port),
        ])
        let call = try Call(["status", settings])
        #expect(call.status == 69)
        // The close or the reset may come first.
        let words = ["the connection was closed by Redis", "Connection reset by peer", "Broken pipe"]
        #expect(words.contains(where: call.errors.contains), "\(call.errors)")
    }

    @Test func `new certificates apply to the next connection after a reload`() throws {
        let (old, new) = (try SecureRedis(), try SecureRedis())
        let stage = try Stage(redis: old.options)
        let daemon = try stage.startOpen(old.settings)
        let rootsPath = old.folder.file("ca.pem")
        let roots = File.read(rootsPath)
        try File.write("half a file", to: rootsPath)
        #expect(daemon.reloads(saying: "redis_ca_path: \(rootsPath) contains no certificates"))
        #expect(daemon.says("Reload failed: keeping the previous settings and credentials."))
        try File.write(roots, to: rootsPath)
        for name in ["server.pem", "server-key.pem", "ca.pem", "client.pem", "client-key.pem"] {
            try File.write(File.read(new.folder.file(name)), to: old.folder.file(name))
        }
        try stage.command(
            "CONFIG", "SET", "tls-cert-file", old.folder.file("server.pem"), "tls-key-file", old.folder.file("server-key.pem"),
            "tls-ca-cert-file", old.folder.file("ca.pem"))
        #expect(daemon.reloads(saying: "Reloaded:"))
        try stage.killClients()
        try stage.push(pushJob("0a"))
        #expect(stage.accepts(2), "\(daemon.standardError)")
        #expect(daemon.stop()?.status == 0)
    }
}
