import Glibc
import Harness
import PushPool
import RedisQueue
import Testing

@testable import gaplessd

@Suite("Settings from the environment, and Redis in one URL")
struct SettingsSourcesTests {
    private let folder = SettingsFolder()

    /// A valid value of each secret.
    private static let values = [
        "apns_proxy": "http://u:SECRET@p:1", "redis_url": "redis://:SECRET@h", "relay_url": "https://r.example/SECRET",
        "relay_headers": #"{"Authorization": "SECRET"}"#,
    ]
    /// What a key needs beside it.
    private static let companions = [
        "redis_sentinel_password": #", "redis_sentinels": ["a:1"], "redis_sentinel_master": "m""#
    ]

    @Test func `Each secret may come from an environment variable`() throws {
        #expect(SettingsTable.keys.count { $0.variableName != nil } >= 9)
        for setting in SettingsTable.keys {
            guard let key = setting.variableName else { continue }
            let isOfKey = ["apns_key_password", "apns_p12_password"].contains(setting.name)
            let apns =
                isOfKey
                ? #""apns_server": "sandbox", "\#(setting.name.replacing("password", with: "path"))": "f""#
                    + (setting.name == "apns_key_password" ? #", "apns_cert_path": "c""# : "") : smallestAPNS
            let members = #""\#(key)": "THE_SECRET""# + (Self.companions[setting.name] ?? "")
            let text = settings(members, apns: apns)
            let value = Self.values[setting.name] ?? "SECRET"
            let reading = try folder.read(text, environment: ["THE_SECRET": value + "\n"])
            let line = try #require(EffectiveSettings(reading).lines.first { $0.hasPrefix(setting.name + " ") })
            #expect(line.split(separator: " ") == [Substring(setting.name), Substring(key), "set"])
            let faults = folder.faults(text) + reading.settings.apps.flatMap(\.faults).map(\.line)
            if setting.scope == .eachApp {
                // Concerns its app alone.
                var app: [SettingsError] = []
                if let read = try? folder.read(text) { app = read.settings.apps.flatMap(\.faults) }
                #expect(app.map(\.problem) == ["the environment variable THE_SECRET is not set"], "\(key): \(app)")
            } else {
                #expect(
                    faults.first == "\(key): the environment variable THE_SECRET is not set; expected "
                        + "the name of an environment variable that contains the value of \(setting.name)", "\(key): \(faults)")
            }
            #expect(!faults.joined().contains("SECRET@") && !EffectiveSettings(reading).lines.joined().contains("SECRET@"))
        }
    }

