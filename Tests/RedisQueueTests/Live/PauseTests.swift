import Harness
import Platform
import Testing

@testable import RedisQueue

@Suite("Pauses")
struct PauseTests {
    let server: RedisServer
    private let pauses = PauseList(Keys(list: "jobs"))

    init() throws { server = try RedisServer() }

    private func pause(_ app: String? = nil, for duration: Duration? = nil) throws {
        var client = try server.client()
        _ = try pauses.pause(app.map { .app($0) } ?? .list, for: duration, details: bytes(#", "reason": "test""#), &client)
    }

    private func resume(_ app: String? = nil) throws -> Bool {
        var client = try server.client()
        return try pauses.resume(app.map { .app($0) } ?? .list, &client)
    }

    /// The apps of the last report.
    private func reported(_ worker: Worker) -> [String?]? {
        let reports = worker.events.compactMap { if case .paused(let pauses) = $0 { pauses } else { nil } }
        return reports.last?.map { $0.scope == .list ? nil : $0.scope.field }
    }

    @Test func `a paused list gives out no jobs, also to a waiting and to a new worker, until it is resumed`() throws {
        let worker = Worker(server.settings())
        try worker.run("waiting") { try server.ask("CLIENT", "LIST").text?.contains("cmd=blmove") == true }
        try pause()
        try server.push(["one", "two"])
        worker.run("the report") { reported(worker) == [nil] }
        let other = Worker(server.settings())
        other.run("the report at the registration") { reported(other) == [nil] }
        #expect(try server.list("jobs") == ["one", "two"] && worker.jobs.isEmpty && other.jobs.isEmpty)
        #expect(try resume() && !resume())
        worker.run("two jobs") { worker.jobs.count + other.jobs.count == 2 }
        #expect(reported(worker) == [])
        worker.stop()
        other.stop()
    }

    @Test func `a pause of an app is reported before the jobs of the same claim`() throws {
        try pause("news")
        try pause("beta")
        try server.push(["one"])
        let worker = Worker(server.settings())
        worker.run("a job") { !worker.jobs.isEmpty }
        #expect(reported(worker) == ["beta", "news"])
        #expect(try resume("news"))
        worker.run("one pause") { reported(worker) == ["beta"] }
        worker.stop()
    }

    @Test func `a pause ends by the clock of Redis, and its field is removed`() throws {
        try pause(for: .milliseconds(300))
        try server.push(["one"])
        let worker = Worker(server.settings())
        worker.run("the pause") { reported(worker) == [nil] }
        worker.run("a job") { !worker.jobs.isEmpty }
        #expect(reported(worker) == [])
        #expect(try server.ask("EXISTS", Keys(list: "jobs").paused) == .integer(0))
        worker.stop()
    }

    @Test func `a worker with at_most_once learns of a pause with its registration and its beats`() throws {
        try pause()
        try server.push(["one"])
        var settings = server.settings()
        settings.mode = .atMostOnce
        settings.lease = .seconds(3)
        let worker = Worker(settings)
        worker.places = 0
        worker.run("the pause") { reported(worker) == [nil] }
        #expect(try resume())
        worker.run("the end of the pause") { reported(worker) == [] }
        worker.stop()
        #expect(try server.list("jobs") == ["one"])
    }

    @Test func `a record that no call wrote pauses without an end`() throws {
        try server.ask("HSET", Keys(list: "jobs").paused, "", "nonsense")
        #expect(try server.status().pauses == [QueuePause(.list, record: bytes("nonsense"))])
    }
}
