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
        #expect(try Call(["enqueue", settings, stage.folder.file("jobs")]).output == "2000 jobs pushed to beta_apns_queue\n")
        #expect(try stage.backlog().joined(separator: "\n") + "\n" == jobs)
        #expect(try Call(["status", settings]).output.contains("backlog     2000"))
        let daemon = try stage.start(secure.settings)
        #expect(stage.accepts(2000), "\(daemon.standardError)")
        #expect(daemon.stop()?.status == 0)
        #expect(try Call(["audit", settings]).output.contains("balances"))
        #expect(try Call(["dead", settings, "list"]).status == 0)
        let check = try Call(["check", settings])
        #expect(check.status == 0, "\(check.errors)")
        #expect(check.output.contains("redis       localhost:\(secure.port) with TLS, database 0"))
        #expect(check.output.contains("redis: ok, localhost:\(secure.port)\n"))
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
            case .plainPort: "the TLS handshake (does Redis speak TLS at this port?): no answer in time"
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
        // A server that replied is not reported as silent.
        #expect(call.errors.hasPrefix(fault == .plainPort ? "redis: no answer: " : "redis: failed: "), "\(call.errors)")
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
        let daemon = try stage.start(old.settings)
        try stage.open(daemon)
        let rootsPath = old.folder.file("ca.pem")
        let roots = File.read(rootsPath)
        try File.write("half a file", to: rootsPath)
        daemon.signal(SIGHUP)
        #expect(daemon.says("redis_ca_path: \(rootsPath) holds no certificates"))
        #expect(daemon.says("Reload failed: keeping the previous settings and credentials."))
        try File.write(roots, to: rootsPath)
        for name in ["server.pem", "server-key.pem", "ca.pem", "client.pem", "client-key.pem"] {
            try File.write(File.read(new.folder.file(name)), to: old.folder.file(name))
        }
        try stage.command(
            "CONFIG", "SET", "tls-cert-file", old.folder.file("server.pem"), "tls-key-file", old.folder.file("server-key.pem"),
            "tls-ca-cert-file", old.folder.file("ca.pem"))
        daemon.signal(SIGHUP)
        #expect(daemon.says("Reloaded:"))
        try stage.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        try stage.push(pushJob("0a"))
        #expect(stage.accepts(2), "\(daemon.standardError)")
        #expect(daemon.stop()?.status == 0)
    }
}

@Suite("Settings for TLS to Redis and for Sentinel")
struct SettingsRedisTests {
    private let folder = SettingsFolder()

    private func faults(_ members: String) -> [String] { folder.faults(settings(members)) }

    @Test func `each file without redis_tls is a fault`() {
        #expect(
            faults(#""redis_ca_path": "a", "redis_cert_path": "b", "redis_key_path": "c""#)
                == ["redis_ca_path", "redis_cert_path", "redis_key_path"].map {
                    "\($0): is given without redis_tls; \"redis_tls\": true would be right beside it"
                })
        #expect(faults(#""redis_tls": false, "redis_ca_path": "a""#).count == 1)
        #expect(faults(#""redis_tls": 1, "redis_ca_path": "a""#) == ["redis_tls: is 1; true or false would be right"])
    }

