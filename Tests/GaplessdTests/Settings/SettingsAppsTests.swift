import PushPool
import Testing

@testable import gaplessd

@Suite("Apps and their credentials in the settings")
struct SettingsAppsTests {
    private let folder = SettingsFolder()
    private let key = #""apns_auth_key_path": "k.p8", "apns_auth_key_id": "ABCDE12345", "apns_team_id": "TEAM123456""#

    private func read(_ members: String) throws -> [Settings.App] {
        try folder.read(#"{"redis_queue_key": "q", "# + members + "}").settings.apps
    }

    private func faults(_ members: String) -> [String] { folder.faults(#"{"redis_queue_key": "q", "# + members + "}") }

    @Test func `An app inherits what it does not set, but no credential and no topic`() throws {
        let apps = try read(
            """
            "apns_server": "production", \(key), "apns_topic": "com.example.main", "apns_ca_path": "/ca.pem", "apns_keepalive": 30, \
            "apps": {"beta": {"apns_server": "sandbox", "apns_cert_path": "c.pem", "apns_request_timeout": 5}}
            """)
        #expect(apps.map(\.name) == [nil, "beta"])
        #expect(apps.map(\.pool.host) == ["api.push.apple.com", "api.sandbox.push.apple.com"])
        #expect(apps.map(\.topic) == ["com.example.main", nil])
        #expect(apps.map(\.pool.extraRootsPath) == ["/ca.pem", "/ca.pem"])
        #expect(apps.map(\.pool.keepAlive) == [.seconds(30), .seconds(30)])
        #expect(apps.map(\.pool.requestTimeout) == [.seconds(15), .seconds(5)])
        #expect(apps.last?.credential == .certificate(path: folder.file("c.pem"), keyPath: nil, password: nil))
    }

    @Test func `Without a credential of its own the top level is no app, only what the others inherit`() throws {
        let apps = try read(#""apns_server": "sandbox", "apps": {"z": {\#(key)}, "_note": {}, "a": {"apns_p12_path": "a.p12"}}"#)
        #expect(apps.map(\.name) == ["z", "a"])
        #expect(apps.last?.credential == .pkcs12(path: folder.file("a.p12"), password: nil))
    }

    @Test func `Each of several apps may have its own server and none above`() throws {
        #expect(
            try read(#""apps": {"a": {"apns_server": "sandbox", \#(key)}}"#).map(\.pool.host) == ["api.sandbox.push.apple.com"])
        #expect(
            faults(#""apps": {"a": {\#(key)}}"#) == [
                "apps.a.apns_server: is missing; \"production\", \"sandbox\" or \"host:port\" would be right"
            ])
    }

    @Test func `Exactly one kind of credential is right`() {
        let choice =
            "one kind of credential would be right: apns_auth_key_path with apns_auth_key_id and apns_team_id, or apns_cert_path with apns_key_path, or apns_p12_path"
        #expect(
            faults(#""apns_server": "sandbox""#) == [
                "apns_auth_key_path: is missing, and so is every other credential; \(choice)"
            ])
        #expect(
            faults(#""apns_server": "sandbox", \#(key), "apns_cert_path": "c", "apns_p12_path": "p""#) == [
                "apns_auth_key_path: is given beside apns_cert_path and apns_p12_path; \(choice)"
            ])
        #expect(
            faults(#""apns_server": "sandbox", "apps": {"a": {}}"#) == [
                "apps.a.apns_auth_key_path: is missing, and so is every other credential; \(choice)"
            ])
    }

    @Test func `Half a credential says what is missing`() {
        #expect(
            faults(#""apns_server": "sandbox", "apns_auth_key_path": "k.p8", "apns_team_id": "TEAM123456""#) == [
                "apns_auth_key_id: is missing; apns_auth_key_path with apns_auth_key_id and apns_team_id would be right"
            ])
        #expect(
            faults(#""apns_server": "sandbox", "apns_key_path": "k.pem""#) == [
                "apns_cert_path: is missing; apns_cert_path with apns_key_path would be right"
            ])
        #expect(
            faults(#""apns_server": "sandbox", "apns_p12_password": "x""#) == [
                "apns_p12_path: is missing; apns_p12_path would be right"
            ])
    }

    @Test(arguments: ["ABCDE1234", "ABCDE123456", "ABCDE 1234", "äBCDE12345"])
    func `A key or team that Apple would not name so is a fault`(id: String) {
        let faults = faults(
            #""apns_server": "sandbox", "apns_auth_key_path": "k", "apns_auth_key_id": "\#(id)", "apns_team_id": "TEAM123456""#)
        #expect(
            faults == [
                "apns_auth_key_id: is \"\(id)\", a string; the 10 letters and digits that Apple shows for it would be right"
            ])
    }

    @Test func `A topic at the top level that no app would use is a fault`() {
        #expect(
            faults(#""apns_server": "sandbox", "apns_topic": "com.x", "apps": {"a": {\#(key)}}"#) == [
                "apns_topic: is given without a credential; a credential beside it, or a topic in each of apps, would be right"
            ])
    }

    @Test func `Keys of the daemon are not keys of an app, and faults there carry its name`() {
        #expect(
            faults(#""apns_server": "sandbox", "apps": {"a": {\#(key), "pool_size": 3, "apns_topik": "x", "apns_keepalive": 0}}"#)
                == [
                    "apps.a.pool_size: is a key of the whole daemon, not of one app; it would be right at the top level",
                    "apps.a.apns_topik: is no known key; did you mean apns_topic?",
                    "apps.a.apns_keepalive: is 0; a number of seconds from 0.001 to 3600 would be right",
                ])
    }

    @Test func `The same app twice is a fault`() {
        #expect(
            faults(#""apns_server": "sandbox", "apps": {"a": {\#(key)}, "a": {\#(key)}}"#) == [
                "apps.a: is there more than once; a name of its own for each app would be right"
            ])
    }

    @Test func `An app that is no object is named, and hides nothing of the others`() {
        let choice = "apps.d.apns_auth_key_path: is missing, and so is every other credential; "
        let faults = faults(#""apps": {"b": 1, "_c": 2, "d": {"apns_server": "xx"}}"#)
        #expect(
            faults.prefix(2) == [
                "apps.b: is 1; an object, such as {\"apns_server\": \"sandbox\", …}, would be right",
                "apps.d.apns_server: is \"xx\", a string; \"production\", \"sandbox\" or \"host:port\" would be right",
            ])
        #expect(faults.count == 3 && faults.last?.hasPrefix(choice) == true, "\(faults)")
    }

    @Test func `Faulty apps do not make the top level one`() {
        #expect(self.faults(#""apps": {"b": 1}"#).map { $0.prefix { $0 != ":" } } == ["apps.b"])
        #expect(self.faults(#""apps": 1"#).map { $0.prefix { $0 != ":" } } == ["apps"])
        #expect(
            faults(#""apps": {"": {"apns_server": "sandbox", \#(key)}}"#) == [
                "apps.\"\": is an app without a name; a name that jobs give as \"app\" would be right"
            ])
    }

    @Test func `A fault that is inherited is told once`() {
        #expect(
            faults(#""apns_server": "nowhere", \#(key), "apps": {"a": {\#(key)}}"#) == [
                "apns_server: is \"nowhere\", a string; \"production\", \"sandbox\" or \"host:port\" would be right"
            ])
    }

    @Test func `Passwords of keys may be empty, and may lie in files`() throws {
        folder.write("pass\n", to: "pass")
        #expect(
            try read(#""apns_server": "sandbox", "apns_p12_path": "/p", "apns_p12_password": """#).map(\.credential)
                == [.pkcs12(path: "/p", password: Secret(""))])
        #expect(
            try read(
                #""apns_server": "sandbox", "apns_cert_path": "/c", "apns_key_path": "/k", "apns_key_password_file": "pass""#
            )
            .map(\.credential) == [.certificate(path: "/c", keyPath: "/k", password: Secret("pass"))])
    }
}
