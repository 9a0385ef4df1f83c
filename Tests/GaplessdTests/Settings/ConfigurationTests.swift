import APNSSimulator
import Glibc
import Harness
import PushPool
import Testing

@testable import gaplessd

@Suite("Credentials that the settings name")
struct ConfigurationTests {
    private let folder = TemporaryFolder()
    private let now = Int64(time(nil))
    private let certificate = #""apns_cert_path": "client.pem", "apns_key_path": "client-key.pem""#

    private func make(_ change: (inout Credentials.Request) -> Void = { _ in }) throws {
        var request = Credentials.Request(topics: ["com.example.app", "com.example.app.voip"])
        change(&request)
        _ = try Credentials.make(request).write(to: folder.path)
    }

    private func load(_ apns: String, server: String = "127.0.0.1:1", now: Int64? = nil) throws -> Configuration {
        let file = folder.file("settings.json")
        try File.write(#"{"redis_queue_key": "q", "apns_server": "\#(server)", \#(apns)}"#, to: file)
        return try Configuration.load(SettingsFile(path: file), now: now ?? self.now)
    }

    /// Without the file's name before each.
    private func faults(_ apns: String, server: String = "127.0.0.1:1") throws -> [String] {
        do {
            _ = try load(apns, server: server)
            return []
        } catch let refusal as SettingsErrors {
            return refusal.lines.map { String($0.dropFirst(folder.file("settings.json").count + 2)) }
        }
    }

    @Test func `the log has the first hundred warnings and the number of the others`() throws {
        try make()
        var configuration = try load(certificate)
        configuration.warnings = (1...5000).map { SettingsError(key: "apps.a\($0).apns_topic", problem: "a twin", remedy: "") }
        #expect(configuration.loggedWarnings.count == 101)
        #expect(configuration.loggedWarnings.last == configuration.file + ": 4,900 more warnings; gaplessd check prints them")
        configuration.warnings.removeLast(4900)
        #expect(configuration.loggedWarnings == configuration.warningLines)
    }

    private func warnings(_ apns: String, server: String = "127.0.0.1:1", now: Int64? = nil) throws -> [String] {
        try load(apns, server: server, now: now).warningLines.map { String($0.dropFirst(folder.file("settings.json").count + 2)) }
    }

    @Test func `A certificate, a PKCS#12 file and a signing key become credentials, in the order of the apps`() throws {
        try make()
        let configuration = try load(
            """
            \(certificate), "apps": {"p12": {"apns_p12_path": "client.p12", "apns_p12_password": "simulator"},
            "key": {"apns_auth_key_path": "AuthKey_SIMKEY0001.p8", "apns_auth_key_id": "SIMKEY0001", "apns_team_id": "SIMTEAM001",
                    "apns_topic": "com.example.other"}}
            """)
        #expect(configuration.settings.apps.map(\.defaultTopic) == ["com.example.app", "com.example.app", "com.example.other"])
        #expect(configuration.settings.apps.map { $0.certificate == nil } == [false, false, true])
        #expect(
            configuration.warningLines.map { String($0.dropFirst(folder.file("settings.json").count + 2)) } == [
                "apps.p12.apns_topic: \"com.example.app\" is the topic of the top level as well; a job "
                    + "that names this topic and no app goes to the top level"
            ])
    }

