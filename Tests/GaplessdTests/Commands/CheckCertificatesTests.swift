import APNSSimulator
import Glibc
import Harness
import Testing

@testable import gaplessd

@Suite("gaplessd check prints certificates despite other faults", .timeLimit(.minutes(30)))
struct CheckCertificatesTests {
    private static let day = 86_400
    private static let certificate = #""apns_cert_path": "client.pem", "apns_key_path": "client-key.pem""#
    private let folder = TemporaryFolder()

    private func make(
        _ topics: [String], in folder: String = "", _ change: (inout Credentials.Request) -> Void = { _ in }
    ) throws {
        var request = Credentials.Request(topics: topics)
        change(&request)
        _ = try Credentials.make(request).write(to: self.folder.file(folder))
    }

    private func check(_ members: String, _ call: [String] = ["check", "--offline"]) throws -> (
        Call, lines: [String], faults: [String]
    ) {
        let file = folder.file("settings.json")
        try File.write(#"{"redis_queue_key": "q", "apns_server": "sandbox", \#(members)}"#, to: file)
        let call = try Call(call + [file])
        let faults = call.errors.split(separator: "\n").map { String($0.dropFirst(file.count + 2)) }
        return (call, call.output.split(separator: "\n", omittingEmptySubsequences: false).dropLast().map(String.init), faults)
    }

    @Test func `A fault of the settings does not hide the certificate's subject, topics and days`() throws {
        try make(["com.example.app", "com.example.app.voip"])
        let (call, lines, faults) = try check(#""foo": 1, \#(Self.certificate)"#)
        #expect(call.status == 78)
        #expect(faults.count == 1 && faults.first?.hasPrefix("foo: unknown key; ") == true)
        #expect(lines.count == 5)
        #expect(
            Array(lines.prefix(4)) == [
                "app         (top level)", "certificate \(folder.file("client.pem"))",
                "subject     UID = com.example.app, CN = Apple Push Services: com.example.app",
                "topics      com.example.app, com.example.app.voip",
            ])
        #expect(lines.last?.hasPrefix("expires     in 82") == true)
    }

    @Test(arguments: [
        (-10 * day ... -2 * day - 3600, "expired     2 days ago", "the certificate expired on "),
        (-10 * day ... -3600, "expired     less than a day ago", "the certificate expired on "),
        (day + 3600...9 * day + 3600, "begins      in 2 days", "the certificate is not valid before "),
    ])
    func `An expired or future certificate is printed with its fault`(validity: ClosedRange<Int>, line: String, fault: String)
        throws
    {
        try make(["com.example.app"]) { $0.clientValidity = validity }
        for credential in [Self.certificate, #""apns_p12_path": "client.p12", "apns_p12_password": "simulator""#] {
            let (call, lines, faults) = try check(credential)
            #expect(call.status == 78)
            #expect(faults.count == 1 && faults.first?.contains(fault) == true)
            #expect(faults.first?.contains("; expected a valid one") == true)
            #expect(lines.contains(line), "\(lines)")
            #expect(lines.contains("topics      com.example.app"))
        }
    }

    private static let redis =
        #""redis_tls": true, "redis_cert_path": "redis/client.pem", "redis_key_path": "redis/client-key.pem""#
    private static let subject = "subject     UID = redis, CN = Apple Push Services: redis"

    /// Makes the files of an app, and a certificate for Redis.
    private func makeRedis(_ validity: ClosedRange<Int>? = nil) throws {
        try make(["com.example.app"])
        try make(["redis"], in: "redis") { if let validity { $0.clientValidity = validity } }
    }

    @Test func `The certificate for Redis is printed with its subject and days`() throws {
        try makeRedis()
        let (call, lines, faults) = try check("\(Self.redis), \(Self.certificate)")
        #expect(call.status == 0, "\(faults)")
        #expect(lines.count > 4)
        #expect(lines.dropFirst().prefix(2) == ["certificate \(folder.file("redis/client.pem"))", Self.subject])
        #expect(lines.dropFirst(3).first?.hasPrefix("expires     in 82") == true, "\(lines)")
    }

    @Test func `An expired certificate for Redis is printed with its fault, beside other faults`() throws {
        try makeRedis(-10 * Self.day ... -2 * Self.day - 3600)
        let shown = ["redis", "certificate \(folder.file("redis/client.pem"))", Self.subject, "expired     2 days ago"]
        let fault = "redis_cert_path: \(folder.file("redis/client.pem")): the certificate expired on "
        for (others, count) in [("", 1), (#""foo": 1, "#, 2)] {
            let (call, lines, faults) = try check("\(others)\(Self.redis), \(Self.certificate)")
            #expect(call.status == 78)
            #expect(faults.count == count && faults.contains { $0.hasPrefix(fault) }, "\(faults)")
            #expect(Array(lines.prefix(4)) == shown)
        }
    }

    @Test(arguments: [#""apns_key_path": "none""#, #""apns_key_path": "AuthKey_SIMKEY0001.p8""#, #""apns_key_path": 5"#])
    func `A fault of the key does not hide that the certificate has expired`(key: String) throws {
        try make(["com.example.app"]) { $0.clientValidity = -7200 ... -3600 }
        let faults = try check(#""apns_cert_path": "client.pem", \#(key)"#).faults
        #expect(faults.count == 2, "\(faults)")
        #expect(faults.count { $0.hasPrefix("apns_cert_path: \(folder.file("client.pem")): the certificate expired on ") } == 1)
    }

    @Test func `Every app's certificate is printed, also with a wrong key or faulty settings`() throws {
        for (name, topic) in [("a", "com.a"), ("b", "com.b"), ("c", "com.c")] { try make([topic], in: name) }
        let (call, lines, faults) = try check(
            """
            "apps": {"wrongkey": {"apns_cert_path": "a/client.pem", "apns_key_path": "b/client-key.pem"},
                     "nokey": {"apns_cert_path": "b/client.pem", "apns_key_path": "none"},
                     "half": {"apns_cert_path": "c/client.pem", "apns_key_path": 5},
                     "p12": {"apns_p12_path": "c/client.p12", "apns_p12_password": "simulator", "apns_topic": "com.other"}}
            """)
        #expect(call.status == 78)
        #expect(faults.count == 4, "\(faults)")
        let apps = lines.split(separator: "").map { Array($0) }
        #expect(Set(apps.map { $0[0] }) == Set(["wrongkey", "nokey", "half", "p12"].map { "app         \($0)" }))
        #expect(
            Set(apps.map { "\($0[1].split(separator: "/").suffix(2).joined(separator: "/")) \($0[3])" }) == [
                "a/client.pem topics      com.a", "b/client.pem topics      com.b", "c/client.pem topics      com.c",
                "c/client.p12 topics      com.c",
            ])
    }

    @Test func `The certificate with topics is found at any place in the chain, also without its key`() throws {
        try make(["com.example.app"])
        try File.write(File.read(folder.file("ca.pem")) + File.read(folder.file("client.pem")), to: folder.file("chain.pem"))
        let lines = try check(#""apns_cert_path": "chain.pem", "apns_key_path": "none""#).lines
        #expect(lines.contains("topics      com.example.app"), "\(lines)")
    }

    @Test func `The certificate of a PKCS#12 file without a key is printed`() throws {
        try make(["com.example.app"])
        let openssl = try ChildProcess(
            "openssl",
            [
                "pkcs12", "-export", "-nokeys", "-in", folder.file("client.pem"), "-out", folder.file("bare.p12"), "-passout",
                "pass:x",
            ])
        #expect(openssl.wait(atMost: .seconds(30))?.status == 0)
        let (_, lines, faults) = try check(#""apns_p12_path": "bare.p12", "apns_p12_password": "x""#)
        #expect(
            faults == [
                "apns_p12_path: \(folder.file("bare.p12")): the PKCS#12 file lacks the certificate or its private key; "
                    + "expected both, exported together"
            ])
        #expect(lines.contains("topics      com.example.app"), "\(lines)")
    }

    @Test func `Unreadable files print no certificate, and other calls print none`() throws {
        try make(["com.example.app"])
        #expect(try check(#""apns_p12_path": "client.p12", "apns_p12_password": "wrong""#).0.output == "")
        #expect(try check(#""apns_cert_path": "client-key.pem""#).0.output == "")
        #expect(try check(#""foo": 1, \#(Self.certificate)"#, []).0.output == "")
    }

    @Test func `A fault of roots that several apps share is reported once, at its key`() throws {
        try make(["com.example.app"])
        let own = #"{\#(Self.certificate), "apns_ca_path": "none.pem"}"#
        let apps = #""apps": {"a": {\#(Self.certificate)}, "b": {\#(Self.certificate)}, "own": \#(own)}"#
        let missing =
            "\(folder.file("none.pem")) cannot be read: No such file or directory; expected a file that this user can read"
        let expected = ["apns_ca_path: \(missing)", "apps.own.apns_ca_path: \(missing)"]
        #expect(try check(#""apns_ca_path": "none.pem", \#(apps)"#).faults == expected)
        #expect(try check(#""apns_ca_path": "none.pem", \#(Self.certificate), \#(apps)"#).faults == expected)
        try File.write("rubbish", to: folder.file("rubbish"))
        #expect(
            try check(#""apns_ca_path": "rubbish", "apps": {"a": {\#(Self.certificate)}, "b": {\#(Self.certificate)}}"#).faults
                == [
                    "apns_ca_path: \(folder.file("rubbish")) contains no certificates; expected a PEM bundle of root certificates"
                ])
        // Also if the only app that inherits them has a fault.
        let half = try check(#""apns_ca_path": "none.pem", "apps": {"a": {"apns_p12_path": 5}}"#).faults
        #expect(half.count == 2 && half.last == expected[0], "\(half)")
    }
}