    @Test func `unreadable or invalid files are reported`() throws {
        try File.write("nothing\n", to: folder.file("text"))
        let found = faults(#""redis_tls": true, "redis_ca_path": "missing", "redis_cert_path": "gone", "redis_key_path": "text""#)
        #expect(found.count == 3)
        #expect(found.first?.hasPrefix("redis_ca_path: \(folder.file("missing")) cannot be read: No such file") == true)
        #expect(
            found.dropFirst().first?.hasPrefix("redis_cert_path: \(folder.file("gone")) cannot be read: No such file") == true)
        #expect(found.last?.hasPrefix("redis_key_path: \(folder.file("text")): no private key found; ") == true)
        let rubbish = faults(#""redis_tls": true, "redis_ca_path": "text", "redis_cert_path": "text", "redis_key_path": "gone""#)
        #expect(rubbish.map { $0.prefix { $0 != ":" } } == ["redis_ca_path", "redis_cert_path", "redis_key_path"], "\(rubbish)")
        #expect(
            faults(#""redis_tls": true, "redis_ca_path": "text""#)
                == ["redis_ca_path: \(folder.file("text")) holds no certificates; a PEM bundle of roots would be right"])
        #expect(
            faults(#""redis_tls": true, "redis_cert_path": "text""#).first?.contains("no certificate found; a PEM text")
                == true)
    }

    @Test func `a wrong, an encrypted and a single key are faults`() throws {
        let (one, other) = (try Credentials.make(), try Credentials.make())
        try one.write(to: folder.file("one"))
        try other.write(to: folder.file("other"))
        #expect(
            faults(
                #""redis_tls": true, "redis_ca_path": "one/ca.pem", "redis_cert_path": "one/client.pem", "redis_key_path": "one/client-key.pem""#
            ) == [])
        let mismatch = faults(
            #""redis_tls": true, "redis_cert_path": "one/client.pem", "redis_key_path": "other/client-key.pem""#)
        #expect(mismatch.count == 1)
        #expect(mismatch.first?.contains("the private key does not belong to the certificate") == true)
        try File.write("nothing\n", to: folder.file("text"))
        let both = faults(
            #""redis_tls": true, "redis_ca_path": "text", "redis_cert_path": "one/client.pem", "redis_key_path": "other/client-key.pem""#
        )
        #expect(both.map { $0.prefix { $0 != ":" } } == ["redis_ca_path", "redis_cert_path"], "\(both)")
        try File.write(
            File.read(folder.file("one/client.pem")) + File.read(folder.file("one/client-key.pem")), to: folder.file("both.pem"))
        #expect(faults(#""redis_tls": true, "redis_cert_path": "both.pem""#) == [])
        try File.write(
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n", to: folder.file("locked.pem"))
        #expect(
            faults(#""redis_tls": true, "redis_cert_path": "one/client.pem", "redis_key_path": "locked.pem""#)
                == [
                    "redis_key_path: \(folder.file("locked.pem")) holds an encrypted key; a key without a password would be right"
                ])
        #expect(
            faults(#""redis_tls": true, "redis_key_path": "one/client-key.pem""#).first?.hasPrefix(
                "redis_key_path: is given without redis_cert_path") == true)
    }

    @Test func `TLS to a Unix socket is a fault`() {
        #expect(
            faults(#""redis_tls": true, "redis_socket_path": "r.sock""#).first?.hasPrefix(
                "redis_tls: is given with a Unix socket") == true)
    }

    @Test func `Sentinels need the name of the master, and exclude a host`() throws {
        let both = #""redis_sentinels": ["a:26379", "[::1]:26380"], "redis_sentinel_master": "m""#
        let expected = QueueSettings.Server.sentinels(
            [.tcp(host: "a", port: 26379), .tcp(host: "::1", port: 26380)], master: "m")
        #expect(try folder.read(settings(both)).settings.redis.server == expected)
        #expect(expected.text == "master m by Sentinel at a:26379, [::1]:26380")
        #expect(
            faults(#""redis_sentinels": ["a:1"]"#).first?.hasPrefix("redis_sentinels: is given without redis_sentinel_master")
                == true)
        #expect(
            faults(#""redis_sentinel_master": "m""#).first?.hasPrefix("redis_sentinel_master: is given without redis_sentinels")
                == true)
        #expect(
            faults(both + #", "redis_host": "b""#) == [
                "redis_sentinels: is given beside redis_host; one way to say where Redis is would be right"
            ])
        for wrong in [#""a:1""#, "[]", #"["a"]"#, #"["a:1", "a:1"]"#, #"["a:0"]"#, "[1]"] {
            let found = faults(#""redis_sentinel_master": "m", "redis_sentinels": \#(wrong)"#)
            #expect(found.count == 1)
            #expect(
                found.first?.hasSuffix("an array of different \"host:port\" with at least one would be right") == true, "\(found)"
            )
        }
    }
}
