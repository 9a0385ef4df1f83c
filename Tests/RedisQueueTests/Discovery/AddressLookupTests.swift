import Harness
import Platform
import Testing

@testable import RedisQueue

@Suite("The addresses of a server")
struct AddressLookupTests {
    private let names = SlowNames()
    private let redis = Endpoint.tcp(host: "redis.test", port: 6379)

    /// Returns the result at `now`, once the resolver has answered.
    private func answer(_ lookup: inout AddressLookup, now: Instant) throws -> AddressLookup.Answer? {
        var poller = Poller()
        lookup.addInterest(to: &poller)
        poller.wait(until: .now + .seconds(60))
        return lookup.answer(now: now)
    }

    private func texts(_ answer: AddressLookup.Answer?) throws -> [String]? { try answer?.get().map(\.description) }

    @Test(arguments: [
        Endpoint.tcp(host: "127.0.0.1", port: 6379), .tcp(host: "::1", port: 6379), .unix(path: "/run/redis.sock"),
    ])
    func `a numeric address and a Unix socket need no resolver`(endpoint: Endpoint) throws {
        var lookup = AddressLookup(NameResolver(thread: "test") { [names] in names.lookUp($0, $1) })
        #expect(try texts(lookup.begin(endpoint, atMost: .seconds(2), now: start))?.count == 1)
        #expect(names.lookups == 0)
    }

    @Test func `a name without known addresses fails when the limit is over`() throws {
        defer { names.open() }
        var lookup = AddressLookup(NameResolver(thread: "test") { [names] in names.lookUp($0, $1) })
        #expect(try texts(lookup.begin(redis, atMost: .seconds(2), now: start)) == nil)
        #expect(lookup.deadline == start + .seconds(2))
        #expect(try texts(lookup.answer(now: start + .milliseconds(1999))) == nil)
        #expect(lookup.answer(now: start + .seconds(2)) == .failure(.socket(.timedOut("looking up redis.test"))))
    }

    @Test func `last known addresses count after a quarter of the limit`() throws {
        defer { names.open() }
        names.open()
        var lookup = AddressLookup(NameResolver(thread: "test") { [names] in names.lookUp($0, $1) })
        #expect(try texts(lookup.begin(redis, atMost: .seconds(2), now: start)) == nil)
        #expect(try texts(answer(&lookup, now: start)) == ["127.0.0.1:6379"])
        names.close()
        #expect(try texts(lookup.begin(redis, atMost: .seconds(2), now: start)) == nil)
        #expect(try texts(lookup.answer(now: start + .milliseconds(499))) == nil)
        #expect(try texts(lookup.answer(now: start + .milliseconds(500))) == ["127.0.0.1:6379"])
    }

    @Test func `last known addresses count if the resolver fails`() throws {
        let answers = Locked<[NameResolver.Answer]>([
            .failure(.unresolvable(host: "redis.test", reason: "gone")), .success([]),
            .success([try #require(SocketAddress.numeric(host: "127.0.0.2", port: 6379))]),
        ])
        let resolver = NameResolver(thread: "test") { _, _ in answers.withLock { $0.removeLast() } }
        var lookup = AddressLookup(resolver)
        for _ in 1...3 {
            #expect(try texts(lookup.begin(redis, atMost: .seconds(2), now: start)) == nil)
            #expect(try texts(answer(&lookup, now: start)) == ["127.0.0.2:6379"])
        }
    }

    @Test func `an answer that comes too late serves the next lookup`() throws {
        var lookup = AddressLookup(NameResolver(thread: "test") { [names] in names.lookUp($0, $1) })
        #expect(try texts(lookup.begin(redis, atMost: .seconds(2), now: start)) == nil)
        #expect(lookup.answer(now: start + .seconds(2)) == .failure(.socket(.timedOut("looking up redis.test"))))
        // The resolver still has the first question.
        #expect(try texts(lookup.begin(redis, atMost: .seconds(2), now: start + .seconds(3))) == nil)
        names.open()
        #expect(try texts(answer(&lookup, now: start + .seconds(5))) == ["127.0.0.1:6379"])
        #expect(names.lookups == 1)
    }
}
