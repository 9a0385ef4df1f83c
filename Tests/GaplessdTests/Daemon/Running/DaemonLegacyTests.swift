import APNSSimulator
import Glibc
import Harness
import RedisQueue
import Testing

@Suite("Files of the original Gapless", .blocking)
struct DaemonLegacyTests {
    /// The sample settings of the original, except for the address of Redis.
    private static func sample(_ stage: Stage, server: String, more: String = "") -> String {
        """
        {"apns_cert_path": "beta_cert.pem", "apns_key_path": "beta_key.pem", "apns_server": "\(server)", "log_successes": true, \
        "pool_size": 2, "redis_db": 0, "redis_host": "127.0.0.1", "redis_port": 6379, "redis_queue_key": "beta_apns_queue"\(more)}
        """
    }

    private static func prepare(_ stage: Stage) throws {
        let folder = stage.folder
        try File.write(String(decoding: stage.credentials.clientCertificatePEM, as: UTF8.self), to: folder.file("beta_cert.pem"))
        try File.write(String(decoding: stage.credentials.clientKeyPEM, as: UTF8.self), to: folder.file("beta_key.pem"))
    }

    @Test func `the sample settings are valid, with one warning`() throws {
        let stage = try Stage(topics: ["com.example.beta"])
        try Self.prepare(stage)
        let path = stage.folder.file("beta.json")
        try File.write(Self.sample(stage, server: "gateway.sandbox.push.apple.com:2195"), to: path)
        let out = stage.folder.file("out")
        let err = stage.folder.file("err")
        let check = try ChildProcess(
            BuiltProducts.path("gaplessd"), ["check", path, "--offline"], standardOutput: .file(out), standardError: .file(err))
        #expect(check.wait(atMost: .seconds(20))?.status == 0)
        #expect(File.read(out).contains("com.example.beta"))
        let warnings = File.read(err).split(separator: "\n")
        #expect(warnings.count == 1, "\(warnings)")
        #expect(warnings.first?.contains("api.sandbox.push.apple.com") == true)
        #expect(warnings.first?.contains("gateway.sandbox.push.apple.com:2195") == true)
    }

    @Test func `they push with the topic of the certificate and without a provider token`() throws {
        let port = FreePort.pick()
        let stage = try Stage(redis: ["--port", "\(port)"], topics: ["com.example.beta"]) {
            $0.authentication = .certificate
        }
        try Self.prepare(stage)
        try File.write(String(decoding: stage.credentials.authorityPEM, as: UTF8.self), to: stage.folder.file("ca.pem"))
        let path = stage.folder.file("beta.json")
        let sample = Self.sample(stage, server: "localhost:\(stage.simulator.port)", more: #", "apns_ca_path": "ca.pem""#)
        try File.write(sample.replacing("6379", with: "\(port)"), to: path)
        let daemon = try DaemonProcess(settings: path, folder: TemporaryFolder())
        let job = #"{"token": "\#(deviceToken(1))", "identifier": 154, "expiry": 3600, "data": {"aps": {"alert": "Hi"}}}"#
        try stage.push([job, pushJob(deviceToken(2))])
        #expect(stage.accepts(2))
        #expect(waitUntil { stage.simulator.totals.connections == 2 }, "pool_size")
        #expect(stage.simulator.ledger.entries.allSatisfy { $0.topic == nil || $0.topic == "com.example.beta" })
        #expect(try stage.drains())
        #expect(daemon.stop()?.status == 0)
        #expect(daemon.reports.contains("[Gapless I] STAMP Sent: \(job)."))
        let lifetime = try #require(stage.simulator.ledger.requests(for: deviceToken(1)).first?.expiration.flatMap { Int64($0) })
        #expect(abs(lifetime - unixTime() - 3600) < 30)
    }

    @Test(arguments: ["unix:SOCKET", "tcp:127.0.0.1:PORT", "127.0.0.1:PORT"])
    func `redis_netaddress and redis_db are the address of the list`(address: String) throws {
        let port = FreePort.pick()
        let stage = try Stage(redis: ["--port", "\(port)"])
        let place = address.replacing("SOCKET", with: stage.redis.socketPath).replacing("PORT", with: "\(port)")
        let daemon = try stage.start(["redis_socket_path": nil, "redis_netaddress": "\"\(place)\"", "redis_db": "3"])
        try stage.command("SELECT", "3")
        try stage.push(pushJob("0a"))
        #expect(try stage.settles(1))
        #expect(daemon.stop()?.status == 0)
    }

    @Test func `a PKCS#12 file works, with its password from a file`() throws {
        let stage = try Stage(topics: ["com.example.beta"]) { $0.authentication = .certificate }
        try File.write("simulator\n", to: stage.folder.file("p12-password"))
        var settings: [String: String?] = [
            "apns_p12_path": "\"credentials/client.p12\"", "apns_p12_password_file": "\"p12-password\"",
        ]
        for key in ["apns_auth_key_path", "apns_auth_key_id", "apns_team_id", "apns_topic"] { settings[key] = .some(nil) }
        let daemon = try stage.start(settings)
        try stage.push(pushJob("0a"))
        #expect(stage.accepts(1))
        #expect(daemon.stop()?.status == 0)
    }
}
