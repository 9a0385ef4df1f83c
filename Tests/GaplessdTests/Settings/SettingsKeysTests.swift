import HTTP1
import Harness
import RedisQueue
import Testing

@testable import gaplessd

@Suite("Misleading settings: a password in another key, a host with a port, a key of Redis with two purposes")
struct SettingsKeysTests {
    private let folder = SettingsFolder()

    @Test(arguments: [
        ("redis_netaddress", #""redis://:SECRET@h:1""#), ("redis_host", #""user:SECRET @h""#),
        ("redis_host", #""user:SECRET@h""#), ("redis_host", #""redis://:SECRET""#), ("apns_server", #""https://u:SECRET@h""#),
        ("metrics_listen", #""u:SECRET@h:1""#), ("redis_sentinels", #"["u:SECRET@h:1"]"#), ("pool_size", #""SECRET@h""#),
        ("apns_proxy", #""http://u:SECRET@h""#), ("redis_password", #"["SECRET"]"#),
    ])
    func `A value that may contain a password is not shown`(key: String, value: String) {
        let apns = key == "apns_server" ? smallestAPNS.replacing(#""apns_server": "sandbox", "#, with: "") : smallestAPNS
        let faults = folder.faults(settings("\"\(key)\": \(value)", apns: apns))
        #expect(faults.contains { $0.hasPrefix("\(key): ") && ($0.contains("(hidden: ") || key == "apns_proxy") }, "\(faults)")
        #expect(!faults.joined().contains("SECRET"), "\(faults)")
    }

    /// Every key whose value is a path, with what it needs beside it.
    private static let paths: [String] = SettingsTable.keys.compactMap { key in
        key.traits.namesFile || key.traits.expected == SettingType<String>.path.traits.expected ? key.name : key.fileName
    }

    private static let keyTexts = [
        #"-----BEGIN PRIVATE KEY-----\\nSECRETMIGTAgEAMBMG\\n-----END PRIVATE KEY-----"#,
        "NIST5P256MIDDLEofAKeyAgEAMBMGByqGSM49SECRETSECRET",
        "-----BEGIN PRIVATE KEY-----\nSECRETMIGTAgEAMBMGByqGSM49\n-----END PRIVATE KEY-----\n",
        "-----BEGIN PRIVATE KEY----- SECRETMIGTAgEAMBMGByqGSM49 -----END PRIVATE KEY-----", "SECRET\r\nMIGTAgEA",
        "MIGTAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBHkwdwIBAQQgSECRETSECRETSECRETSECRET+/=",
        "LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCk1JR1RBZ0VBTUJNR0J5cUdTTTQ5QWdFSECRET",
    ]

    /// CR LF is one character of a string, but two scalars.
    private static func escaped(_ text: String) -> String {
        text.unicodeScalars.map { $0 == "\r" ? "\\r" : $0 == "\n" ? "\\n" : String($0) }.joined()
    }

    @Test func `The text of a key where a path belongs is not shown`() {
        #expect(Self.paths.count >= 15, "\(Self.paths)")
        for key in Self.paths {
            for text in Self.keyTexts + ["${KEY}"] {
                let value = Self.escaped(text)
                let apns = key.hasPrefix("apns_auth") ? #""apns_server": "sandbox""# : smallestAPNS
                let faults = folder.faults(
                    settings("\"\(key)\": \"\(value)\"", apns: apns), environment: ["KEY": Self.keyTexts[0]])
                let shown = faults.filter { $0.hasPrefix("\(key): ") }
                #expect(
                    shown.contains { $0.hasPrefix("\(key): the value is the key or the certificate itself (hidden); ") },
                    "\(key): \(faults)")
                #expect(!faults.joined().contains("SECRET") && !faults.joined().contains("BEGIN"), "\(key): \(faults)")
            }
        }
    }

    @Test(arguments: ["redis_netaddress", "apns_auth_key_id", "apns_topic", "redis_host", "apns_server", "log_format"])
    func `The text of a key in another key is not shown`(key: String) {
        for text in Self.keyTexts {
            let json = Self.escaped((key == "redis_netaddress" ? "unix:" : "") + text)
            let faults = folder.faults(#"{"redis_queue_key": "q", "\#(key)": "\#(json)"}"#)
            #expect(!faults.joined().contains("SECRET"), "\(faults)")
        }
    }

    @Test func `A password where its file belongs is not shown`() {
        for key in SettingsTable.keys.compactMap(\.fileName) {
            let file = SettingsFile(path: folder.write(settings("\"\(key)\": \"SECRET.pass/word\"")))
            var faults: [String] = []
            do throws(SettingsErrors) { _ = try Configuration.load(file) } catch { faults = error.faults.map(\.line) }
            #expect(faults.contains { $0.hasPrefix("\(key): the file (hidden: it may be the secret itself) cannot be read: ") })
            #expect(!faults.joined().contains("SECRET"), "\(faults)")
        }
        #expect(folder.faults(settings(#""redis_password_file": "./none""#)).joined().contains(folder.file("./none")))
    }

    @Test(arguments: [
        ("[::1]", "::1"), ("::1", "::1"), ("fe80::1%eth0", "fe80::1%eth0"), ("redis.example.com", "redis.example.com"),
    ])
    func `A host may be an IPv6 address, with brackets or without`(host: String, address: String) throws {
        let read = try folder.read(settings("\"redis_host\": \"\(host)\"")).settings
        #expect(read.redis.server == .tcp(host: address, port: 6379))
    }

    @Test(arguments: [
        (
            #""redis_queue_key": "w1", "redis_results_key": "w1""#,
            "redis_results_key: \"w1\" is a list of redis_queue_key; expected a key that nothing else uses"
        ),
        (
            #""redis_queue_key": ["w1", "w2"], "redis_results_key": "{w2}:gapless:dead""#,
            "redis_results_key: \"{w2}:gapless:dead\" is a key that gaplessd keeps for the list \"w2\"; expected "
                + "a key that nothing else uses"
        ),
        (
            #""redis_queue_key": ["{w1}:gapless:dead", "w1"]"#,
            "redis_queue_key: \"{w1}:gapless:dead\" is a key that gaplessd keeps for the list \"w1\"; expected "
                + "a list with another name"
        ),
        (
            #""redis_queue_key": ["w1", "{w1}"]"#,
            "redis_queue_key: \"w1\" and \"{w1}\" would share the keys of gaplessd; expected "
                + "lists whose names differ in more than {}"
        ),
    ])
    func `A key of Redis has one purpose`(members: String, line: String) {
        #expect(folder.faults("{\(smallestAPNS), \(members)}") == [line])
    }

    @Test func `A variable that is unset or empty, and an unclosed one, are faults`() {
        let members = #""redis_socket_path": "${EMPTY}/r", "filter_words_path": "${NOPE}/w", "apns_ca_path": "${NOPE""#
        let expected = "expected a variable that is set and not empty"
        #expect(
            folder.faults(settings(members), environment: ["EMPTY": ""]) == [
                "redis_socket_path: the environment variable EMPTY is empty; \(expected)",
                "filter_words_path: the environment variable NOPE is not set; \(expected)",
                "apns_ca_path: \"${\" without \"}\"; expected ${NAME}",
            ])
    }

    @Test(arguments: [
        "0.0.0.0:9464", "[::]:9464", "0:9464", "*:9464", "0x0:9464", "0.0:9464", "[0:0::0]:9464", "[::0.0.0.0]:9464",
        "[::ffff:0.0.0.0]:9464", "[::ffff:0:0]:9464",
    ])
    func `metrics at every address of the machine cause a warning`(address: String) throws {
        let warnings = try folder.read(settings("\"metrics_listen\": \"\(address)\"")).warnings
        #expect(warnings.map(\.key) == ["metrics_listen"] && warnings[0].problem.contains("every address of this machine"))
    }

    @Test(arguments: ["127.0.0.1:9464", "[::1]:9464", "10.0.0.1:0", "[::ffff:127.0.0.1]:0", "m.example:0"])
    func `metrics at one address cause none`(address: String) throws {
        #expect(try folder.read(settings("\"metrics_listen\": \"\(address)\", \"metrics_hosts\": [\"m\"]")).warnings.isEmpty)
    }

    @Test func `metrics at * are reachable in both families`() throws {
        let address = try #require(HostAndPort(listening: "*:0"))
        let server = try StatusServer(host: address.host, port: address.port) { _ in nil }
        defer { server.close() }
        for isIPv6 in [false, true] {
            #expect(HTTPTalk.get("/", port: server.port, isIPv6: isIPv6)?.status == 404)
        }
    }

    @Test func `metrics_hosts without metrics_listen causes a warning`() throws {
        let reading = try folder.read(settings(#""metrics_hosts": ["m.example", "::1"]"#))
        #expect(reading.settings.metricsHosts == ["m.example", "::1"])
        #expect(reading.warnings.map(\.key) == ["metrics_hosts"])
    }

    @Test func `the files of the settings are known, also of faulty ones`() throws {
        folder.write("hush\n", to: "secret")
        let members = #""redis_password_file": "secret", "apns_ca_path": "/ca.pem", "redis_socket_path": "redis.sock""#
        let files: Set = [folder.file("settings.json"), folder.file("secret"), "/ca.pem", folder.file("k.p8")]
        #expect(try folder.read(settings(members)).files == files)
        do {
            _ = try folder.read(settings(members + #", "pool_size": 0"#))
            Issue.record("the settings are faulty")
        } catch {
            #expect(error.files == files)
        }
    }
}
