import Harness
import Platform
import Testing

@testable import RedisQueue

@Suite("Leases of the fleet's rate limits")
struct RateLeaseTests {
    private let keys = Keys(list: "jobs")

    private func lease(_ leases: inout RateLeases, _ length: Duration, _ client: inout RedisClient) throws -> Instant? {
        if case .window(let start) = try leases.lease(length, &client) { start } else { nil }
    }

    @Test func `the windows of two daemons do not overlap`() throws {
        let server = try RedisServer()
        var client = try RedisClient(settings: QueueSettings(list: "jobs", server: .unix(path: server.socketPath)))
        var leases = [RateLeases(keys, now: .now), RateLeases(keys, now: .now)]
        let begin = Instant.now
        var end = begin - .milliseconds(50)
        for turn in 0..<9 {
            let start = try #require(try lease(&leases[turn % 2], .milliseconds(100), &client))
            // Both clocks are the machine's: the difference that a daemon measures is off by less than a round trip.
            #expect(start >= end - .milliseconds(50), "turn \(turn)")
            end = start + .milliseconds(100)
        }
        #expect(end >= begin + .milliseconds(850))
    }

    @Test func `a window beyond the horizon is not leased`() throws {
        let server = try RedisServer()
        var client = try RedisClient(settings: QueueSettings(list: "jobs", server: .unix(path: server.socketPath)))
        var leases = RateLeases(keys, now: .now)
        #expect(try lease(&leases, .seconds(100), &client) != nil)
        #expect(try lease(&leases, .milliseconds(100), &client) == nil)
    }

    @Test func `an end that only a clock set back explains is ignored`() throws {
        let server = try RedisServer()
        var client = try RedisClient(settings: QueueSettings(list: "jobs", server: .unix(path: server.socketPath)))
        var leases = RateLeases(keys, now: .now)
        _ = try client.command(["HSET", keys.pace, "next", "9007199254740991"])
        #expect(try lease(&leases, .milliseconds(100), &client) != nil)
        _ = try client.command(["HSET", keys.pace, "next", "nonsense"])
        #expect(try lease(&leases, .milliseconds(100), &client) != nil)
    }
}
