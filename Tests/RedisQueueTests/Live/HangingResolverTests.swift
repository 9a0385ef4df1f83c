import Harness
import Platform
import Testing

@testable import RedisQueue

/// Without a thread for names, a turn would wait for the resolver, and these tests would never end.
@Suite("While the resolver hangs")
struct HangingResolverTests {
    private let names = SlowNames()

    private func worker(_ settings: QueueSettings) -> Worker {
        Worker(settings, resolver: NameResolver(thread: "redis names") { [names] in names.lookUp($0, $1) })
    }

    private func settings(_ server: QueueSettings.Server, lease: Duration = .seconds(15)) -> QueueSettings {
        var settings = QueueSettings(list: "jobs", server: server, lease: lease)
        settings.timeout = .milliseconds(200)
        return settings
    }

    @Test(arguments: [
        QueueSettings.Server.tcp(host: "redis.test", port: 6379),
        .sentinels([.tcp(host: "one.test", port: 26379), .tcp(host: "two.test", port: 26379)], master: "main"),
    ])
    func `each turn returns, each dial fails in time, and a stop completes`(server: QueueSettings.Server) {
        defer { names.open() }
        let worker = worker(settings(server))
        worker.run("disconnected") { worker.isDisconnected }
        worker.stop()
        // One thread, which still hangs.
        #expect(names.lookups == 1)
        #expect(names.isHanging)
    }

    @Test func `a reconnect uses the last known address, and jobs continue`() throws {
        defer { names.open() }
        names.open()
        let server = try RedisServer(hasPort: true)
        let worker = worker(settings(.tcp(host: "redis.test", port: try #require(server.port))))
        worker.run("connected") { worker.connects == 1 }
        names.close()
        try server.ask("CLIENT", "KILL", "TYPE", "normal")
        worker.run("reconnected") { worker.connects == 2 }
        // The thread for names may run later than the reconnect.
        worker.run("the name is looked up") { names.isHanging }
        try server.push(["a job"])
        worker.run("claimed") { worker.texts == ["a job"] }
        worker.acknowledgeAll()
        worker.stop()
        #expect(names.isHanging)
    }

    @Test func `the worker fences itself when its lease is in doubt`() throws {
        defer { names.open() }
        names.open()
        let server = try RedisServer(hasPort: true)
        let port = try #require(server.port)
        let worker = worker(settings(.tcp(host: "redis.test", port: port), lease: .seconds(2)))
        try server.push(["a job"])
        worker.run("claimed") { worker.texts == ["a job"] }
        names.close()
        server.kill()
        worker.run("in doubt") { worker.isInDoubt }
        worker.run("the name is looked up") { names.isHanging }
        #expect(worker.queue.sendingDeadline == nil)
    }
}