    @Test func `Roots are read once for all apps that trust the same`() throws {
        try make()
        try File.write(File.read(folder.file("ca.pem")), to: folder.file("other.pem"))
        let file = folder.file("settings.json")
        let app = { (name: String, ca: String) in #""\#(name)": {\#(certificate), "apns_ca_path": "\#(ca)"}"# }
        try File.write(
            """
            {"redis_queue_key": "q", "apns_server": "127.0.0.1:1", \(certificate), "apns_ca_path": "ca.pem",
             "apps": {\(app("a", "ca.pem")), \(app("b", "other.pem")), \(app("c", "ca.pem"))}}
            """, to: file)
        var loader = CredentialLoader(now: now, stateFolder: nil)
        var apps = try Configuration.read(SettingsFile(path: file)).settings.apps
        loader.load(&apps)
        #expect(apps.map { $0.setup != nil } == [true, true, true, true])
        #expect(Set(loader.roots.keys) == [folder.file("ca.pem"), folder.file("other.pem")])
    }

    @Test func `A key or a certificate may begin with a byte order mark and end with blanks`() throws {
        try make()
        for name in ["client.pem", "client-key.pem", "AuthKey_SIMKEY0001.p8"] {
            try File.write("\u{FEFF}" + File.read(folder.file(name)) + " \n\n", to: folder.file(name))
        }
        #expect(try load(certificate).settings.apps.count == 1)
        let key = #""apns_auth_key_id": "SIMKEY0001", "apns_team_id": "SIMTEAM001""#
        #expect(try load(#""apns_auth_key_path": "AuthKey_SIMKEY0001.p8", \#(key)"#).settings.apps.count == 1)
    }

    @Test func `One file may hold certificate and key`() throws {
        try make()
        let both = File.read(folder.file("client.pem")) + File.read(folder.file("client-key.pem"))
        try File.write(both, to: folder.file("both.pem"))
        #expect(try load(#""apns_cert_path": "both.pem""#).settings.apps.count == 1)
        #expect(try load(#""apns_cert_path": "both.pem", "apns_key_path": "both.pem""#).settings.apps.count == 1)
    }

    @Test func `Every unreadable file is reported at once, with its key`() throws {
        #expect(
            try faults(
                #""apns_cert_path": "c.pem", "apns_key_path": "k.pem", "apns_ca_path": "ca.pem", "#
                    + #""apps": {"a": {"apns_p12_path": "a.p12"}}"#
            )
            .map { String($0.prefix { $0 != ":" }) }
                == ["apns_ca_path", "apns_cert_path", "apns_key_path", "apps.a.apns_p12_path"])
        #expect(
            try faults(#""apns_p12_path": "none.p12""#) == [
                "apns_p12_path: \(folder.file("none.p12")) cannot be read: No such file or directory; expected "
                    + "a file that this user can read"
            ])
    }

    @Test func `A file with wrong content is reported with its key, without its content`() throws {
        try make()
        let p12 = try faults(#""apns_p12_path": "client.p12", "apns_p12_password": "hunter2""#)
        #expect(p12.count == 1)
        #expect(
            p12.first?.hasPrefix("apns_p12_password: \(folder.file("client.p12")): the PKCS#12 file's password is wrong; ")
                == true)
        #expect(!p12.joined().contains("hunter2"))
        let key = try faults(
            #""apns_auth_key_path": "client.pem", "apns_auth_key_id": "SIMKEY0001", "apns_team_id": "SIMTEAM001""#)
        #expect(key.count == 1)
        #expect(key.first?.hasPrefix("apns_auth_key_path: ") == true)
        #expect(try faults(#""apns_cert_path": "client.pem""#).first?.hasPrefix("apns_key_path: ") == true)
        #expect(
            try faults(#""apns_cert_path": "client.pem", "apns_key_path": "ca.pem""#)
                == [
                    "apns_key_path: \(folder.file("ca.pem")): no private key found, but a certificate; expected "
                        + "a PEM text with BEGIN PRIVATE KEY"
                ])
        #expect(
            try faults(#""apns_cert_path": "client-key.pem", "apns_key_path": "client.pem""#)
                == [
                    "apns_cert_path: the certificate and the key are swapped; expected apns_cert_path: "
                        + "\(folder.file("client.pem")), apns_key_path: \(folder.file("client-key.pem"))"
                ])
        #expect(
            try faults(#""apns_cert_path": "client.p12", "apns_key_path": "client-key.pem""#).first?.hasSuffix(
                "no certificate found, but a PKCS#12 file; expected a PEM text with BEGIN CERTIFICATE (a PKCS#12 file belongs in "
                    + "apns_p12_path)") == true)
        let text = File.read(folder.file("client.pem")).replacing("\n", with: "\\n")
        try File.write("\"\(text)\"", to: folder.file("quoted.pem"))
        #expect(try faults(#""apns_cert_path": "quoted.pem", "apns_key_path": "client-key.pem""#) == [])
        try File.write("\u{FEFF}" + File.read(folder.file("ca.pem")).replacing("\n", with: "\r"), to: folder.file("ca-cr.pem"))
        #expect(try faults(#"\#(certificate), "apns_ca_path": "ca-cr.pem""#) == [])
        try File.write("no certificate", to: folder.file("empty.pem"))
        #expect(
            try faults(#"\#(certificate), "apns_ca_path": "empty.pem""#) == [
                "apns_ca_path: \(folder.file("empty.pem")) contains no certificates; expected a PEM bundle of root certificates"
            ])
    }

    @Test func `An encrypted signing key is a fault`() throws {
        try make()
        let key = folder.file("AuthKey_SIMKEY0001.p8")
        let openssl = try ChildProcess(
            "openssl", ["pkcs8", "-topk8", "-in", key, "-out", folder.file("locked.p8"), "-passout", "pass:sesame"])
        #expect(openssl.wait(atMost: .seconds(30))?.status == 0)
        let sentence = "the signing key is encrypted; expected an unencrypted one, as Apple issues it"
        let line = "apns_auth_key_path: \(folder.file("locked.p8")): \(sentence)"
        let names = #""apns_auth_key_id": "SIMKEY0001", "apns_team_id": "SIMTEAM001""#
        #expect(try faults(#""apns_auth_key_path": "locked.p8", \#(names)"#) == [line])
        #expect(try faults(#""apns_auth_key_path": "locked.p8""#).last == line)
    }

    @Test(arguments: ["", "\n", "\r\n"])
    func `The empty password of a PKCS#12 file may be in a file`(content: String) throws {
        try make { $0.p12Password = "" }
        try File.write(content, to: folder.file("password"))
        #expect(try load(#""apns_p12_path": "client.p12", "apns_p12_password_file": "password""#).settings.apps.count == 1)
    }

    @Test func `A fault of the settings hides no fault of the files`() throws {
        #expect(
            try faults(#""pool_size": 0, "apns_p12_path": "none.p12""#).map { String($0.prefix { $0 != ":" }) }
                == ["pool_size", "apns_p12_path"])
    }

    private let noCertificate = "no certificate found; expected a PEM text with BEGIN CERTIFICATE"
    private let noKey = "no private key found; expected a PEM text with BEGIN PRIVATE KEY"

    @Test func `A faulty certificate hides no faulty key, and vice versa`() throws {
        try make()
        let rubbish = folder.file("rubbish")
        try File.write("rubbish", to: rubbish)
        func missing(_ name: String) -> String {
            "\(folder.file(name)) cannot be read: No such file or directory; expected a file that this user can read"
        }
        let wrong = ["apns_cert_path: \(rubbish): \(noCertificate)", "apns_key_path: \(rubbish): \(noKey)"]
        #expect(try faults(#""apns_cert_path": "rubbish", "apns_key_path": "rubbish""#) == wrong)
        #expect(try faults(#""apns_cert_path": "client.pem", "apns_key_path": "rubbish""#) == [wrong[1]])
        #expect(try faults(#""apns_cert_path": "rubbish", "apns_key_path": "client-key.pem""#) == [wrong[0]])
        #expect(
            try faults(#""apns_cert_path": "none", "apns_key_path": "rubbish""#) == [
                "apns_cert_path: \(missing("none"))", wrong[1],
            ])
        #expect(
            try faults(#""apns_cert_path": "rubbish", "apns_key_path": "none""#) == [
                wrong[0], "apns_key_path: \(missing("none"))",
            ])
    }

    @Test(arguments: [
        #""apns_auth_key_path": "rubbish", "apns_auth_key_id": "short", "apns_team_id": "SIMTEAM001""#,
        #""apns_auth_key_path": "rubbish", "apns_team_id": "SIMTEAM001""#,
        #""apns_auth_key_path": "rubbish", "apns_p12_password": "x""#,
        #""apns_auth_key_path": "none", "apns_auth_key_id": "short", "apns_team_id": "SIMTEAM001""#,
        #""apns_key_path": "rubbish", "pool_size": 0"#, #""apns_p12_path": "rubbish", "apns_keepalive": 0"#,
        #""apns_p12_path": "rubbish", "apns_p12_password_file": "none""#, #""apns_cert_path": "rubbish", "apns_key_path": 5"#,
    ])
    func `An incomplete credential does not hide faults of its files`(members: String) throws {
        try File.write("rubbish", to: folder.file("rubbish"))
        let faults = try faults(members)
        #expect(faults.count >= 2, "\(faults)")
        let key = members.split(separator: "\"")[0]
        let name = folder.file(members.contains("\": \"rubbish\"") ? "rubbish" : "none")
        #expect(faults.count { $0.hasPrefix("\(key): \(name)") } == 1, "\(faults)")
        #expect(try self.faults(members, server: "x").count >= 2)
    }

    @Test func `The files of faulty apps are checked`() throws {
        try File.write("rubbish", to: folder.file("rubbish"))
        let file = folder.file("settings.json")
        try File.write(
            #"{"redis_queue_key": "q", "apps": {"a": {"apns_cert_path": "rubbish", "apns_key_path": "rubbish"}, "#
                + #""b": {"apns_p12_path": "rubbish", "apns_p12_path": 1}}}"#,
            to: file)
        let refusal = #expect(throws: SettingsErrors.self) { try Configuration.load(SettingsFile(path: file)) }
        #expect(
            refusal?.faults.map(\.key) == [
                "apps.b.apns_p12_path", "apps.a.apns_server", "apps.b.apns_server", "apps.a.apns_cert_path",
                "apps.a.apns_key_path",
                "apps.b.apns_p12_path",
            ])
    }

    @Test func `A file that is not PKCS#12 is a fault`() throws {
        try File.write("rubbish", to: folder.file("rubbish"))
        #expect(
            try faults(#""apns_p12_path": "rubbish""#) == [
                "apns_p12_path: \(folder.file("rubbish")): not a PKCS#12 file, or damaged; expected "
                    + "a .p12 file as the Keychain exports it"
            ])
    }

    @Test func `A topic that the certificate lacks is a fault that names its topics`() throws {
        try make()
        #expect(
            try faults(#"\#(certificate), "apns_topic": "com.example.ap""#) == [
                "apns_topic: \"com.example.ap\" is not a topic of the certificate; expected "
                    + "com.example.app or com.example.app.voip"
            ])
        #expect(
            try load(#"\#(certificate), "apns_topic": "com.example.app.voip""#).settings.apps.map(\.defaultTopic) == [
                "com.example.app.voip"
            ])
    }

    @Test func `A signing key without a topic is allowed, with a warning`() throws {
        try make()
        let key =
            #""apns_auth_key_path": "AuthKey_SIMKEY0001.p8", "apns_auth_key_id": "SIMKEY0001", "apns_team_id": "SIMTEAM001""#
        #expect(try load(key).settings.apps.map(\.defaultTopic) == [nil])
        #expect(try warnings(key) == ["apns_topic: no default topic; each job must name its topic"])
    }

    @Test(arguments: [(31, nil), (30, "30 days"), (7, "7 days"), (1, "1 day"), (0, "less than a day")] as [(Int64, String?)])
    func `A certificate that expires within 30 days causes a warning`(days: Int64, left: String?) throws {
        try make { $0.clientValidity = -3600...(40 * 86_400) }
        // Half a day is far from both limits, whatever time the test takes.
        let moment = now + (40 - days) * 86_400 - 43_200
        let expected = left.map {
            ["apns_cert_path: the certificate expires in \($0); create a new one in the developer account"]
        }
        #expect(try warnings(certificate, now: moment) == expected ?? [])
    }

    @Test func `An expired certificate is a fault`() throws {
        try make { $0.clientValidity = -7200 ... -3600 }
        let faults = try faults(certificate)
        #expect(faults.count == 1)
        #expect(faults.first?.contains("the certificate expired on ") == true)
    }

    @Test func `A certificate for another environment than the server causes a warning`() throws {
        try make { $0.clientEnvironments = [.sandbox] }
        #expect(
            try warnings(certificate, server: "production") == [
                "apns_server: api.push.apple.com does not match the certificate, which is for the sandbox only; set "
                    + "\"sandbox\", or use another certificate"
            ])
        #expect(try warnings(certificate, server: "sandbox") == [])
        #expect(try warnings(certificate) == [])
    }
}
