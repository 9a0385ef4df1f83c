import PushPool
import Testing

@testable import gaplessd

@Suite("Apps and their credentials in the settings")
struct SettingsAppsTests {
    private let folder = SettingsFolder()
    private let server = #""apns_server": "sandbox""#
    private let key = #""apns_auth_key_path": "k.p8", "apns_auth_key_id": "ABCDE12345", "apns_team_id": "TEAM123456""#

    private func read(_ members: String) throws -> [Settings.App] {
        try folder.read(#"{"redis_queue_key": "q", "# + members + "}").settings.apps
    }

    private func faults(_ members: String) -> [String] { folder.faults(#"{"redis_queue_key": "q", "# + members + "}") }

    @Test func `An app inherits what it does not set, but no credential and no topic`() throws {
        let apps = try read(
            """
            "apns_server": "production", \(key), "apns_topic": "com.example.main", "apns_ca_path": "/ca.pem", \
            "apns_keepalive": 30, \
            "apps": {"beta": {"apns_server": "sandbox", "apns_cert_path": "c.pem", "apns_request_timeout": 5}}
            """)
        #expect(apps.map(\.name) == [nil, "beta"])
        #expect(apps.map(\.pool.host) == ["api.push.apple.com", "api.sandbox.push.apple.com"])
        #expect(apps.map(\.topic) == ["com.example.main", nil])
        #expect(apps.map(\.pool.extraRootsPath) == ["/ca.pem", "/ca.pem"])
        #expect(apps.map(\.pool.keepAlive) == [.seconds(30), .seconds(30)])
        #expect(apps.map(\.pool.requestTimeout) == [.seconds(15), .seconds(5)])
        #expect(apps.last?.source == .certificate(path: folder.file("c.pem"), keyPath: nil, password: nil))
    }

    @Test func `Without a credential the top level is not an app, and apps inherit its keys`() throws {
        let apps = try read(#""apns_server": "sandbox", "apps": {"z": {\#(key)}, "_note": {}, "a": {"apns_p12_path": "a.p12"}}"#)
        #expect(apps.map(\.name) == ["z", "a"])
        #expect(apps.last?.source == .pkcs12(path: folder.file("a.p12"), password: nil))
    }

    @Test func `An app may have its own server without one at the top level`() throws {
        #expect(
            try read(#""apps": {"a": {"apns_server": "sandbox", \#(key)}}"#).map(\.pool.host) == ["api.sandbox.push.apple.com"])
        #expect(
            faults(#""apps": {"a": {\#(key)}}"#) == [
                "apps.a.apns_server: required key is missing; expected \"production\", \"sandbox\" or \"host:port\""
            ])
    }

    private let choice =
        "one kind of credential: apns_auth_key_path with apns_auth_key_id and apns_team_id, "
        + "or apns_cert_path with apns_key_path, or apns_p12_path"

    @Test func `An app needs exactly one kind of credential`() {
        #expect(faults(server) == ["apns_auth_key_path: no credential is given; expected \(choice)"])
        #expect(
            faults(#"\#(server), \#(key), "apns_cert_path": "c", "apns_p12_path": "p""#) == [
                "apns_auth_key_path: conflicts with apns_cert_path and apns_p12_path; expected \(choice)"
            ])
        #expect(
            faults(#"\#(server), "apps": {"a": {}}"#) == [
                "apps.a.apns_auth_key_path: no credential is given; expected \(choice)"
            ])
    }

    @Test(arguments: [
        (
            #""apns_auth_key_path": "k.p8", "apns_team_id": "TEAM123456""#, "apns_auth_key_id",
            "apns_auth_key_path with apns_auth_key_id and apns_team_id"
        ),
        (#""apns_key_path": "k.pem""#, "apns_cert_path", "apns_cert_path with apns_key_path"),
        (#""apns_p12_password": "x""#, "apns_p12_path", "apns_p12_path"),
    ])
    func `An incomplete credential names the missing key`(members: String, missing: String, expected: String) {
        #expect(faults("\(server), \(members)") == ["\(missing): required key is missing; expected \(expected)"])
    }

    @Test(arguments: ["ABCDE1234", "ABCDE123456", "ABCDE 1234", "äBCDE12345"])
    func `An identifier that Apple does not issue is a fault`(id: String) {
        #expect(
            faults(#"\#(server), "apns_auth_key_path": "k", "apns_auth_key_id": "\#(id)", "apns_team_id": "TEAM123456""#) == [
                "apns_auth_key_id: invalid value \"\(id)\"; expected the 10 letters and digits that Apple shows for it"
            ])
    }

    @Test func `A topic at the top level without a credential is a fault`() {
        #expect(
            faults(#"\#(server), "apns_topic": "com.x", "apps": {"a": {\#(key)}}"#) == [
                "apns_topic: requires a credential; expected a credential at the top level, or a topic in each of apps"
            ])
    }

    @Test func `Keys of the daemon are not keys of an app, and a fault names its app`() {
        #expect(
            faults(#"\#(server), "apps": {"a": {\#(key), "pool_size": 3, "apns_topik": "x", "apns_keepalive": 0}}"#) == [
                "apps.a.pool_size: not a key of an app; expected this key at the top level",
                "apps.a.apns_topik: unknown key; expected a known key: did you mean \"apns_topic\"?",
                "apps.a.apns_keepalive: 0 is out of range; expected a number of seconds from 0.001 to 3600",
            ])
        #expect(
            faults(#"\#(server), "apps": {"a": {\#(key), "apns_dial_backoff_min": 90}, "b": {\#(key)}}"#) == [
                "apps.a.apns_dial_backoff_min: apns_dial_backoff_min 90 is above apns_dial_backoff_max 60; expected "
                    + "a minimum up to the maximum"
            ])
    }

