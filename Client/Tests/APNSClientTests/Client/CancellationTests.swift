import APNSClient
import APNSSimulator
import Harness
import Testing

@Suite("Cancellation")
struct CancellationTests {
    @Test func `withdraws a push that waits, and resets one on the wire`() async throws {
        let fixture = try ClientFixture { $0.behaviour.streamLimit = 1 }
        let client = try fixture.client { $0.poolSize = .fixed(1) }
        _ = try await client.send(ClientFixture.push(0))
        fixture.answer(1, .silent)
        let first = Task { () throws(APNSError) -> Receipt in try await client.send(ClientFixture.push(1)) }
        #expect(await eventually { fixture.simulator.totals.requests == 2 })
        let second = Task { () throws(APNSError) -> Receipt in try await client.send(ClientFixture.push(2)) }
        second.cancel()
        let withdrawn = await second.result
        #expect(throws: APNSError.self) { try withdrawn.get() }
        if case .failure(let error) = withdrawn { #expect((error as? APNSError)?.fate == .notSent) }
        first.cancel()
        if case .failure(let error) = await first.result { #expect((error as? APNSError)?.fate == .maybeSent) }
        // The reset stream is free again.
        _ = try await client.send(ClientFixture.push(3))
        #expect(fixture.simulator.ledger.requests(for: deviceToken(2)).isEmpty)
        await client.shutdown()
    }

    @Test func `at 10,000 random moments leaves one result for each push`() async throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        print("seed \(seed)")
        var generator = SeededGenerator(seed: seed)
        let fixture = try ClientFixture { configuration in
            configuration.behaviour.streamLimit = 100
            configuration.behaviour.script.latency = .zero ... .milliseconds(4)
        }
        let client = try fixture.client { $0.deadline = .seconds(300) }
        _ = try await client.send(ClientFixture.push(100_000))
        var (accepted, notSent, maybeSent) = (0, 0, 0)
        var first = 0
        while first < 10_000 {
            let numbers = first..<first + 500
            let sends = numbers.map { number in
                Task { () throws(APNSError) -> Receipt in try await client.send(ClientFixture.push(number)) }
            }
            // Each is cancelled, some at once, some after others or after their result.
            for place in numbers.indices.shuffled(using: &generator) {
                for _ in 0..<Int.random(in: 0...3, using: &generator) { await Task.yield() }
                sends[place - first].cancel()
            }
            for (number, send) in zip(numbers, sends) {
                let result = await send.result
                let count = fixture.simulator.ledger.acceptedCount(token: deviceToken(number))
                switch result {
                case .success:
                    accepted += 1
                    #expect(count == 1, "seed \(seed), push \(number)")
                case .failure(let error as APNSError):
                    #expect(error.cause == .cancelled, "seed \(seed), push \(number): \(error)")
                    if error.fate == .notSent {
                        notSent += 1
                        #expect(count == 0, "seed \(seed), push \(number)")
                    } else {
                        maybeSent += 1
                    }
                case .failure(let error): Issue.record("\(error)")
                }
            }
            first += 500
        }
        print("10,000 cancellations: \(accepted) accepted, \(notSent) withdrawn, \(maybeSent) reset")
        #expect(accepted + notSent + maybeSent == 10_000)
        // The streams are free again, and no send is left.
        _ = try await client.send(ClientFixture.push(100_001))
        await client.shutdown()
        // A withdrawn push stays unsent.
        #expect(fixture.simulator.totals.accepted <= accepted + maybeSent + 2)
    }
}
