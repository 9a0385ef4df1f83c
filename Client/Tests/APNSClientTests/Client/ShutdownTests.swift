import APNSClient
import APNSSimulator
import Harness
import Testing

@Suite("The end of a client")
struct ShutdownTests {
    /// Sends many pushes, and shuts down while they are in flight.
    private func errors(within limit: Duration) async throws -> [APNSError] {
        let fixture = try ClientFixture { $0.behaviour.script.latency = .milliseconds(20) ... .milliseconds(40) }
        let client = try fixture.client()
        _ = try await client.send(ClientFixture.push(5000))
        let sends = (0..<3000).map { number in
            Task { () throws(APNSError) -> Receipt in try await client.send(ClientFixture.push(number)) }
        }
        #expect(await eventually { fixture.simulator.totals.requests > 100 })
        await client.shutdown(within: limit)
        let accepted = fixture.simulator.ledger.acceptedCounts
        var errors: [APNSError] = []
        for (number, send) in sends.enumerated() {
            switch await send.result {
            case .success: #expect(accepted[deviceToken(number)] == 1)
            case .failure(let error):
                errors.append(error as! APNSError)
                if errors.last?.fate == .notSent { #expect(accepted[deviceToken(number)] == nil) }
            }
        }
        return errors
    }

    @Test func `waits for the pushes in flight`() async throws {
        let errors = try await errors(within: .seconds(60))
        #expect(errors.allSatisfy { $0.cause == .shutDown && $0.fate == .notSent && $0.attempts == 0 })
    }

    @Test func `gives each push a result at the limit`() async throws {
        let errors = try await errors(within: .zero)
        #expect(errors.allSatisfy { $0.cause == .shutDown })
    }

    @Test func `does not wait for responses after the limit`() async throws {
        let fixture = try ClientFixture()
        let client = try fixture.client()
        _ = try await client.send(ClientFixture.push(5000))
        fixture.simulator.behave { $0.script.failures = [.init(.silent, 1)] }
        let sends = (0..<3000).map { number in
            Task { () throws(APNSError) -> Receipt in try await client.send(ClientFixture.push(number)) }
        }
        #expect(await eventually { fixture.simulator.totals.requests > 100 })
        await client.shutdown(within: .zero)
        var inDoubt = 0
        for send in sends {
            guard case .failure(let error as APNSError) = await send.result else {
                Issue.record("a push without a response was accepted")
                continue
            }
            #expect(error.cause == .shutDown)
            if error.fate == .maybeSent { inDoubt += 1 }
        }
        #expect(inDoubt > 100)
    }

    @Test func `refuses pushes afterwards, and may come twice or first`() async throws {
        let fixture = try ClientFixture()
        let client = try fixture.client()
        await client.shutdown()
        await client.shutdown()
        let error = await failure { () throws(APNSError) in try await client.send(ClientFixture.push()) }
        #expect(error?.cause == .shutDown)
        await #expect(throws: APNSError.self) { try await client.start() }
        #expect(fixture.simulator.totals.connections == 0)
    }

    @Test func `closes the sessions of a client that was dropped`() async throws {
        let fixture = try ClientFixture()
        do {
            let client = try fixture.client()
            _ = try await client.send(ClientFixture.push())
        }
        #expect(await eventually { fixture.simulator.totals.openConnections == 0 })
    }
}

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
