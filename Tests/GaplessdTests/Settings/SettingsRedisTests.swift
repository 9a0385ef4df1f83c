import APNSSimulator
import Harness
import RedisQueue
import Testing

@testable import gaplessd

@Suite("Settings for TLS to Redis and for Sentinel")
struct SettingsRedisTests {
    private let folder = SettingsFolder()

    private func faults(_ members: String) -> [String] { folder.faults(settings(members)) }

    @Test(arguments: [
        (#""redis_tls": false, "redis_ca_path": "a""#, #"redis_ca_path: requires redis_tls; expected "redis_tls": true"#),
        (#""redis_tls": 1, "redis_ca_path": "a""#, "redis_tls: invalid value 1; expected true or false"),
        (
            #""redis_tls": true, "redis_socket_path": "r.sock""#,
            "redis_tls: Redis offers no TLS on a Unix socket; expected a host and a port, or no redis_tls"
        ),
        (
            #""redis_sentinels": ["a:1"]"#,
            "redis_sentinels: requires redis_sentinel_master; expected the name of the master as redis_sentinel_master"
        ),
        (
            #""redis_sentinel_master": "m""#,
            "redis_sentinel_master: requires redis_sentinels; expected the addresses of Sentinels as redis_sentinels"
        ),
        (
            #""redis_sentinels": ["a:1"], "redis_sentinel_master": "m", "redis_host": "b""#,
            "redis_sentinels: conflicts with redis_host; expected only one way to locate Redis"
        ),
        (
            #""redis_sentinel_password": "p""#,
            "redis_sentinel_password: requires redis_sentinels; expected the addresses of Sentinels as redis_sentinels"
        ),
        (
            #""redis_sentinels": ["a:1"], "redis_sentinel_master": "m", "redis_sentinel_username": "u""#,
            "redis_sentinel_username: requires redis_sentinel_password; expected both keys, or only redis_sentinel_password"
        ),
    ])
    func `Keys that need or exclude each other are faults`(members: String, fault: String) {
        #expect(faults(members) == [fault])
    }

    @Test func `Each file without redis_tls is a fault`() {
        #expect(
            faults(#""redis_ca_path": "a", "redis_cert_path": "b", "redis_key_path": "c""#)
                == ["redis_ca_path", "redis_cert_path", "redis_key_path"].map {
                    "\($0): requires redis_tls; expected \"redis_tls\": true"
                })
    }

    @Test func `Files that are unreadable or have other content are faults`() {
        folder.write("nothing\n", to: "text")
        let (missing, text) = (
            "cannot be read: No such file or directory; expected a file that this user can read", folder.file("text")
        )
        #expect(
            faults(#""redis_tls": true, "redis_ca_path": "missing", "redis_cert_path": "gone", "redis_key_path": "text""#) == [
                "redis_ca_path: \(folder.file("missing")) \(missing)", "redis_cert_path: \(folder.file("gone")) \(missing)",
                "redis_key_path: \(text): no private key found; expected a PEM text with BEGIN PRIVATE KEY",
            ])
        #expect(
            faults(#""redis_tls": true, "redis_ca_path": "text", "redis_cert_path": "text", "redis_key_path": "gone""#) == [
                "redis_ca_path: \(text) contains no certificates; expected a PEM bundle of root certificates",
                "redis_cert_path: \(text): no certificate found; expected a PEM text with BEGIN CERTIFICATE",
                "redis_key_path: \(folder.file("gone")) \(missing)",
            ])
    }

    @Test func `A key that is encrypted, alone or of another certificate is a fault`() throws {
        for name in ["one", "other"] { try Credentials.make().write(to: folder.file(name)) }
        let (pair, key) = (#""redis_cert_path": "one/client.pem""#, #""redis_key_path": "one/client-key.pem""#)
        #expect(faults(#""redis_tls": true, "redis_ca_path": "one/ca.pem", \#(pair), \#(key)"#) == [])
        folder.write(File.read(folder.file("one/client.pem")) + File.read(folder.file("one/client-key.pem")), to: "both.pem")
        #expect(faults(#""redis_tls": true, "redis_cert_path": "both.pem""#) == [])
        #expect(
            faults("\"redis_tls\": true, \(key)") == [
                "redis_key_path: requires redis_cert_path; expected both keys, or one PEM file with both as redis_cert_path"
            ])
        folder.write("nothing\n", to: "text")
        let mismatch = faults(
            #""redis_tls": true, "redis_ca_path": "text", \#(pair), "redis_key_path": "other/client-key.pem""#)
        #expect(mismatch.map { $0.prefix { $0 != ":" } } == ["redis_ca_path", "redis_cert_path"], "\(mismatch)")
        #expect(mismatch.last?.contains("the private key does not belong to the certificate") == true)
        let locked = folder.file("locked.pem")
        let openssl = try ChildProcess(
            "openssl",
            ["pkcs8", "-topk8", "-in", folder.file("one/client-key.pem"), "-out", locked, "-passout", "pass:sesame"])
        #expect(openssl.wait(atMost: .seconds(30))?.status == 0)
        #expect(
            faults(#""redis_tls": true, \#(pair), "redis_key_path": "locked.pem""#) == [
                "redis_key_path: \(locked) contains an encrypted key; expected an unencrypted key"
            ])
    }

    @Test func `Sentinels replace the host`() throws {
        let both = #""redis_sentinels": ["a:26379", "[::1]:26380"], "redis_sentinel_master": "m""#
        let expected = QueueSettings.Server.sentinels(
            [.tcp(host: "a", port: 26379), .tcp(host: "::1", port: 26380)], master: "m")
        #expect(try folder.read(settings(both)).settings.redis.server == expected)
        #expect(expected.text == "master m from Sentinel at a:26379, [::1]:26380")
    }

    @Test func `Sentinels may have a user and a password of their own`() throws {
        folder.write("s3cret\n", to: "password")
        let both = #""redis_sentinels": ["a:1"], "redis_sentinel_master": "m", "redis_sentinel_username": "u""#
        for key in [#""redis_sentinel_password": "s3cret""#, #""redis_sentinel_password_file": "password""#] {
            let settings = try folder.read(settings("\(both), \(key)")).settings
            #expect(settings.redis.sentinelPassword == Secret("s3cret") && settings.redis.password == nil)
            #expect(settings.queues[0].sentinelUsername == "u" && settings.queues[0].sentinelPassword == "s3cret")
        }
    }

    @Test(arguments: [#""a:1""#, "[]", #"["a"]"#, #"["a:1", "a:1"]"#, #"["a:0"]"#, "[1]"])
    func `Sentinels have a host and a port each, without duplicates`(wrong: String) {
        let found = faults(#""redis_sentinel_master": "m", "redis_sentinels": \#(wrong)"#)
        #expect(found.count == 1)
        #expect(
            found.first?.hasSuffix("; expected an array of at least one \"host:port\", without duplicates") == true, "\(found)")
    }
}