    @Test func `A secret where the name of its variable belongs is not shown`() {
        for key in SettingsTable.keys.compactMap(\.variableName) {
            for text in ["hunter2hidden", "hunter2-hidden!", "HUNTER2HIDDEN", #"-----BEGIN PRIVATE KEY-----\nhunter2"#] {
                let file = SettingsFile(path: folder.write(settings("\"\(key)\": \"\(text)\""))) { _ in nil }
                var faults: [String] = []
                do throws(SettingsErrors) { _ = try Configuration.load(file) } catch { faults = error.faults.map(\.line) }
                #expect(
                    faults.contains { $0.hasPrefix("\(key): ") && $0.contains("(hidden: it may be the secret itself)") },
                    "\(faults)")
                #expect(!faults.joined().lowercased().contains("hunter2"), "\(faults)")
            }
        }
    }

    @Test func `A secret has one source`() {
        #expect(
            folder.faults(settings(#""redis_password_env": "A_B", "redis_password": "x""#), environment: ["A_B": "y"]) == [
                "redis_password_env: conflicts with redis_password; expected only one of them"
            ])
        folder.write("x", to: "f")
        #expect(
            folder.faults(settings(#""relay_secret_env": "A_B", "relay_secret_file": "f""#), environment: ["A_B": "y"]) == [
                "relay_secret_env: conflicts with relay_secret_file; expected only one of them"
            ])
    }

    @Test func `A reference to a variable as a whole value gets a hint`() throws {
        let reading = try folder.read(settings(#""redis_password": "${REDIS_PASSWORD}", "redis_host": "${HOST}""#))
        #expect(
            reading.warnings.map(\.line) == [
                #"redis_password: "${REDIS_PASSWORD}" is taken literally; set "redis_password_env": "REDIS_PASSWORD" to read "#
                    + "the environment variable",
                #"redis_host: "${HOST}" is taken literally; environment variables are expanded in paths only"#,
            ])
        #expect(
            folder.faults(settings(#""apns_proxy": "${PROXY}""#)) == [
                "apns_proxy: the address does not start with http://; expected "
                    + #""http://host:port" or "http://user:password@host:port", or "apns_proxy_env": "PROXY""#
            ])
        let key =
            #""apns_server": "sandbox", "apns_auth_key_path": "${D}/k.p8", "apns_auth_key_id": "ABCDE12345", "#
            + #""apns_team_id": "TEAM123456""#
        #expect(
            try folder.read(settings(#""redis_socket_path": "${S}""#, apns: key), environment: ["S": "/s", "D": "/d"]).warnings
                .isEmpty
        )
        let empty = TemporaryFolder()
        let apps = ["A": empty.path, "D": "/d"]
        let ofFolder = try folder.read(settings(#""apps_dir": "${A}""#, apns: key), environment: apps).warnings
        #expect(!ofFolder.contains { $0.line.contains("literally") }, "\(ofFolder)")
        #expect(try folder.read(settings(#""redis_password": "${not a name}""#)).warnings.isEmpty)
    }

    @Test(
        arguments: [
            ("redis://h", QueueSettings.Server.tcp(host: "h", port: 6379), false, nil, nil, 0),
            ("REDIS://h:1/", .tcp(host: "h", port: 1), false, nil, nil, 0),
            ("rediss://u:p@h:6380/3", .tcp(host: "h", port: 6380), true, "u", "p", 3),
            ("redis://:p%40%2F%25@[::1]:7/15", .tcp(host: "::1", port: 7), false, nil, "p@/%", 15),
            ("redis://[::1]/2", .tcp(host: "::1", port: 6379), false, nil, nil, 2),
            ("redis://%75s:a:b@h?db=4", .tcp(host: "h", port: 6379), false, "us", "a:b", 4),
            ("redis://:@h", .tcp(host: "h", port: 6379), false, nil, nil, 0),
            ("unix:///run/r%20s.sock?db=2", .unix(path: "/run/r s.sock"), false, nil, nil, 2),
            ("unix://:pw@/run/r@1.sock", .unix(path: "/run/r@1.sock"), false, nil, "pw", 0),
            ("unix://${RUN}/r.sock", .unix(path: "/run/x/r.sock"), false, nil, nil, 0),
        ] as [(String, QueueSettings.Server, Bool, String?, String?, Int)])
    func `redis_url has the address, the user, the password and the database`(
        url: String, server: QueueSettings.Server, isSecure: Bool, user: String?, password: String?, database: Int
    ) throws {
        let read = try folder.read(settings("\"redis_url\": \"\(url)\""), environment: ["RUN": "/run/x"]).settings
        let redis = read.redis
        #expect(redis.server == server && (redis.tls != nil) == isSecure)
        #expect(redis.username == user && redis.password == password.map(Secret.init) && redis.database == database)
        #expect(read.queues[0].password == password && read.queues[0].database == database)
    }

    @Test(arguments: [
        ("h:6379", "does not start with redis://, rediss:// or unix://"),
        ("http://u:SECRET@h", "does not start with redis://, rediss:// or unix://"),
        ("redis://u:SEC RET@h", "contains a space or another invalid character"),
        ("redis://:SEC/RET@h", "contains a /, ? or # before the @ (%2F, %3F and %23 in a password)"),
        ("redis://:SEC?RET@h", "contains a /, ? or # before the @ (%2F, %3F and %23 in a password)"),
        ("redis://:SEC%RET@h", "contains a % without two hex digits (%25 is a % in a password)"),
        (
            "redis://SECRET@h",
            "has a user without a password (a password alone follows a colon: redis://:password@host)"
        ),
        ("redis://SECRET:@h", "has an empty password"), ("redis://", "lacks a host, or has an invalid port"),
        ("redis://:SECRET@", "lacks a host, or has an invalid port"), ("redis://h:x", "lacks a host, or has an invalid port"),
        ("redis://h/x", "has a path that is not the number of a database"),
        ("redis://h/1?db=1", "has a path that is not the number of a database"),
        ("redis://h/99999999999", "has a path that is not the number of a database"),
        ("rediss://h?ssl_cert_reqs=none", "has parameters other than ?db=N"), ("unix://", "lacks an absolute path after unix://"),
        ("unix://r.sock", "lacks an absolute path after unix://"),
    ])
    func `A fault of redis_url shows nothing of it`(url: String, problem: String) {
        #expect(
            folder.faults(settings("\"redis_url\": \"\(url)\"")) == [
                "redis_url: the URL \(problem); expected \(RedisURL.expected)"
            ])
    }

    @Test(arguments: [
        (#""redis_host": "b""#, "conflicts with redis_host; expected only one way to locate Redis"),
        (#""redis_socket_path": "/s""#, "conflicts with redis_socket_path; expected only one way to locate Redis"),
        (#""redis_netaddress": "b:1""#, "conflicts with redis_netaddress; expected only one way to locate Redis"),
        (#""redis_db": 1"#, "conflicts with redis_db; expected each part of the address only once"),
        (#""redis_password": "x""#, "conflicts with redis_password; expected each part of the address only once"),
        (#""redis_tls": false"#, "conflicts with redis_tls; expected each part of the address only once"),
    ])
    func `Each part of the address is given once`(members: String, problem: String) {
        #expect(folder.faults(settings(#""redis_url": "rediss://u:p@a", "# + members)) == ["redis_url: \(problem)"])
        #expect(folder.faults(settings(#""redis_url": "rediss://a", "redis_password": "x", "redis_tls": true"#)) == [])
    }

    @Test func `check --effective shows the parts of redis_url as derived`() throws {
        let lines = EffectiveSettings(try folder.read(settings(#""redis_url": "rediss://u:SECRET@a:7/2""#))).lines
        let words = lines.map { $0.split(separator: " ").joined(separator: " ") }
        for line in [
            "redis_host derived a", "redis_port derived 7", "redis_db derived 2", "redis_username derived u",
            "redis_password derived set", "redis_tls derived true", "redis_url file set",
        ] {
            #expect(words.contains(line), "\(line)")
        }
        #expect(!lines.joined().contains("SECRET"))
    }

    @Test(arguments: ["redis_host", "redis_netaddress"])
    func `A URL in a key for an address gets a hint`(key: String) {
        let faults = folder.faults(settings("\"\(key)\": \"redis://u:SECRET@h\""))
        #expect(faults.count == 1 && faults[0].hasSuffix(", or this URL as redis_url") && !faults[0].contains("SECRET"))
    }

    @Test(
        arguments: [
            ("api.push.apple.com", "api.push.apple.com", 443, "production"),
            ("API.push.apple.com", "api.push.apple.com", 443, "production"),
            ("api.sandbox.push.apple.com", "api.sandbox.push.apple.com", 443, "sandbox"),
            ("api.development.push.apple.com", "api.sandbox.push.apple.com", 443, "sandbox"),
            ("https://api.push.apple.com", "api.push.apple.com", 443, "production"),
            ("https://api.sandbox.push.apple.com/3/device/", "api.sandbox.push.apple.com", 443, "sandbox"),
            ("https://api.push.apple.com:2197", "api.push.apple.com", 2197, nil),
            ("https://proxy.example/", "proxy.example", 443, nil),
            ("HTTPS://[::1]:8443", "::1", 8443, nil),
        ] as [(String, String, Int, String?)])
    func `A host of Apple and an https URL are servers`(text: String, host: String, port: Int, name: String?) {
        #expect(APNSServer(text)?.address == HostAndPort(host, port) && APNSServer(text)?.name == name)
    }

    @Test(arguments: [
        "https://", "https://a/b", "https://u@a", "http://api.push.apple.com", "https://a:0", "api.push.apple.com/",
    ])
    func `No other URL is a server`(text: String) {
        #expect(APNSServer(text) == nil)
    }

    @Test func `A text in UTF-16 is read`() throws {
        for isLittle in [true, false] {
            var bytes: [UInt8] = isLittle ? [0xFF, 0xFE] : [0xFE, 0xFF]
            for unit in settings().utf16 {
                bytes += isLittle ? [UInt8(unit & 0xFF), UInt8(unit >> 8)] : [UInt8(unit >> 8), UInt8(unit & 0xFF)]
            }
            #expect(String(decoding: bytes.withoutByteOrderMark, as: UTF8.self) == settings())
        }
        // A file that only begins as one stays as it is.
        #expect([UInt8]([0xFF, 0xFE, 0x41]).withoutByteOrderMark == [0xFF, 0xFE, 0x41])
        #expect([UInt8]([0xFF, 0xFE, 0x00, 0xD8]).withoutByteOrderMark == [0xFF, 0xFE, 0x00, 0xD8])
    }
}

@Suite("The nearest key")
struct NearestKeyTests {
    private let folder = SettingsFolder()

    @Test(arguments: [
        ("apns_production", #""apns_server": "production""#), ("apns_sandbox", #""apns_server": "sandbox""#),
        ("sandbox", #""apns_server": "sandbox""#), ("apnsProduction", #""apns_server": "production""#),
        ("apns_development", #""apns_server": "sandbox""#), ("apns_use_sandbox", #""apns_server": "sandbox""#),
        ("apns_environment", #""apns_server""#), ("apns_host", #""apns_server""#), ("bundle_id", #""apns_topic""#),
        ("apns_bundle_id", #""apns_topic""#), ("team_id", #""apns_team_id""#), ("key_id", #""apns_auth_key_id""#),
        ("apns_p8_path", #""apns_auth_key_path""#), ("apns_key_passphrase", #""apns_key_password""#),
        ("redis_uri", #""redis_url""#), ("redis_dsn", #""redis_url""#), ("redis_user", #""redis_username""#),
        ("log_json", #""log_format": "json""#), ("redisHost", #""redis_host""#), ("max_retries", #""retry_limit""#),
        ("redis_database", #""redis_db""#), ("apns_certificate", #""apns_cert_path""#), ("topic", #""apns_topic""#),
        ("metrics", #""metrics_listen""#), ("cert", #""apns_cert_path""#), ("key", #""apns_auth_key_path""#),
        ("password_env", #""redis_password_env""#), ("redis_at_most_once", #""redis_delivery": "at_most_once""#),
    ])
    func `is found by its words`(key: String, suggestion: String) {
        #expect(
            folder.faults(settings("\"\(key)\": true")) == [
                "\(key): unknown key; expected a known key: did you mean \(suggestion)?"
            ])
    }

    @Test func `is a key of the object`() {
        let faults = folder.faults(#"{"redis_queue_key": "q", "apps": {"a": {"sandbox": true}}}"#)
        #expect(faults.first == #"apps.a.sandbox: unknown key; expected a known key: did you mean "apns_server": "sandbox"?"#)
    }

    @Test func `does not show a key file as a key`() {
        let faults = folder.faults(settings(#""-----BEGIN PRIVATE KEY----- SECRET": 1"#))
        #expect(faults.count == 1 && faults[0].hasPrefix("(hidden): unknown key; "))
    }
}