    @Test func `The name of an app is unique and not empty`() {
        #expect(
            faults(#"\#(server), "apps": {"a": {\#(key)}, "a": {\#(key)}}"#) == [
                "apps.a: duplicate app; expected a different name for each app"
            ])
        #expect(
            faults(#""apps": {"": {\#(server), \#(key)}}"#) == [
                "apps.\"\": the name is empty; expected the name that jobs give as \"app\""
            ])
    }

    @Test func `An app that is not an object does not hide faults of other apps`() {
        #expect(
            faults(#""apps": {"b": 1, "_c": 2, "d": {"apns_server": "xx"}}"#) == [
                "apps.b: invalid value 1; expected an object, such as {\"apns_server\": \"sandbox\", …}",
                "apps.d.apns_server: invalid value \"xx\"; expected \"production\", \"sandbox\" or \"host:port\"",
                "apps.d.apns_auth_key_path: no credential is given; expected \(choice)",
            ])
    }

    @Test func `The top level needs no credential beside faulty apps`() {
        #expect(faults(#""apps": {"b": 1}"#).map { $0.prefix { $0 != ":" } } == ["apps.b"])
        #expect(faults(#""apps": 1"#).map { $0.prefix { $0 != ":" } } == ["apps"])
    }

    @Test func `An inherited fault is reported once`() {
        #expect(
            faults(#""apns_server": "nowhere", \#(key), "apps": {"a": {\#(key)}}"#) == [
                "apns_server: invalid value \"nowhere\"; expected \"production\", \"sandbox\" or \"host:port\""
            ])
        #expect(
            faults(#"\#(server), \#(key), "apns_dial_backoff_min": 90, "apps": {"a": {\#(key)}}"#).map { $0.prefix { $0 != ":" } }
                == ["apns_dial_backoff_min"])
    }

    @Test func `A faulty credential at the top level is not inherited`() {
        #expect(
            faults(#"\#(server), "apns_p12_path": 5, "apps": {"a": {"apns_p12_path": "p"}}"#) == [
                "apns_p12_path: invalid value 5; expected a file path"
            ])
    }

    @Test func `A password may be empty or in a file`() throws {
        folder.write("pass\n", to: "pass")
        #expect(
            try read(#"\#(server), "apns_p12_path": "/p", "apns_p12_password": """#).map(\.source)
                == [.pkcs12(path: "/p", password: Secret(""))])
        #expect(
            try read(
                #"\#(server), "apns_cert_path": "/c", "apns_key_path": "/k", "apns_key_password_file": "pass""#
            )
            .map(\.source) == [.certificate(path: "/c", keyPath: "/k", password: Secret("pass"))])
    }
}
