import RedisQueue
import Testing

@testable import gaplessd

@Suite("Faults of the settings have one line each")
struct SettingsErrorTests {
    private let folder = SettingsFolder()

    @Test(arguments: [
        (#""pool_size": 0"#, "pool_size: 0 is out of range", "an integer from 1 to 100"),
        (#""pool_size": "atuo""#, "pool_size: invalid value \"atuo\"", "an integer from 1 to 100, or \"auto\""),
        (#""pool_size": 101"#, "pool_size: 101 is out of range", "an integer from 1 to 100"),
        (#""pool_size": 2.0"#, "pool_size: invalid value 2.0", "an integer from 1 to 100"),
        (#""pool_size": "2""#, "pool_size: invalid value \"2\"", "an integer from 1 to 100"),
        (#""pool_size": 99999999999999999999"#, "pool_size: 99999999999999999999 is out of range", "an integer from 1 to 100"),
        (#""pool_size": null"#, "pool_size: invalid value null", "an integer from 1 to 100"),
        (#""log_successes": "true""#, "log_successes: invalid value \"true\"", "true, false, or a number from 0 to 1"),
        (#""log_successes": 1.5"#, "log_successes: 1.5 is out of range", "true, false, or a number from 0 to 1"),
        (#""log_redact": 1"#, "log_redact: invalid value 1", "true or false"),
        (
            #""metrics_hosts": ["m.example:80"]"#, "metrics_hosts: invalid value [\"m.example:80\"]",
            "an array of host names without ports or wildcards, such as [\"metrics.example.com\"]"
        ),
        (
            #""metrics_hosts": ["*"]"#, "metrics_hosts: invalid value [\"*\"]",
            "an array of host names without ports or wildcards, such as [\"metrics.example.com\"]"
        ),
        (#""log_format": "xml""#, "log_format: invalid value \"xml\"", "\"text\", \"json\" or \"journal\""),
        (#""redis_port": 65536"#, "redis_port: 65536 is out of range", "an integer from 1 to 65535"),
        (#""redis_port": 0"#, "redis_port: 0 is out of range", "an integer from 1 to 65535"),
        (#""redis_db": -1"#, "redis_db: -1 is out of range", "an integer from 0 to 2147483647"),
        (#""apns_dial_timeout": 0"#, "apns_dial_timeout: 0 is out of range", "a number of seconds from 0.001 to 3600"),
        (#""apns_dial_timeout": 1e999"#, "apns_dial_timeout: 1e999 is out of range", "a number of seconds from 0.001 to 3600"),
        (#""apns_dial_backoff_jitter": 1.5"#, "apns_dial_backoff_jitter: 1.5 is out of range", "a number from 0 to 1"),
        (#""max_rate": -1"#, "max_rate: -1 is out of range", "a number from 0.001 to 1000000000, or 0 for no limit"),
        (#""max_bandwidth": 0.5"#, "max_bandwidth: 0.5 is out of range", "a number from 1 to 1000000000000, or 0 for no limit"),
        (#""pool_max_size": 1"#, "pool_max_size: 1 is below pool_size, which is 2", "2 or more"),
        (#""pool_size": 5, "pool_max_size": 4"#, "pool_max_size: 4 is below pool_size, which is 5", "5 or more"),
        (#""redis_host": """#, "redis_host: invalid value \"\"", Self.host),
        (#""redis_host": "unix:/r""#, "redis_host: invalid value \"unix:/r\"", Self.host),
        (
            #""redis_host": "127.0.0.1:6379""#, "redis_host: \"127.0.0.1:6379\" contains a port",
            "\"127.0.0.1\", and 6379 as redis_port"
        ),
        (#""redis_host": "[::1]:7000""#, "redis_host: \"[::1]:7000\" contains a port", "\"::1\", and 7000 as redis_port"),
        (#""retry_delays": []"#, "retry_delays: invalid value []", Self.delays),
        (#""retry_delays": [1, -1]"#, "retry_delays: invalid value [1, -1]", Self.delays),
        (#""retry_delays": 5"#, "retry_delays: invalid value 5", Self.delays),
        (#""apns_proxy": "https://h:1""#, "apns_proxy: the address does not start with http://", Self.proxy),
        (
            #""apns_proxy": "http://u:pw@h""#,
            "apns_proxy: the address lacks a host and a port after the @, or a user before it (%40 is an @ in a password)",
            Self.proxy
        ),
        (#""apns_proxy": "http://h""#, "apns_proxy: the address lacks a host and a port after http://", Self.proxy),
        (#""apns_proxy": 5"#, "apns_proxy: invalid value (hidden: it may contain a password)", Self.proxy),
        (#""redis_results_key": """#, "redis_results_key: invalid value \"\"", "a non-empty string"),
        (
            #""redis_password": 12345"#, "redis_password: invalid value (hidden: it may contain a password)",
            "a non-empty string, or no key"
        ),
        (#""redis_password": """#, "redis_password: invalid value \"\"", "a non-empty string, or no key"),
        (#""redis_username": "u""#, "redis_username: requires redis_password", "both keys, or only redis_password"),
        (
            #""apps": []"#, "apps: invalid value []",
            "an object of objects, such as {\"beta\": {\"apns_server\": \"sandbox\", …}}"
        ),
        (
            #""apns_topic": "com.example app""#, "apns_topic: invalid value \"com.example app\"",
            "a string of printable ASCII characters without spaces"
        ),
        (
            #""metrics_listen": "9464""#, "metrics_listen: invalid value \"9464\"",
            "\"host:port\", such as \"127.0.0.1:9464\", or \"off\""
        ),
        (
            #""redis_netaddress": "localhost""#, "redis_netaddress: invalid value \"localhost\"",
            "\"host:port\", \"tcp:host:port\" or \"unix:/path\""
        ),
        (
            #""apns_dial_backoff_min": 90"#, "apns_dial_backoff_min: apns_dial_backoff_min 90 is above apns_dial_backoff_max 60",
            "a minimum up to the maximum"
        ),
        (#""pool_size": 2, "pool_size": 2"#, "pool_size: duplicate key", "each key at most once"),
    ])
    func `A fault shows the invalid value and what is expected`(member: String, problem: String, expected: String) {
        #expect(folder.faults(settings(member)) == ["\(problem); expected \(expected)"])
    }

    private static let host = "a host name or address without a port, such as \"127.0.0.1\""
    private static let delays = "an array of at least one number of seconds, each from 0 to 2592000"
    private static let proxy = "\"http://host:port\" or \"http://user:password@host:port\""

    @Test(arguments: [
        ("pool_sise", "pool_size"), ("redis_hots", "redis_host"), ("log_sucesses", "log_successes"),
        ("apns_certpath", "apns_cert_path"), ("redis_pasword_file", "redis_password_file"), ("APNS_TOPIC", "apns_topic"),
        ("apns_cert", "apns_cert_path"), ("apns_key", "apns_key_path"), ("redis_pass", "redis_password"),
        ("redis_queue", "redis_queue_key"), ("metrics_lisen", "metrics_listen"), ("retry", "retry_limit"), ("pool", "pool_size"),
        ("drain", "drain_timeout"), ("REDIS_HOST", "redis_host"), ("redis_host_file", "redis_host"),
    ])
    func `A mistyped key is a fault that suggests a known key`(key: String, known: String) {
        #expect(
            folder.faults(settings("\"\(key)\": 1")) == ["\(key): unknown key; expected a known key: did you mean \"\(known)\"?"])
    }

    @Test(arguments: [
        ("redis_timeout", "redis_timeout", "apns_dial_timeout"), ("foo", "foo", "apps"),
        ("", "\"\"", "apps"), ("a\\nb\\u001b[31m", "a\\x0ab\\x1b[31m", "apps"),
    ])
    func `An unknown key is shown on one line with the nearest known key`(key: String, shown: String, known: String) {
        let comment = "or a comment that starts with _ or //"
        #expect(
            folder.faults(settings("\"\(key)\": 1")) == [
                "\(shown): unknown key; expected a known key (the nearest is \"\(known)\"), \(comment)"
            ])
    }

    @Test func `A key that starts with an underscore or slashes is a comment, and so is $schema`() {
        #expect(folder.faults(settings(#""_why": 1, "// pool_size": 7, "//": null, "_why": 2, "$schema": "x""#)) == [])
        #expect(folder.faults(settings(#""$schemas": "x""#)).count == 1)
    }

    @Test func `Every fault is reported at once`() {
        let faults = folder.faults(#"{"pool_size": 0, "redis_port": "x", "nonsense": 1, "apns_server": "nowhere"}"#)
        #expect(
            faults.map { String($0.prefix { $0 != ":" }) } == [
                "pool_size", "redis_port", "nonsense", "apns_server", "apns_auth_key_path", "redis_queue_key",
            ])
        #expect(faults.allSatisfy { $0.contains("; expected ") })
    }

    @Test func `A missing required key is a fault`() {
        #expect(
            folder.faults("{\(smallestAPNS)}") == [
                "redis_queue_key: required key is missing; expected "
                    + "a non-empty string, or an array of at least one, without duplicates"
            ])
        let keyAlone = smallestAPNS.replacing(#""apns_server": "sandbox", "#, with: "")
        #expect(
            folder.faults(settings(apns: keyAlone)) == [
                "apns_server: required key is missing; expected \"production\", \"sandbox\" or \"host:port\""
            ])
    }

    @Test(arguments: [
        "linear", "constant:1", "incremental", "incremental:", "incremental:0", "incremental:-1", "incremental:1.5",
        "incremental:101", "exponential:1", "exponential:0.5", "exponential:nan", "exponential:inf", "exponential:101",
        "exponential",
    ])
    func `A pool scale has one of three forms`(scale: String) {
        #expect(
            folder.faults(settings(#""pool_scale": "\#(scale)""#)) == [
                "pool_scale: invalid value \"\(scale)\"; expected "
                    + "\"constant\", \"incremental:N\" with N from 1 to 100, or \"exponential:F\" with F above 1 and up to 100"
            ])
    }

    @Test func `A constant pool with a larger maximum causes a warning`() throws {
        let reading = try folder.read(settings(#""pool_max_size": 4, "pool_scale": "constant""#))
        #expect(reading.warnings.map(\.key) == ["pool_scale"])
        #expect(try folder.read(settings(#""pool_scale": "constant""#)).warnings.isEmpty)
        #expect(folder.faults(settings(#""pool_max_size": 2"#)) == [])
    }

    @Test(arguments: [
        (#""redis_netaddress": "a:1", "redis_host": "b""#, "redis_netaddress: conflicts with redis_host"),
        (#""redis_netaddress": "unix:/r", "redis_port": 1"#, "redis_netaddress: conflicts with redis_port"),
        (#""redis_netaddress": "a:1", "redis_socket_path": "/r""#, "redis_netaddress: conflicts with redis_socket_path"),
    ])
    func `Two ways to locate Redis are a fault`(members: String, problem: String) {
        #expect(folder.faults(settings(members)) == [problem + "; expected only one way to locate Redis"])
    }

    @Test func `A socket is used instead of a host and a port`() throws {
        let members = #""redis_socket_path": "/r", "redis_host": "b", "redis_port": 1"#
        #expect(try folder.read(settings(members)).settings.redis.server == .unix(path: "/r"))
    }

    @Test func `A Unix socket path that is too long is a fault`() {
        let path = "/" + String(repeating: "r", count: 107)
        let problem = "the path of the socket has 108 bytes; expected at most 107 bytes"
        #expect(folder.faults(settings("\"redis_socket_path\": \"\(path)\"")) == ["redis_socket_path: \(problem)"])
        #expect(folder.faults(settings("\"redis_netaddress\": \"unix:\(path)\"")) == ["redis_netaddress: \(problem)"])
    }

    @Test func `A list that occurs twice is a fault`() {
        let faults = folder.faults("{\(smallestAPNS), \"redis_queue_key\": [\"a\", \"a\"]}")
        #expect(faults.first?.hasPrefix("redis_queue_key: invalid value [\"a\", \"a\"]; ") == true)
    }
}

@Suite("A file that contains no settings")
struct SettingsFileTests {
    private let folder = SettingsFolder()

    @Test(arguments: [
        ("{\n  \"pool_size\": 2\n  \"redis_db\": 0\n}", "invalid JSON at byte 21, line 3, column 3; expected ','"),
        ("", "invalid JSON at byte 0, line 1, column 1; expected a value"),
        (
            "{\n  \"pool_size\": 2,\n}", "invalid JSON at byte 20, line 3, column 1 (a comma before '}'); expected a key"
        ),
        ("// why\n{}", "invalid JSON at byte 0, line 1, column 1 (JSON has no comments); expected a value"),
        ("# why\n{}", "invalid JSON at byte 0, line 1, column 1 (JSON has no comments); expected a value"),
        ("{\n  // why\n}", "invalid JSON at byte 4, line 2, column 3 (JSON has no comments); expected a key or '}'"),
        ("[]", "contains no JSON object; expected {\"apns_server\": …, \"redis_queue_key\": …}"),
        ("\u{FEFF}{\n1}", "invalid JSON at byte 2, line 2, column 1; expected a key or '}'"),
    ])
    func `A fault names the byte, line and column of invalid JSON`(content: String, fault: String) {
        #expect(folder.faults(content) == [fault])
    }

    @Test(arguments: [
        ("none.json", "No such file or directory"), (".", "Is a directory"), ("/dev/zero", "more than 16777216 bytes"),
    ])
    func `A file that is missing, a folder or endless is a fault`(name: String, why: String) {
        let path = name.hasPrefix("/") ? name : folder.file(name)
        let error = #expect(throws: SettingsErrors.self) { try Configuration.read(SettingsFile(path: path)) }
        #expect(error?.lines == ["\(path): cannot be read: \(why); expected a settings file that this user can read"])
    }
}
