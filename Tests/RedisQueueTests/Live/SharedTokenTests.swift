import Harness
import Testing

@testable import RedisQueue

@Suite("Provider tokens in Redis")
struct SharedTokenTests {
    private let keys = Keys(list: "jobs")
    private let server: RedisServer

    init() throws { server = try RedisServer() }

    private func process() -> SharedTokens { SharedTokens(keys, between: .seconds(1200)) }

    private func ask(
        _ tokens: SharedTokens, oldest: Duration? = .seconds(1800), offer: String? = nil, age: Duration = .zero,
        refused: String? = nil, _ client: inout RedisClient
    ) throws -> String {
        let offer = offer.map { SharedTokens.Offer(sealed: Array("sealed \($0)".utf8), id: $0, age: age) }
        switch try tokens.ask("key", oldest: oldest, offer: offer, refused: refused, &client) {
        case .token(let sealed, _): return String(decoding: sealed, as: UTF8.self)
        case .mint: return "mint"
        case .wait: return "wait"
        case .none: return "none"
        }
    }

    /// Lets the token in Redis age.
    private func age(byMinutes minutes: Int, _ client: inout RedisClient) throws {
        for field in ["key:minted", "key:early"] {
            guard let time = try client.command(["HGET", keys.providerTokens, field]).text.flatMap({ Int($0) }) else { continue }
            _ = try client.command(["HSET", keys.providerTokens, field, String(time - minutes * 60_000)])
        }
    }

    @Test func `one process mints at a time, and the others get its token`() throws {
        var client = try server.client()
        let (one, other) = (process(), process())
        #expect(try ask(one, &client) == "mint")
        #expect(try ask(other, &client) == "wait")
        #expect(try ask(one, &client) == "mint", "the reply may have been lost")
        #expect(try ask(one, oldest: nil, offer: "a", &client) == "sealed a")
        #expect(try ask(other, &client) == "sealed a")
        try age(byMinutes: 31, &client)
        #expect(try ask(other, &client) == "mint")
        #expect(try ask(one, oldest: nil, &client) == "sealed a")
    }

    @Test func `a process that dies while it mints is replaced`() throws {
        var client = try server.client()
        #expect(try ask(process(), &client) == "mint")
        _ = try client.command(["HSET", keys.providerTokens, "key:until", "1"])
        #expect(try ask(process(), &client) == "mint")
    }

    @Test func `an offer replaces only an older token`() throws {
        var client = try server.client()
        #expect(try ask(process(), oldest: nil, &client) == "none")
        #expect(try ask(process(), oldest: nil, offer: "a", age: .seconds(60), &client) == "sealed a")
        #expect(try ask(process(), oldest: nil, offer: "b", age: .seconds(600), &client) == "sealed a")
        #expect(try ask(process(), oldest: nil, offer: "c", age: .seconds(6), &client) == "sealed c")
    }

    @Test func `a token that APNs calls expired is replaced once in 20 minutes`() throws {
        var client = try server.client()
        let (one, other) = (process(), process())
        _ = try ask(one, oldest: nil, offer: "a", &client)
        #expect(try ask(one, refused: "a", &client) == "mint")
        #expect(try ask(other, refused: "a", &client) == "wait")
        #expect(try ask(one, offer: "b", &client) == "sealed b")
        #expect(try ask(other, refused: "a", &client) == "sealed b", "it is newer than the refused one")
        #expect(try ask(other, refused: "b", &client) == "sealed b", "there is no newer one")
        try age(byMinutes: 21, &client)
        #expect(try ask(other, refused: "b", &client) == "mint")
    }

    @Test func `a clock of Redis that was set back makes the token new`() throws {
        var client = try server.client()
        _ = try ask(process(), oldest: nil, offer: "a", &client)
        try age(byMinutes: -100, &client)
        guard case .token(_, let age) = try process().ask("key", oldest: .seconds(1800), offer: nil, refused: nil, &client)
        else {
            Issue.record("no token")
            return
        }
        #expect(age == .zero)
    }
}
