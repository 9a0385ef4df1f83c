import PushPool
import RedisQueue
import Testing

@testable import gaplessd

@Suite("Reading settings")
struct SettingsReadingTests {
    private let folder = SettingsFolder()

    private func read(_ members: String = "", environment: [String: String] = [:]) throws -> Settings {
        try folder.read(settings(members), environment: environment).settings
    }

    @Test func `An absent key has the default of the contract`() throws {
        let read = try read()
        var app = Settings.App(
            name: nil,
            pool: PoolSettings(
                host: "api.sandbox.push.apple.com", port: 443, sessions: 2, dialTimeout: .seconds(10),
                dialBackoff: Backoff(first: .milliseconds(500), most: .seconds(60), jitter: 0.2),
                requestTimeout: .seconds(15), keepAlive: .seconds(60), maxConcurrentStreams: 1000),
            source: .signingKey(path: folder.file("k.p8"), keyID: "ABCDE12345", teamID: "TEAM123456"))
        app.management = HostAndPort("api-manage-broadcast.sandbox.push.apple.com", 2195)
        app.files = [folder.file("k.p8")]
        app.keys = try #require(read.apps.first).keys
        #expect(
            read
                == Settings(
                    apps: [app], lists: ["q"],
                    redis: Settings.Redis(
                        server: .tcp(host: "127.0.0.1", port: 6379), database: 0, username: nil, password: nil,
                        delivery: .atLeastOnce, lease: .seconds(15), resultsKey: nil, resultsMax: 1_000_000, deadLetterMax: 0,
                        feedbackMax: 0),
                    retryLimit: 3, retryDelays: [.seconds(1), .seconds(60), .seconds(900)],
                    log: Settings.Logging(successes: 0, format: .text, level: .info, redacts: false),
                    drainTimeout: .seconds(20)))
        #expect(app.keys.signingKeyPath == folder.file("k.p8") && app.keys.keyID == "ABCDE12345")
    }

    @Test func `A value is converted to the unit of its field`() throws {
        let read = try read(
            """
            "apns_topic": "com.example.app", "apns_ca_path": "/ca.pem", "apns_dial_timeout": 1.5, "apns_dial_backoff_min": 0.25, \
            "apns_dial_backoff_max": 8, "apns_dial_backoff_jitter": 0.1, "apns_request_timeout": 2, "apns_keepalive": 3, \
            "apns_max_concurrent_streams": 7, "pool_size": 5, "pool_max_size": 9, "pool_scale": "exponential:1.5", \
            "pool_poll_interval": 0.1, "pool_min_sustain": 1, "pool_settle_period": 3, "max_rate": 12.5, \
            "max_bandwidth": 80000, "retry_limit": 0, "retry_delays": [0.5], "redis_lease": 30, \
            "redis_host": "redis", "redis_port": 7000, "redis_db": 3, "redis_username": "u", "redis_password": "p", \
            "redis_delivery": "at_most_once", "redis_results_key": "r", "redis_results_max": 10, "redis_dead_letter_max": 11, \
            "redis_feedback_max": 12, \
            "log_successes": true, "log_format": "journal", "log_level": "error", "log_redact": true, "drain_timeout": 0, \
            "metrics_listen": "[::1]:0"
            """)
        let app = try #require(read.apps.first)
        #expect(app.topic == "com.example.app")
        var pool = PoolSettings(
            host: "api.sandbox.push.apple.com", port: 443, extraRootsPath: "/ca.pem", sessions: 5,
            dialTimeout: .milliseconds(1500), dialBackoff: Backoff(first: .milliseconds(250), most: .seconds(8), jitter: 0.1),
            requestTimeout: .seconds(2), keepAlive: .seconds(3), maxConcurrentStreams: 7, collectsAPNSIDs: true)
        pool.recordsTimes = true
        (pool.mostSessions, pool.scale) = (9, .exponential(1.5))
        (pool.pollInterval, pool.minSustain, pool.settlePeriod) = (.milliseconds(100), .seconds(1), .seconds(3))
        #expect(app.pool == pool)
        #expect(read.limits == Settings.Limits(pushesPerSecond: 12.5, bitsPerSecond: 80_000))
        #expect(read.retryLimit == 0)
        #expect(read.retryDelays == [.milliseconds(500)])
        var queue = QueueSettings(
            list: "q", server: .tcp(host: "redis", port: 7000), database: 3, username: "u", password: "p", mode: .atMostOnce,
            lease: .seconds(30), resultsKey: "r", resultsMax: 10, deadLetterMax: 11, feedbackMax: 12)
        queue.readsApps = true
        #expect(read.queues == [queue])
        #expect(read.log == Settings.Logging(successes: 1, format: .journal, level: .error, redacts: true))
        #expect(read.drainTimeout == .zero)
        #expect(read.metricsListen == HostAndPort("::1", 0))
    }

    @Test(arguments: [
        ("production", "api.push.apple.com", 443), ("sandbox", "api.sandbox.push.apple.com", 443),
        ("127.0.0.1:2197", "127.0.0.1", 2197), ("[::1]:8443", "::1", 8443), ("apns.example.com:443", "apns.example.com", 443),
    ])
    func `A server is a name or host and port`(text: String, host: String, port: Int) throws {
        #expect(APNSServer(text)?.address == HostAndPort(host, port))
        #expect(APNSServer(text).map { $0.retiredGateway == nil } == true)
    }

    @Test(arguments: [
        "", "Production", "push.apple.com", "a:0", "a:65536", "a:", ":443", "::1:443", "[::1]", "[]:1", "a b:1", "http://a:1",
        "a:+1", "a:1:2",
    ])
    func `Nothing else is a server`(text: String) {
        #expect(APNSServer(text) == nil)
    }

    @Test(arguments: [
        ("gateway.push.apple.com:2195", "api.push.apple.com", "production"),
        ("gateway.sandbox.push.apple.com:2195", "api.sandbox.push.apple.com", "sandbox"),
        ("Gateway.Push.Apple.Com:2195", "api.push.apple.com", "production"),
    ])
    func `A retired gateway is mapped to its successor, with one warning`(old: String, host: String, name: String) throws {
        let reading = try folder.read(settings(apns: smallestAPNS.replacing("sandbox", with: old)))
        #expect(reading.settings.apps.map { HostAndPort($0.pool.host, $0.pool.port) } == [HostAndPort(host, 443)])
        #expect(
            reading.warnings.map { $0.line(file: "f") } == [
                "f: apns_server: Apple has shut down the binary gateway \(old); using \(host):443; set \"\(name)\" instead"
            ])
    }

    @Test(arguments: [
        ("redis.local:6380", QueueSettings.Server.tcp(host: "redis.local", port: 6380)),
        ("tcp:[::1]:6380", .tcp(host: "::1", port: 6380)), ("unix:/run/redis.sock", .unix(path: "/run/redis.sock")),
    ])
    func `The old address of Redis still works`(text: String, server: QueueSettings.Server) throws {
        #expect(try read("\"redis_netaddress\": \"\(text)\"").redis.server == server)
    }

    @Test func `A path is relative to the settings file, and variables are expanded`() throws {
        let read = try read(
            #""redis_socket_path": "${RUN}/redis.sock", "apns_ca_path": "ca/${NAME}.pem""#,
            environment: ["RUN": "/run/r", "NAME": "roots"])
        #expect(read.redis.server == .unix(path: "/run/r/redis.sock"))
        #expect(read.apps.first?.pool.extraRootsPath == folder.file("ca/roots.pem"))
        #expect(try SettingsFile(path: "settings.json").resolve("k.p8") == "k.p8")
        #expect(try self.read(#""redis_netaddress": "unix:r.sock""#).redis.server == .unix(path: folder.file("r.sock")))
    }

    @Test func `Lists keep their order`() throws {
        let read = try folder.read("{\(smallestAPNS), \"redis_queue_key\": [\"high\", \"low\"]}").settings
        #expect(read.lists == ["high", "low"])
        #expect(read.queues.map(\.list) == ["high", "low"])
    }

    @Test(arguments: ["s3cret\n", "s3cret\r\n", "s3cret", "s3cret \t\n\n", "\u{FEFF}s3cret\r\n"])
    func `A secret file is read without a byte order mark and without blanks at its end`(content: String) throws {
        folder.write(content, to: "password")
        #expect(try read(#""redis_password_file": "password""#).redis.password == Secret("s3cret"))
    }

    @Test func `A settings file may begin with a byte order mark`() throws {
        #expect(try folder.read("\u{FEFF}" + settings()).settings == read())
    }

    @Test func `The address of a proxy may be in a file, for all apps or for one`() throws {
        folder.write("http://u:hunter2@above:1\n", to: "above")
        folder.write("http://own:2\n", to: "own")
        let key = #""apns_auth_key_path": "k.p8", "apns_auth_key_id": "ABCDE12345", "apns_team_id": "TEAM123456""#
        let apps =
            #""apps": {"heir": {\#(key)}, "filed": {\#(key), "apns_proxy_file": "own"}, "#
            + #""plain": {\#(key), "apns_proxy": "http://plain:3"}}"#
        let read = try read(#""apns_proxy_file": "above", \#(apps)"#)
        let proxies = read.apps.map { $0.pool.proxy?.description }
        #expect(proxies == ["http://above:1", "http://above:1", "http://own:2", "http://plain:3"])
        #expect(read.apps[0].pool.proxy?.user == "u")
        let below = try self.read(#""apns_proxy": "http://above:1", \#(apps)"#)
        #expect(below.apps.map { $0.pool.proxy?.description } == proxies)
    }

    @Test(arguments: [
        (
            "apns_proxy", "socks://u:hunter2@h:1",
            "FILE: the address does not start with http://; expected \"http://host:port\" or \"http://user:password@host:port\""
        ),
        ("apns_proxy", "", "FILE contains no text; expected a file that contains only the value of apns_proxy"),
        ("redis_password", "\n", "FILE contains no text; expected a file that contains only the value of redis_password"),
    ])
    func `A secret file with invalid content is a fault that does not show it`(key: String, content: String, fault: String) {
        let file = folder.write(content, to: "secret")
        #expect(
            folder.faults(settings("\"\(key)_file\": \"secret\"")) == ["\(key)_file: \(fault.replacing("FILE", with: file))"])
    }

    @Test func `A secret has one source, and its file must be readable`() {
        #expect(
            folder.faults(settings(#""redis_password_file": "./none""#)) == [
                "redis_password_file: \(folder.file("./none")) cannot be read: No such file or directory; expected "
                    + "a file that this user can read"
            ])
        #expect(
            folder.faults(settings(#""redis_password_file": 5"#)) == [
                "redis_password_file: invalid value 5; expected a file path"
            ])
        folder.write("x", to: "x")
        #expect(
            folder.faults(settings(#""redis_password": "y", "redis_password_file": "x""#)) == [
                "redis_password_file: conflicts with redis_password; expected only one of them"
            ])
    }

    @Test func `No description or dump shows a secret`() throws {
        let read = try read(#""redis_password": "hunter2""#)
        var dumped = ""
        dump(read, to: &dumped)
        #expect(read.redis.password?.text == "hunter2")
        for text in [dumped, "\(read)", String(reflecting: read)] { #expect(!text.contains("hunter2")) }
    }
}
