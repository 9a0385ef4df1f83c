import APNSSimulator
import Harness
import Platform
import RedisQueue
import Testing

@testable import PushPool

@Suite("Provider tokens of many machines", .blocking)
struct FleetTokenTests {
    /// One process with a clock of its own, and no folder.
    private struct Machine: Sendable {
        let exchange = ProviderTokenExchange()
        let source: ProviderTokenSource
        let tokens: SharedTokens
        let token = Locked<ProviderToken?>(nil)

        init(_ key: SigningKey, _ keys: Keys) {
            source = ProviderTokenSource(key, file: nil, timeout: .seconds(600))
            source.share(through: exchange)
            tokens = SharedTokens(keys, between: ProviderTokenExchange.between)
        }

        /// Sends the requests and returns the replies, as `FleetTokens` does.
        func serve(_ client: inout RedisClient) throws {
            for request in exchange.requests() {
                let offer = request.offer.map { SharedTokens.Offer(sealed: $0.sealed, id: $0.id, age: $0.age) }
                let sentAt = Instant.now
                switch try tokens.ask(
                    request.name, oldest: request.oldest, offer: offer, refused: request.refused, &client)
                {
                case .token(let sealed, let age): exchange.received(.token(sealed: sealed, age: age), to: request, sentAt: sentAt)
                case .mint: exchange.received(.mint, to: request, sentAt: sentAt)
                case .wait: exchange.received(.wait, to: request, sentAt: sentAt)
                case .none: exchange.received(.none, to: request, sentAt: sentAt)
                }
            }
        }
    }

    @Test func `fifty of them mint one token, with clocks that differ by minutes`() throws {
        let server = try RedisServer()
        let keys = Keys(list: "jobs")
        var client = try RedisClient(settings: QueueSettings(list: "jobs", server: .unix(path: server.socketPath)))
        let pem = try Credentials.make(.init()).providerKey.pem
        let key = try SigningKey(p8PEM: pem, keyID: "SIMKEY0001", teamID: "SIMTEAM001")
        let machines = (0..<50).map { _ in Machine(key, keys) }
        for (number, machine) in machines.enumerated() {
            let skew = Int64(number * 37 % 600 - 300)
            try OwnedThread(name: "machine") {
                let now = Moment()
                let token = machine.source.token(
                    forNewSession: true, at: Moment(now: now.now, unixTime: now.unixTime + skew))
                machine.token.withLock { $0 = token }
            }.leave()
        }
        #expect(
            try waitUntil(atMost: .seconds(120)) {
                for machine in machines { try machine.serve(&client) }
                return machines.allSatisfy { $0.token.withLock { $0 != nil } }
            })
        let tokens = Set(machines.compactMap { $0.token.withLock { $0?.bytes } })
        #expect(tokens.count == 1)
        let minted = machines.flatMap { $0.source.takeNews() }.count { if case .minted = $0 { true } else { false } }
        #expect(minted == 1)
        let stored = try client.command(["HGETALL", keys.providerTokens]).items?.compactMap(\.bytes) ?? []
        #expect(!stored.isEmpty)
        for token in tokens {
            // Neither the token nor its signature is in Redis.
            let parts = token.split(separator: UInt8(ascii: "."))
            for value in stored { for part in parts { #expect(!String(decoding: value, as: UTF8.self).contains(text(part))) } }
        }
    }

    private func text(_ bytes: ArraySlice<UInt8>) -> String { String(decoding: bytes, as: UTF8.self) }
}
