import Testing

@testable import gaplessd

@Suite("What is wrong with the settings is said in one line each")
struct SettingsErrorTests {
    private let folder = SettingsFolder()

    @Test(arguments: [
        (#""pool_size": 0"#, "pool_size: is 0; an integer from 1 to 100 would be right"),
        (#""pool_size": 101"#, "pool_size: is 101; an integer from 1 to 100 would be right"),
        (#""pool_size": 2.0"#, "pool_size: is 2.0; an integer from 1 to 100 would be right"),
        (#""pool_size": "2""#, "pool_size: is \"2\", a string; an integer from 1 to 100 would be right"),
        (#""pool_size": 99999999999999999999"#, "pool_size: is 99999999999999999999; an integer from 1 to 100 would be right"),
        (#""pool_size": null"#, "pool_size: is null; an integer from 1 to 100 would be right"),
        (#""log_successes": "true""#, "log_successes: is \"true\", a string; true or false would be right"),
        (#""log_successes": 1"#, "log_successes: is 1; true or false would be right"),
        (#""log_format": "xml""#, "log_format: is \"xml\", a string; \"text\" or \"json\" or \"journal\" would be right"),
        (#""redis_port": 65536"#, "redis_port: is 65536; an integer from 1 to 65535 would be right"),
        (#""redis_port": 0"#, "redis_port: is 0; an integer from 1 to 65535 would be right"),
        (#""redis_db": -1"#, "redis_db: is -1; an integer from 0 to 2147483647 would be right"),
        (#""apns_dial_timeout": 0"#, "apns_dial_timeout: is 0; a number of seconds from 0.001 to 3600 would be right"),
        (#""apns_dial_timeout": 1e999"#, "apns_dial_timeout: is 1e999; a number of seconds from 0.001 to 3600 would be right"),
        (#""apns_dial_backoff_jitter": 1.5"#, "apns_dial_backoff_jitter: is 1.5; a number from 0 to 1 would be right"),
        (
            #""retry_delays": []"#,
            "retry_delays: is an array without elements; an array of at least one number of seconds, each from 0 to 2592000, would be right"
        ),
        (
            #""retry_delays": [1, -1]"#,
            "retry_delays: is an array of 1, -1; an array of at least one number of seconds, each from 0 to 2592000, would be right"
        ),
        (
            #""retry_delays": 5"#,
            "retry_delays: is 5; an array of at least one number of seconds, each from 0 to 2592000, would be right"
        ),
        (
            #""redis_host": """#,
            "redis_host: is an empty string; a host's name or address alone, such as \"127.0.0.1\", would be right"
        ),
        (
            #""redis_host": "127.0.0.1:6379""#,
            "redis_host: is \"127.0.0.1:6379\": the host is \"127.0.0.1\", and the port belongs in redis_port, which would be 6379; a host's name or address alone, such as \"127.0.0.1\", would be right"
        ),
        (
            #""redis_host": "[::1]:7000""#,
            "redis_host: is \"[::1]:7000\": the host is \"::1\", and the port belongs in redis_port, which would be 7000; a host's name or address alone, such as \"127.0.0.1\", would be right"
        ),
        (
            #""redis_host": "unix:/r""#,
            "redis_host: is \"unix:/r\", a string; a host's name or address alone, such as \"127.0.0.1\", would be right"
        ),
        (
            #""apns_proxy": "https://h:1""#,
            "apns_proxy: is a string that does not begin with http://; \"http://host:port\" or \"http://user:password@host:port\" would be right"
        ),
        (
            #""apns_proxy": "http://u:pw@h""#,
            "apns_proxy: is a string that has no host and port behind the @, or no user before it (%40 stands for an @ in a password); \"http://host:port\" or \"http://user:password@host:port\" would be right"
        ),
        (
            #""apns_proxy": "http://h""#,
            "apns_proxy: is a string that has no host and port behind http://; \"http://host:port\" or \"http://user:password@host:port\" would be right"
        ),
        (
            #""apns_proxy": 5"#,
            "apns_proxy: is a number; \"http://host:port\" or \"http://user:password@host:port\" would be right"
        ),
        (#""redis_results_key": """#, "redis_results_key: is an empty string; a string would be right"),
        (#""redis_password": 12345"#, "redis_password: is a number; a string would be right"),
        (
            #""apps": []"#,
            "apps: is an array without elements; an object of objects, such as {\"beta\": {\"apns_server\": \"sandbox\", …}}, would be right"
        ),
        (
            #""apns_topic": "com.example app""#,
            "apns_topic: is \"com.example app\", a string; a string of printable ASCII without spaces would be right"
        ),
        (
            #""metrics_listen": "9464""#,
            "metrics_listen: is \"9464\", a string; \"host:port\", such as \"127.0.0.1:9464\", or \"off\" would be right"
        ),
        (
            #""redis_netaddress": "localhost""#,
            "redis_netaddress: is \"localhost\", a string; \"host:port\", \"tcp:host:port\" or \"unix:/path\" would be right"
        ),
    ])
    func `A value of the wrong kind or out of bounds is shown, with what would be right`(member: String, line: String) {
        #expect(folder.faults(settings(member)) == [line])
    }

    @Test(arguments: [
        ("pool_sise", "did you mean pool_size?"), ("redis_hots", "did you mean redis_host?"),
        ("log_sucesses", "did you mean log_successes?"), ("apns_certpath", "did you mean apns_cert_path?"),
        ("redis_pasword_file", "did you mean redis_password_file?"), ("APNS_TOPIC", "did you mean apns_topic?"),
        ("apns_cert", "did you mean apns_cert_path?"), ("apns_key", "did you mean apns_key_path?"),
        ("redis_pass", "did you mean redis_password?"),
        ("redis_queue", "did you mean redis_queue_key?"), ("metrics", "did you mean metrics_listen?"),
        ("retry", "did you mean retry_limit?"),
        ("pool", "did you mean pool_size?"), ("drain", "did you mean drain_timeout?"), ("REDIS_HOST", "did you mean redis_host?"),
        ("redis_host_file", "did you mean redis_host?"),
        ("redis_url", "the nearest is redis_db; a comment's name begins with _ or //"),
        ("redis_timeout", "the nearest is drain_timeout; a comment's name begins with _ or //"),
        ("foo", "the nearest is apps; a comment's name begins with _ or //"),
    ])
    func `An unknown key is a fault, with the nearest known one`(key: String, remedy: String) {
        #expect(folder.faults(settings("\"\(key)\": 1")) == ["\(key): is no known key; \(remedy)"])
    }

    @Test func `The empty key is shown as two quotes`() {
        #expect(
            folder.faults(settings(#""": 1"#)) == [
                "\"\": is no known key; the nearest is apps; a comment's name begins with _ or //"
            ])
        #expect(folder.faults(settings(#""": 1, "": 2"#)).last == "\"\": is there more than once; once would be right")
    }

    @Test func `A key whose name begins with an underscore or slashes is a comment`() {
        #expect(folder.faults(settings(#""_why": 1, "// pool_size": 7, "//": null, "_why": 2"#)) == [])
    }

    @Test func `Every fault is told at once`() {
        let faults = folder.faults(#"{"pool_size": 0, "redis_port": "x", "nonsense": 1, "apns_server": "nowhere"}"#)
        #expect(
            faults.map { String($0.prefix { $0 != ":" }) } == [
                "pool_size", "redis_port", "nonsense", "apns_server", "apns_auth_key_path", "redis_queue_key",
            ])
    }

    @Test func `A key that is there twice is a fault`() {
        #expect(
            folder.faults(settings(#""pool_size": 2, "pool_size": 2"#)) == [
                "pool_size: is there more than once; once would be right"
            ])
    }

    @Test func `A missing key that is required says what would be right`() {
        #expect(
            folder.faults("{\(smallestAPNS)}") == [
                "redis_queue_key: is missing; a string, or an array of different strings with at least one, would be right"
            ])
        let keyAlone = smallestAPNS.replacing(#""apns_server": "sandbox", "#, with: "")
        #expect(
            folder.faults(settings(apns: keyAlone)) == [
                "apns_server: is missing; \"production\", \"sandbox\" or \"host:port\" would be right"
            ])
    }

    @Test(arguments: [
        (#""pool_max_size": 1"#, "pool_max_size: is 1, below pool_size, which is 2; pool_size or more would be right"),
        (
            #""pool_size": 5, "pool_max_size": 4"#,
            "pool_max_size: is 4, below pool_size, which is 5; pool_size or more would be right"
        ),
        (#""max_rate": -1"#, "max_rate: is -1; a number from 0.001 to 1000000000, or 0 for no limit, would be right"),
        (#""max_bandwidth": 0.5"#, "max_bandwidth: is 0.5; a number from 1 to 1000000000000, or 0 for no limit, would be right"),
    ])
    func `The keys of the pool say what would be right`(members: String, fault: String) {
        #expect(folder.faults(settings(members)) == [fault])
    }

    @Test(arguments: [
        "linear", "constant:1", "incremental", "incremental:", "incremental:0", "incremental:-1", "incremental:1.5",
        "incremental:101",
        "exponential:1", "exponential:0.5", "exponential:nan", "exponential:inf", "exponential:101", "exponential",
    ])
    func `A scale is one of three`(scale: String) {
        #expect(
            folder.faults(settings(#""pool_scale": "\#(scale)""#)) == [
                "pool_scale: is \"\(scale)\", a string; \"constant\", \"incremental:N\" with N from 1 to 100, or \"exponential:F\" with F above 1, up to 100, would be right"
            ])
    }

    @Test func `A pool that may grow and must stay constant is worth a word`() throws {
        let reading = try folder.read(settings(#""pool_max_size": 4, "pool_scale": "constant""#))
        #expect(reading.warnings.map(\.key) == ["pool_scale"])
        #expect(try folder.read(settings(#""pool_scale": "constant""#)).warnings.isEmpty)
    }

    @Test func `What is the default may be said`() {
        let members = """
            "pool_size": 4, "pool_max_size": 4, "pool_scale": "incremental:1", "pool_poll_interval": 0.2, "pool_min_sustain": 2.0, \
            "pool_settle_period": 5, "max_rate": 0, "max_bandwidth": 0.0, "metrics_listen": "off", \
            "filter_action": "drop"
            """
        #expect(folder.faults(settings(members)) == [])
        #expect(folder.faults(settings(#""pool_max_size": 2"#)) == [])
    }

    @Test func `A backoff whose least is above its most is a fault`() {
        #expect(
            folder.faults(settings(#""apns_dial_backoff_min": 90"#)) == [
                "apns_dial_backoff_min: makes apns_dial_backoff_min 90.0 and apns_dial_backoff_max 60.0; a minimum not above the maximum would be right"
            ])
    }

    @Test(arguments: [
        (#""redis_netaddress": "a:1", "redis_host": "b""#, "redis_netaddress: is given beside redis_host"),
        (#""redis_netaddress": "unix:/r", "redis_port": 1"#, "redis_netaddress: is given beside redis_port"),
        (#""redis_socket_path": "/r", "redis_host": "b""#, "redis_socket_path: is given beside redis_host"),
        (#""redis_netaddress": "a:1", "redis_socket_path": "/r""#, "redis_netaddress: is given beside redis_socket_path"),
    ])
    func `Two ways to say where Redis is are a fault`(members: String, problem: String) {
        #expect(folder.faults(settings(members)) == [problem + "; one way to say where Redis is would be right"])
    }

    @Test func `A Unix socket's path that no address holds is a fault`() {
        let path = "/" + String(repeating: "r", count: 107)
        #expect(
            folder.faults(settings("\"redis_socket_path\": \"\(path)\"")) == [
                "redis_socket_path: names a socket whose path has 108 bytes; at most 107 would be right"
            ])
    }

    @Test func `A user without a password is a fault, and so is the empty password`() {
        #expect(
            folder.faults(settings(#""redis_username": "u""#)) == [
                "redis_username: is given without redis_password; both, or the password alone, would be right"
            ])
        #expect(
            folder.faults(settings(#""redis_password": """#)) == [
                "redis_password: is an empty string; leave it out where Redis asks for none"
            ])
    }

    @Test func `The same list twice is a fault`() {
        let faults = folder.faults("{\(smallestAPNS), \"redis_queue_key\": [\"a\", \"a\"]}")
        #expect(faults.first?.hasPrefix("redis_queue_key: is an array of \"a\", a string, \"a\", a string; ") == true)
    }

    @Test func `A fault stays on its line, whatever stands in the file`() {
        let faults = folder.faults(settings(#""a\nb\u001b[31m": 1"#))
        #expect(faults == ["a\\x0ab\\x1b[31m: is no known key; the nearest is apps; a comment's name begins with _ or //"])
    }
}

@Suite("A settings file that is none")
struct SettingsFileTests {
    private let folder = SettingsFolder()

    @Test func `Where JSON ends is told by byte, line and column`() {
        #expect(
            folder.faults("{\n  \"pool_size\": 2\n  \"redis_db\": 0\n}") == [
                "is no JSON at byte 21, line 3, column 3; expected ','"
            ])
        #expect(
            folder.faults("\u{FEFF}{}") == [
                "begins with a byte order mark, which JSON has not; the same in UTF-8 without it would be right"
            ])
        #expect(folder.faults("") == ["is no JSON at byte 0, line 1, column 1; expected a value"])
    }

    @Test func `It must hold an object`() {
        #expect(folder.faults("[]") == [#"holds no JSON object; {"apns_server": …, "redis_queue_key": …} would be right"#])
    }

    @Test func `One that is missing, or a folder, says so`() {
        func line(_ path: String) -> String? {
            do {
                _ = try Settings.read(SettingsFile(path: path))
                return nil
            } catch { return error.lines.first }
        }
        let missing = folder.file("none.json")
        #expect(
            line(missing) == "\(missing): cannot be read: No such file or directory; a readable file of settings would be right")
        #expect(line(folder.path) == "\(folder.path): cannot be read: Is a directory; a readable file of settings would be right")
    }

    @Test func `One without end is not read to its end`() {
        do {
            _ = try Settings.read(SettingsFile(path: "/dev/zero"))
            Issue.record("/dev/zero was read")
        } catch {
            #expect(
                error.lines == ["/dev/zero: cannot be read: more than 16777216 bytes; a readable file of settings would be right"]
            )
        }
    }
}
