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
