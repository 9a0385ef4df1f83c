import Harness
import Testing

@testable import RedisQueue

@Suite("Looks at the tail of a list")
struct TailProbeTests {
    private let keys = Keys(list: "jobs")

    /// Asks, and returns the question of the next look.
    private func look(
        _ question: TailProbe.Question, _ client: inout RedisClient
    ) throws -> (answer: TailProbe.Answer, next: TailProbe.Question) {
        let answer = try TailProbe(keys).ask(question, &client)
        var next = TailProbe.Question()
        (next.anchor, next.counts) = (answer.tail ?? [], answer.counts)
        return (answer, next)
    }

    @Test func `an empty list has no tail`() throws {
        let server = try RedisServer()
        var client = try RedisClient(settings: server.settings())
        let answer = try look(.init(), &client).answer
        #expect(answer == TailProbe.Answer())
    }

    @Test func `pushes behind the anchor are counted, whatever happens at the head`() throws {
        let server = try RedisServer()
        var client = try RedisClient(settings: server.settings())
        try server.push((0..<10).map { "job \($0)" })
        let (first, question) = try look(.init(), &client)
        #expect(first.counts.length == 10)
        #expect(first.tail == Array("job 9".utf8))
        try server.push(["a", "b", "c"])
        #expect(try look(question, &client).answer.anchor == .behind(3))
        // Three jobs are claimed, and one returns.
        try server.ask("LPOP", "jobs", "3")
        try server.ask("LPUSH", "jobs", "job 2")
        try server.ask("HSET", keys.stats, "claimed", "3", "released", "1")
        let (answer, _) = try look(question, &client)
        #expect(answer.anchor == .behind(3))
        #expect(answer.counts.claimed == 3 && answer.counts.released == 1)
    }

    @Test func `an anchor that was claimed is missing, and one with copies is ambiguous`() throws {
        let server = try RedisServer()
        var client = try RedisClient(settings: server.settings())
        try server.push(["a", "b"])
        let question = try look(.init(), &client).next
        try server.ask("LPOP", "jobs", "2")
        try server.ask("HSET", keys.stats, "claimed", "2")
        try server.push(["c"])
        #expect(try look(question, &client).answer.anchor == .missing)
        try server.push(["b", "b", "d"])
        #expect(try look(question, &client).answer.anchor == .ambiguous)
    }

    @Test func `marks are found at their places only`() throws {
        let server = try RedisServer()
        var client = try RedisClient(settings: server.settings())
        try server.push(["a", "b"])
        let (first, next) = try look(.init(), &client)
        try server.push(["c", "d"])
        var question = next
        question.marks = [
            .init(behind: 0, digest: first.digest), .init(behind: 1, digest: first.digest),
            .init(behind: 7, digest: first.digest),
        ]
        #expect(try look(question, &client).answer.matches == [true, false, false])
    }

    @Test func `a large job is not read, and hostile counters count as zero`() throws {
        let server = try RedisServer()
        var client = try RedisClient(settings: server.settings())
        try server.push([String(repeating: "x", count: TailProbe.mostBytes + 1)])
        try server.ask("HSET", keys.stats, "claimed", "nonsense", "released", "-5")
        let answer = try look(.init(), &client).answer
        #expect(answer.tail == nil && answer.counts.length == 1)
        #expect(answer.counts.claimed == 0 && answer.counts.released == 0)
    }
}
