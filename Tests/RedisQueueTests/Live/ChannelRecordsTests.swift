import Harness
import Platform
import RedisQueue
import Testing

@Suite("The records of channels")
struct ChannelRecordsTests {
    private let server: RedisServer
    private let keys = Keys(list: "q")
    private let records: ChannelRecords

    init() throws {
        server = try RedisServer()
        records = ChannelRecords(keys)
    }

    @Test func `a change applies to the record that was read, and to no other`() throws {
        var client = try server.client()
        let (one, two) = (Array("one".utf8), Array("two".utf8))
        #expect(try records.make(.init("a", from: nil, to: one), &client))
        #expect(try !records.make(.init("a", from: nil, to: two), &client))
        #expect(try !records.make(.init("a", from: two, to: nil), &client))
        #expect(try records.make(.init("a", from: one, to: two), &client))
        #expect(try records.read(["a", "b"], &client) == [two, nil])
        #expect(try records.all(&client).map(\.field) == ["a"])
        #expect(try records.make(.init("a", from: two, to: nil), &client))
        #expect(try records.all(&client).isEmpty)
    }

    @Test func `one process at a time creates a channel`() throws {
        var client = try server.client()
        #expect(try records.beginCreation("a", for: .seconds(40), &client) == .own)
        guard case .other(let left) = try records.beginCreation("a", for: .seconds(5), &client) else {
            Issue.record("two processes create")
            return
        }
        #expect(left > .seconds(5) && left <= .seconds(40))
        #expect(try records.beginCreation("b", for: .seconds(5), &client) == .own && records.creations(&client) == 2)
        try records.endCreation("a", &client)
        #expect(try records.beginCreation("a", for: .seconds(5), &client) == .own)
        #expect(try records.make(.init("a", from: nil, to: [1], creation: "a"), &client) && records.creations(&client) == 1)
    }

    @Test func `a lease that has ended, or that dates from another clock, is taken over`() throws {
        var client = try server.client()
        _ = try client.command(["ZADD", keys.channelWork, "1", "ca", "9e15", "cb"])
        #expect(try records.creations(&client) == 1)
        for name in ["a", "b"] { #expect(try records.beginCreation(name, for: .seconds(5), &client) == .own) }
    }

    @Test func `a deletion is due after its time, and again if it is not done`() throws {
        var client = try server.client()
        #expect(try records.make(.init("a", from: nil, to: [1], deletion: .seconds(3600)), &client))
        #expect(try records.takeDue(for: .seconds(30), &client) == [])
        #expect(try records.make(.init("a", from: [1], to: [2], deletion: .zero), &client))
        #expect(try records.takeDue(for: .milliseconds(1), &client) == ["a"])
        #expect(try waitUntil { try records.takeDue(for: .seconds(30), &client) == ["a"] })
        #expect(try records.takeDue(for: .seconds(30), &client) == [], "another process deletes it")
        #expect(try records.make(.init("a", from: [2], to: nil), &client))
        #expect(try client.command(["EXISTS", keys.channelWork]).integer == 0)
    }
}
