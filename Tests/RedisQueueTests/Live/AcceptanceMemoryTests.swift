import Harness
import Testing

@testable import RedisQueue

@Suite("Acceptances in Redis")
struct AcceptanceMemoryTests {
    private let keys = Keys(list: "jobs")
    private let server: RedisServer

    init() throws { server = try RedisServer() }

    private func exchange(
        _ accepted: [String: Duration] = [:], wanted: [String] = [], removesOld: Bool = false, _ client: inout RedisClient
    ) throws -> [String: Duration] {
        try AcceptanceMemory.exchange(accepted, wanted: wanted, removesOld: removesOld, keys, &client)
    }

    private func fields(_ client: inout RedisClient) throws -> Set<String> {
        Set(try client.command(["HKEYS", keys.accepted]).items?.compactMap(\.text) ?? [])
    }

    @Test func `an acceptance is remembered for a day`() throws {
        var client = try server.client()
        let recorded: [String: Duration] = ["a": .zero, "b": .seconds(86_300), "c": .seconds(86_400)]
        #expect(try exchange(recorded, &client) == [:])
        let known = try exchange(wanted: ["a", "b", "c", "d"], &client)
        #expect(Set(known.keys) == ["a", "b"])
        #expect(known["b", default: .zero] >= .seconds(86_300) && known["a", default: .seconds(99)] < .seconds(60))
    }

    @Test func `an older acceptance does not replace a newer one`() throws {
        var client = try server.client()
        _ = try exchange(["a": .seconds(10)], &client)
        _ = try exchange(["a": .seconds(5000)], &client)
        #expect(try exchange(wanted: ["a"], &client)["a", default: .seconds(5000)] < .seconds(5000))
    }

    @Test func `old fields, and those of another kind, are removed`() throws {
        var client = try server.client()
        _ = try client.command(["HSET", keys.accepted, "old", "1000", "strange", "x"])
        _ = try exchange(["a": .zero], &client)
        #expect(try fields(&client) == ["a", "old", "strange"])
        #expect(try exchange(wanted: ["old", "strange"], removesOld: true, &client) == [:])
        #expect(try fields(&client) == ["a"])
    }

    @Test func `beyond the capacity the oldest fields are removed`() throws {
        var client = try server.client()
        let many = (0..<AcceptanceMemory.capacity + 100).map { ("f\($0)", Duration.seconds($0)) }
        _ = try exchange(Dictionary(uniqueKeysWithValues: many), &client)
        #expect(try fields(&client) == Set((0..<AcceptanceMemory.capacity * 9 / 10).map { "f\($0)" }))
    }

    @Test func `a time in the future counts as now, once`() throws {
        var client = try server.client()
        _ = try client.command(["HSET", keys.accepted, "a", "99999999999"])
        #expect(try exchange(wanted: ["a"], &client) == ["a": .zero])
        let now = try #require(try client.command(["TIME"]).items?.first?.text.flatMap { Int($0) })
        let stored = try #require(try client.command(["HGET", keys.accepted, "a"]).text.flatMap { Int($0) })
        #expect(stored <= now)
    }

    @Test func `the rights of the documented user are sufficient`() throws {
        var client = try server.client()
        _ = try client.command([
            "ACL", "SETUSER", "least", "reset", "on", ">p", "~{jobs}:gapless:*", "+eval", "+evalsha", "+time", "+del", "+hdel",
            "+hget", "+hkeys", "+hlen", "+hmget", "+hset",
        ])
        _ = try client.command(["AUTH", "least", "p"])
        #expect(try exchange(["a": .zero], wanted: ["a"], removesOld: true, &client).keys.first == "a")
    }
}

@Suite("The apps that daemons have had, in Redis")
struct AppRecordsTests {
    private let keys = Keys(list: "jobs")
    private let server: RedisServer

    init() throws { server = try RedisServer() }

    @Test func `names and topics are kept, and a new topic replaces the former one`() throws {
        var client = try server.client()
        #expect(try AppRecords.write(["one": "com.one", "two words": "", "three": "a b"], keys, &client) == 3)
        #expect(try AppRecords.write(["one": "com.new"], keys, &client) == 3)
        #expect(try AppRecords.write([:], keys, &client) == 3)
        #expect(try AppRecords.read(keys, &client) == ["one": "com.new", "two words": "", "three": "a b"])
    }

    @Test func `beyond the capacity those that no daemon has had for the longest time are removed`() throws {
        var client = try server.client()
        for number in 0..<2_100 { _ = try client.command(["HSET", keys.apps, "f\(number)", "\(number) t"]) }
        _ = try client.command(["HSET", keys.apps, "strange", "x"])
        #expect(try AppRecords.write(["new": "t"], capacity: 2_000, keys, &client) == 1_800)
        let left = try AppRecords.read(keys, &client)
        #expect(Set(left.keys) == Set((301..<2_100).map { "f\($0)" } + ["new"]))
    }
}
