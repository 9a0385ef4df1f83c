import APNSSimulator
import Glibc
import Harness
import PushPool
import RedisQueue
import Testing
@testable import gaplessd

@Suite("Pushes through a proxy", .blocking)
struct DaemonProxyTests {
    private static let secret = "s3cr:et@"
    /// user:s3cr:et@
    private static let authorization = "Basic dXNlcjpzM2NyOmV0QA=="

    private func url(_ proxy: ConnectProxy, password: String = "s3cr:et%40") -> String {
        "\"http://user:\(password)@127.0.0.1:\(proxy.port)\""
    }

    @Test func `use only the proxy, and no output contains the password`() throws {
        let stage = try Stage()
        let proxy = try ConnectProxy(authorization: Self.authorization)
        let daemon = try stage.start(["apns_proxy": url(proxy), "log_level": "\"debug\""])
        try stage.push((0..<500).map { pushJob(deviceToken($0)) })
        #expect(try stage.settles(500))
        #expect(Set(proxy.requests.map(\.line)) == ["CONNECT localhost:\(stage.simulator.port) HTTP/1.1"])
        #expect(proxy.requests.count == stage.simulator.totals.connections)
        #expect(daemon.says("Session 1 to localhost:\(stage.simulator.port) through the proxy 127.0.0.1:\(proxy.port) is open"))
        proxy.behave(.respond("HTTP/1.1 403 Not you\r\n\r\n"))
        stage.simulator.closeConnections()
        #expect(daemon.says("the proxy http://127.0.0.1:\(proxy.port): it refused CONNECT: 403 Not you"))
        #expect(daemon.stop()?.status == 0)
        for word in ["s3cr", "dXNlcjpz"] { #expect(!(daemon.standardOutput + daemon.standardError).contains(word)) }
    }

    @Test func `wait in the list while the proxy refuses them`() throws {
        let stage = try Stage()
        let proxy = try ConnectProxy(authorization: Self.authorization)
        let daemon = try stage.start(["apns_proxy": url(proxy, password: "wrong")])
        let jobs = (0..<30).map { pushJob(deviceToken($0)) }
        try stage.push(jobs)
        #expect(daemon.says("407: it requires a user and a password, or rejects the given ones"))
        #expect(try stage.backlog() == jobs)
        #expect(!daemon.standardError.contains("wrong"))
        try stage.write(["apns_proxy": url(proxy)])
        daemon.signal(SIGHUP)
        #expect(try stage.settles(30))
        #expect(try stage.counter(.retried) == 0)
        #expect(daemon.stop()?.status == 0)
    }

    @Test func `every app inherits the proxy, and may have another`() throws {
        let stage = try Stage()
        let (first, second) = (try ConnectProxy(), try ConnectProxy())
        let (heir, own) = (appJSON(topic: nil), appJSON(topic: nil, #""apns_proxy": "http://127.0.0.1:\#(second.port)""#))
        let daemon = try stage.start([
            "apns_proxy": "\"http://127.0.0.1:\(first.port)\"", "pool_size": "1",
            "apps": "{\"heir\": \(heir), \"own\": \(own)}",
        ])
        #expect(waitUntil { first.requests.count == 2 && second.requests.count == 1 })
        #expect(daemon.stop()?.status == 0)
    }

    @Test func `check and send use the proxy`() throws {
        let stage = try Stage()
        let proxy = try ConnectProxy(authorization: Self.authorization)
        let settings = try stage.write(["apns_proxy": url(proxy)])
        let check = try Call(["check", settings])
        #expect(check.status == 0, "\(check.errors)")
        #expect(check.output.contains("proxy       http://127.0.0.1:\(proxy.port), user user\n"))
        #expect(check.output.contains("through the proxy 127.0.0.1:\(proxy.port)"))
        let send = try Call(["send", settings, "--token", "0a", "--alert", "x"])
        #expect(send.status == 0, "\(send.errors)")
        #expect(proxy.requests.count == 2)
        proxy.behave(.close)
        let refused = try Call(["check", settings])
        #expect(refused.status == 69)
        #expect(refused.errors.contains("it closed the connection without a response to CONNECT"))
        for call in [check, send, refused] { #expect(!(call.output + call.errors).contains("s3cr")) }
    }
}

@Suite("The setting apns_proxy")
struct ProxySettingTests {
    private let folder = SettingsFolder()

    @Test(
        arguments: [
            ("http://proxy:3128", "proxy", 3128, nil), ("HTTP://10.0.0.1:80/", "10.0.0.1", 80, nil),
            ("http://[::1]:8080", "::1", 8080, nil),
            ("http://me:pw@proxy:1", "proxy", 1, "me"), ("http://me@proxy:1", "proxy", 1, "me"),
            ("http://m%65:p%40:w%2F@proxy:1", "proxy", 1, "me"),
        ] as [(String, String, Int, String?)])
    func `is parsed`(text: String, host: String, port: Int, user: String?) throws {
        let pool = try #require(folder.read(settings("\"apns_proxy\": \"\(text)\"")).settings.apps.first?.pool)
        #expect(pool.proxy?.host == host)
        #expect(pool.proxy?.port == port)
        #expect(pool.proxy?.user == user)
    }

    @Test(arguments: [
        "proxy:3128", "https://proxy:3128", "socks5://proxy:1", "http://proxy", "http://proxy:0", "http://:1", "http://:hush@p:1",
        "http://u:hush%4@p:1", "http://u:hush%0a@p:1", "http://u%3Ahush:x@p:1", "http://u:hu sh@p:1", "http://u:hush@p:1/path",
    ])
    func `is rejected without printing a possible password`(text: String) {
        let faults = folder.faults(settings("\"apns_proxy\": \"\(text)\""))
        #expect(faults.count == 1)
        #expect(faults.first?.hasPrefix("apns_proxy: the address ") == true, "\(faults)")
        #expect(
            faults.first?.hasSuffix("; expected \"http://host:port\" or \"http://user:password@host:port\"") == true,
            "\(faults)")
        #expect(!faults.joined().contains("hush") && !faults.joined().contains("hu sh"))
    }
}

@Suite("APNs over IPv6", .blocking)
struct DaemonIPv6Tests {
    /// Whether the loopback interface has `::1`.
    private static let hasIPv6 = File.read("/proc/net/if_inet6").contains(" lo\n")
    /// Whether this machine allows mount namespaces, in which a daemon has a hosts file of its own.
    private static let hasNamespaces = (try? ChildProcess("unshare", ["-Urm", "true"]).wait().status) == 0

    @Test(.enabled(if: hasIPv6)) func `an address in brackets is dialled, and its pushes are answered`() throws {
        let stage = try Stage(configure: { $0.host = "::1" })
        let daemon = try stage.start(["apns_server": "\"[::1]:\(stage.service.port)\"", "log_successes": "true"])
        try stage.push((0..<100).map { pushJob(deviceToken($0)) })
        #expect(try stage.settles(100))
        #expect(daemon.standardOutput.contains(" to [::1]:\(stage.service.port) is open, "), "\(daemon.standardOutput)")
        #expect(stage.simulator.ledger.entries.allSatisfy { $0.token.count == 64 })
        let call = try Call(["check", stage.folder.file("settings.json")])
        #expect(call.status == 0, "\(call.errors)")
    }

    /// One of the two addresses has no server.
    @Test(.enabled(if: hasIPv6 && hasNamespaces), arguments: ["::1", "127.0.0.1"])
    func `a name with addresses of both families is served by the one that answers`(alive: String) throws {
        let stage = try Stage(configure: { $0.host = alive })
        let hosts = stage.folder.file("hosts")
        try File.write("127.0.0.1 localhost\n::1 localhost\n", to: hosts)
        let mount = #"mount --bind "$1" /etc/hosts && shift && exec "$@""#
        let daemon = try stage.start(
            ["pool_size": "4"], under: ["unshare", "-Urm", "sh", "-c", mount, "sh", hosts])
        try stage.push((0..<100).map { pushJob(deviceToken($0)) })
        #expect(try stage.settles(100), "\(daemon.standardError.suffix(1000))")
        #expect(waitUntil { stage.simulator.totals.openConnections == 4 })
        #expect(stage.simulator.ledger.acceptedCounts.values.allSatisfy { $0 == 1 })
    }
}
