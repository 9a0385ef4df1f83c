import APNSSimulator
import Glibc
import Harness
import PushPool
import Testing

@testable import Platform
@testable import gaplessd

@Suite("Reading the settings again", .blocking)
struct ReloaderTests {
    private let folder = TemporaryFolder()
    private let log = LogFixture()
    private let limits = SharedRateLimits()

    private static let key =
        #""apns_auth_key_path": "AuthKey_SIMKEY0001.p8", "apns_auth_key_id": "SIMKEY0001", "apns_team_id": "SIMTEAM001""#
    private static let certificate = #""apns_cert_path": "client.pem", "apns_key_path": "client-key.pem""#

    init() throws { _ = try Credentials.make(.init(topics: ["com.example.app"])).write(to: folder.path) }

    private func write(_ members: String, apns: String = Self.key) throws -> String {
        let file = folder.file("settings.json")
        let app = #""apps": {"cert": {\#(Self.certificate)}}"#
        try File.write(#"{"redis_queue_key": "q", "apns_server": "127.0.0.1:1", \#(apns), \#(members)\#(app)}"#, to: file)
        return file
    }

    private func load(_ members: String = "", apns: String = Self.key) throws -> Configuration {
        try Configuration.load(SettingsFile(path: try write(members, apns: apns)), holdsFaultyApps: true)
    }

    private func read() -> Reloader.Read {
        let file = folder.file("settings.json")
        return { Result { () throws(SettingsErrors) in try Configuration.load(SettingsFile(path: file), holdsFaultyApps: true) } }
    }

    /// The parts of a daemon that a reload changes, without their threads.
    private final class Parts {
        let metrics: MetricsEndpoint
        let channel: SideChannel
        var pools: AppPools
        var reloader: Reloader

        init(metrics: MetricsEndpoint, channel: SideChannel, pools: AppPools, reloader: consuming Reloader) {
            (self.metrics, self.channel, self.pools) = (metrics, channel, pools)
            self.reloader = reloader
        }

        /// Waits for the messages of the thread.
        func next() throws -> Reloader.Message {
            var messages: [Reloader.Message] = []
            let isDone = waitUntil {
                messages = reloader.messages.drain()
                return !messages.isEmpty
            }
            guard isDone, messages.count == 1 else { throw Unexpected("\(messages.count) messages") }
            return messages[0]
        }

        /// - Parameter ends: whether the caller does not end the reload.
        func reload(ends: Bool = true) throws -> Result<Reloader.Reading, Reloader.Rejection> {
            try #require(reloader.begin() == true)
            guard case .read(let result) = try next() else { throw Unexpected("no reading") }
            if ends { _ = reloader.prepare(result) }
            return result
        }

        deinit {
            _ = pools.close()
            metrics.close()
        }
    }

    private func parts(
        _ configuration: Configuration, read: @escaping Reloader.Read,
        trial: @escaping Reloader.Trial = { _ throws(ProbeError) in }
    ) throws -> Parts {
        let channel = try SideChannel(configuration, limits, log: log.log)
        let metrics = MetricsEndpoint(RedisReadings(configuration.settings.lists, channel.wakeUp), log: log.log)
        metrics.adopt(try metrics.prepare(configuration))
        let pools = try AppPools(configuration, limits: limits)
        let reloader = try Reloader(configuration, read: read, trial: trial, log: log.log, metrics: metrics, channel: channel)
        return Parts(metrics: metrics, channel: channel, pools: pools, reloader: reloader)
    }

    @Test func `The caller does not wait while the files are read, and a second request follows the first`() throws {
        let gate = WakeUp()
        let reads = Locked(0)
        let read = read()
        let parts = try parts(load()) {
            reads.withLock { $0 += 1 }
            var poller = Poller()
            poller.add(gate.descriptor, for: .read)
            poller.wait(until: nil)
            gate.listen()
            return read()
        }
        #expect(parts.reloader.begin() == true)
        #expect(waitUntil { reads.withLock { $0 } == 1 })
        #expect(parts.reloader.begin() == true)
        #expect(parts.reloader.messages.drain().isEmpty)
        gate.ring()
        guard case .read(let result) = try parts.next() else { throw Unexpected("no reading") }
        #expect(parts.reloader.prepare(result) != nil)
        #expect(parts.reloader.beginAgain() == true)
        gate.ring()
        _ = try parts.next()
        #expect(reads.withLock { $0 } == 2)
        #expect(parts.reloader.beginAgain() == false)
    }

    @Test func `Only apps whose settings or files differ have changed`() throws {
        let parts = try parts(load(), read: read())
        #expect(try parts.reload().get().changes == [false, false])
        try File.write(File.read(folder.file("client.pem")) + "\n", to: folder.file("client.pem"))
        let reading = try parts.reload().get()
        #expect(reading.changes == [false, true] && reading.faults.isEmpty)
        let prepared = parts.reloader.prepare(.success(reading))
        parts.reloader.commit(try #require(prepared))
        parts.reloader.adopted(insteadOf: reading.plan)
        #expect(try parts.reload().get().changes == [false, false])
        _ = try write(#""apns_keepalive": 7, "#)
        #expect(try parts.reload().get().changes == [true, true])
    }

    @Test func `An app whose new credential cannot be used keeps the previous one with its settings`() throws {
        let old = try load()
        let parts = try parts(old, read: read())
        try File.write("rubbish", to: folder.file("client.pem"))
        _ = try write(#""apns_keepalive": 7, "#)
        let reading = try parts.reload().get()
        #expect(reading.changes == [true, false])
        #expect(reading.configuration.settings.apps[1] == old.settings.apps[1])
        #expect(reading.plan.apps.map(\.fault) == [nil, nil])
        #expect(reading.faults.count == 1)
        #expect(reading.faults[0].hasPrefix("\(folder.file("settings.json")): apps.cert.apns_cert_path: "))
        #expect(reading.faults[0].hasSuffix(#"Only app "cert" keeps its previous credential"#), "\(reading.faults)")
        // Without any usable credential nothing is adopted.
        try File.write("rubbish", to: folder.file("AuthKey_SIMKEY0001.p8"))
        #expect(throws: Reloader.Rejection.self) { try parts.reload().get() }
    }

    @Test func `A reload that fails at one step changes nothing`() throws {
        let taken = try Listener(port: 0)
        let port = FreePort.pick()
        let parts = try parts(load(#""metrics_listen": "127.0.0.1:\#(port)", "#), read: read())
        let talk = try #require(HTTPTalk(port: port))
        _ = try write(#""max_rate_fleet": 100, "metrics_listen": "127.0.0.1:\#(taken.port)", "#)
        let result = try parts.reload(ends: false)
        #expect(parts.reloader.prepare(result) == nil)
        // The same port at an address of another machine.
        _ = try write(#""max_rate_fleet": 100, "metrics_listen": "192.0.2.1:\#(port)", "#)
        let second = try parts.reload(ends: false)
        #expect(parts.reloader.prepare(second) == nil)
        #expect(limits.holding == nil)
        talk.send("GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        #expect(talk.readToEnd()?.hasSuffix("starting\n") == true)
        #expect(log.finish().errors.contains("metrics_listen: cannot listen at 127.0.0.1:\(taken.port): "))
    }

    @Test func `A server that replaces another one may have its port, and closes if it is not adopted`() throws {
        let port = FreePort.pick()
        let old = try load(#""metrics_listen": "127.0.0.1:\#(port)", "#)
        let parts = try parts(old, read: read())
        let talk = try #require(HTTPTalk(port: port))
        let new = try load(#""metrics_listen": "0.0.0.0:\#(port)", "#)
        _ = try parts.metrics.prepare(new)
        #expect(throws: SocketError.self) { _ = try Listener(port: port) }
        talk.send("GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        #expect(talk.readToEnd()?.hasSuffix("starting\n") == true)
        parts.metrics.adopt(try parts.metrics.prepare(new))
        #expect(HTTPTalk.get("/readyz", port: port)?.status == 503)
        #expect(throws: SocketError.self) { _ = try Listener(port: port) }
        parts.metrics.adopt(try parts.metrics.prepare(try load()))
        #expect(HTTPTalk(port: port) == nil)
    }

    @Test func `Sessions with a new credential do not open if the reload fails`() throws {
        let server = try Listener(port: 0)
        let taken = try Listener(port: 0)
        func write(_ members: String = "") throws {
            let app = #"{\#(Self.certificate), "apns_server": "127.0.0.1:\#(server.port)"}"#
            try File.write(
                #"{"redis_queue_key": "q", "apns_server": "127.0.0.1:1", "pool_size": 1, \#(Self.key), "#
                    + #"\#(members)"apps": {"a": \#(app)}}"#, to: folder.file("settings.json"))
        }
        func accepts() -> Bool { if server.accept() != nil { true } else { false } }
        let certificate = File.read(folder.file("client.pem"))
        try File.write("rubbish", to: folder.file("client.pem"))
        try write()
        let parts = try parts(read()().get(), read: read())
        try File.write(certificate, to: folder.file("client.pem"))
        try write(#""metrics_listen": "127.0.0.1:\#(taken.port)", "#)
        let first = try parts.reload(ends: false)
        #expect(parts.reloader.prepare(first) == nil)
        try write()
        let second = try parts.reload(ends: false)
        let prepared = parts.reloader.prepare(second)
        parts.reloader.commit(try #require(prepared))
        parts.pools.set(try second.get().configuration.settings.apps[1], at: 1)
        try parts.pools.open(1, now: .now)
        #expect(waitUntil { accepts() })
        #expect(!accepts())
    }

    @Test(arguments: [
        ("refused", #""redis_password": "x", "#, false), ("refused", #""redis_results_key": "r", "#, false),
        ("unavailable", #""redis_password": "x", "#, true), ("unavailable", #""redis_results_key": "r", "#, false),
        ("refused", #""max_rate_fleet": 100, "#, false), ("refused", #""pool_size": 3, "#, true),
    ])
    func `Redis is asked about its settings, and its refusal rejects them`(
        answer: String, members: String, isAdopted: Bool
    ) throws {
        let parts = try parts(
            load(), read: read(),
            trial: { settings throws(ProbeError) in throw answer == "refused" ? .refused("no") : .unavailable("no") })
        _ = try write(members)
        let result = try parts.reload()
        #expect(((try? result.get()) != nil) == isAdopted)
    }

    @Test func `Changed files are found by the thread, and read at the request`() throws {
        let parts = try parts(load(#""watch_files": true, "#), read: read())
        try File.write(File.read(folder.file("client.pem")) + "\n", to: folder.file("client.pem"))
        guard case .filesChanged = try parts.next() else { throw Unexpected("a reading without a request") }
        #expect(try parts.reload().get().changes == [false, true])
    }

    @Test func `A job waits for an app whose certificate cannot be read, and may have its topic`() throws {
        try File.write("rubbish", to: folder.file("client.pem"))
        let configuration = try load()
        #expect(configuration.settings.apps.map(\.hasUnknownTopics) == [false, true])
        var reader = JobReader(retryLimit: 0, appNames: ["cert"])
        func app(_ members: String, _ routes: AppRoutes) throws -> Int {
            try routes.app(for: try reader.read(Array(#"{"token":"ab","data":{}\#(members)}"#.utf8)))
        }
        let routes = AppRoutes(configuration.settings.apps)
        #expect(try app(#","app":"cert""#, routes) == 1)
        // The top level has a signing key, which has every topic of its team.
        #expect(try app(#","topic":"com.example.other""#, routes) == 0)
        let held = AppRoutes.App(name: "cert", hasUnknownTopics: true)
        let certified = AppRoutes([.init(topic: "com.example.top", certified: ["com.example.top"]), held])
        #expect(try app(#","topic":"com.example.top""#, certified) == 0)
        #expect(try app(#","topic":"com.example.other""#, certified) == 1)
        let alone = AppRoutes([.init(name: "a", topic: "com.example.a"), held])
        #expect(try app(#","topic":"com.example.a""#, alone) == 0)
        #expect(try app(#","topic":"com.example.other""#, alone) == 1)
        #expect(throws: JobError.self) { try app(#","app":"unknown""#, alone) }
    }
}
