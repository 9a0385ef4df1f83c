import APNSSimulator
import Harness
import JSONBytes
import Testing

@testable import gaplessd

@Suite("gaplessd check --effective")
struct EffectiveCallTests {
    private let folder = TemporaryFolder()
    private let file: String

    init() throws {
        try Credentials.make().write(to: folder.path)
        try File.write("hunter2\n", to: folder.file("password"))
        file = folder.file("settings.json")
        try File.write(
            """
            {"apns_server": "gateway.sandbox.push.apple.com:2195", "apns_cert_path": "client.pem",
             "apns_key_path": "client-key.pem", "redis_queue_key": "q", "redis_password_file": "password", "pool_size": 3,
             "log_successes": 0.5,
             "apps": {"key": {"apns_auth_key_path": "AuthKey_SIMKEY0001.p8", "apns_auth_key_id": "SIMKEY0001",
                              "apns_team_id": "SIMTEAM001", "apns_keepalive": 7.5, "apns_topic": "com.example.key"}}}
            """, to: file)
    }

    @Test func `prints every setting with its origin and value, and no secret`() throws {
        let call = try Call(["check", "--effective", file])
        #expect(call.status == 0, "\(call.errors)")
        let rows = call.output.split(separator: "\n").map { $0.split(separator: " ", omittingEmptySubsequences: true) }
        func row(_ key: String) -> String? { rows.first { $0[0] == key }?.dropFirst().joined(separator: " ") }
        #expect(row("apns_server") == "file sandbox")
        #expect(row("apns_topic") == "derived com.example.app")
        #expect(row("apns_management_server") == "derived api-manage-broadcast.sandbox.push.apple.com:2195")
        #expect(row("apps.key.apns_management_server") == "derived api-manage-broadcast.sandbox.push.apple.com:2195")
        #expect(row("pool_size") == "file 3" && row("pool_max_size") == "derived 3")
        #expect(row("log_successes") == "file 0.5" && row("log_format") == "default text")
        #expect(row("redis_queue_key") == #"file ["q"]"#)
        #expect(row("redis_password") == "redis_password_file set" && row("apns_key_password") == "- not set")
        #expect(row("apns_key_path") == "file \(folder.file("client-key.pem"))")
        #expect(row("apps.key.apns_keepalive") == "file 7.5" && row("apps.key.apns_server") == "inherited sandbox")
        #expect(row("apps.key.apns_topic") == "file com.example.key" && row("apps.key.apns_cert_path") == "- not set")
        for key in SettingsTable.keys where key.name != "apps" { #expect(row(key.name) != nil, "\(key.name)") }
        #expect(!call.output.contains("hunter2"))
    }

    @Test(arguments: [
        (#""redis_socket_path": "/r""#, "- not set", "- not set"), (#""redis_netaddress": "unix:/r""#, "- not set", "- not set"),
        (#""redis_netaddress": "tcp:r:7000""#, "derived r", "derived 7000"),
        (#""redis_sentinels": ["s:1"], "redis_sentinel_master": "m""#, "- not set", "- not set"),
        (#""redis_port": 7000"#, "default 127.0.0.1", "file 7000"),
        (#""redis_socket_path": "/r", "redis_host": "r""#, "file r", "- not set"),
    ])
    func `host and port of Redis have a value only if they are used`(members: String, host: String, port: String) throws {
        try File.write(File.read(file).replacing(#""pool_size": 3"#, with: members), to: file)
        let call = try Call(["check", "--effective", file])
        let rows = call.output.split(separator: "\n").map { $0.split(separator: " ", omittingEmptySubsequences: true) }
        func row(_ key: String) -> String? { rows.first { $0[0] == key }?.dropFirst().joined(separator: " ") }
        #expect(row("redis_host") == host && row("redis_port") == port, "\(call)")
    }

    @Test func `--json prints the same with typed values`() throws {
        let call = try Call(["check", "--effective", "--json", file])
        guard case .array(let rows) = try JSONValue.parse(Array(call.output.utf8)) else { throw HarnessError("no array") }
        func row(_ key: String, app: String? = nil) -> JSONValue? {
            rows.first { $0["key"]?.stringValue == key && $0["app"]?.stringValue == app }
        }
        #expect(row("pool_size")?["value"]?.integerValue == 3 && row("pool_size")?["origin"]?.stringValue == "file")
        #expect(row("redis_queue_key")?["value"] == .array([.string("q")]))
        #expect(row("redis_tls")?["value"] == .bool(false))
        #expect(row("redis_password")?["value"]?.stringValue == "set")
        #expect(row("redis_socket_path")?["value"] == .null)
        #expect(row("apns_team_id", app: "key")?["value"]?.stringValue == "SIMTEAM001")
        #expect(!call.output.contains("hunter2"))
    }

    @Test func `faults of the settings are reported as by check`() throws {
        try File.write("{}", to: file)
        #expect(try Call(["check", "--effective", file]).status == 78)
        #expect(try Call(["check", "--json", file]).status == 78)
        #expect(try Call(["check", "--effective", "--prove", file]).status == 64)
    }
}
