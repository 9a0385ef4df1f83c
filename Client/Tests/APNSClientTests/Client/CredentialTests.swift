import APNSClient
import APNSSimulator
import Harness
import Testing

@Suite("Replacing the credential of a client")
struct CredentialTests {
    /// A key that the simulator does not know.
    private func strange() throws -> APNSAuthentication {
        let other = try Credentials.make(.init(keyID: "OTHERKEY01")).providerKey
        return .signingKey(pem: String(decoding: other.pem, as: UTF8.self), keyID: other.keyID, teamID: other.teamID)
    }

    @Test func `ends the hold that a wrong key caused`() async throws {
        let fixture = try ClientFixture()
        let wrong = try strange()
        let client = try fixture.client { $0.authentication = wrong }
        let refused = await failure { () throws(APNSError) in try await client.send(ClientFixture.push()) }
        #expect(refused?.response?.status == 403)
        try client.replaceAuthentication(with: fixture.configuration().authentication)
        #expect(try await client.send(ClientFixture.push()).mayBeDuplicate == false)
        await client.shutdown()
    }

    @Test func `loses no push of a client that is at work`() async throws {
        let fixture = try ClientFixture { $0.behaviour.script.latency = .zero ... .milliseconds(3) }
        let text = { (bytes: [UInt8]) in String(decoding: bytes, as: UTF8.self) }
        let credentials = fixture.credentials
        let certificate = APNSAuthentication.certificate(
            pem: text(credentials.clientCertificatePEM), key: text(credentials.clientKeyPEM))
        let key = fixture.configuration().authentication
        let client = try fixture.client()
        let accepted = await withTaskGroup { group in
            for number in 0..<2000 {
                group.addTask {
                    if number % 400 == 200 {
                        try? client.replaceAuthentication(with: number % 800 == 200 ? certificate : key)
                    }
                    return (try? await client.send(ClientFixture.push(number))) != nil
                }
            }
            return await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
        }
        #expect(accepted == 2000)
        // The old sessions stay until the last credential has had an acceptance.
        for number in 2000..<100_000 where fixture.simulator.totals.openConnections > 2 {
            _ = try await client.send(ClientFixture.push(number))
        }
        #expect(fixture.simulator.ledger.acceptedCounts.values.allSatisfy { $0 == 1 })
        #expect(await eventually { fixture.simulator.totals.openConnections == 2 })
        await client.shutdown()
    }

    @Test func `keeps the present one if the other is invalid`() async throws {
        let fixture = try ClientFixture()
        let client = try fixture.client()
        #expect(throws: APNSError.self) {
            try client.replaceAuthentication(with: .signingKey(pem: "no key", keyID: "ABCDE12345", teamID: "ABCDE12345"))
        }
        _ = try await client.send(ClientFixture.push())
        await client.shutdown()
        // After the end it has no effect.
        try client.replaceAuthentication(with: fixture.configuration().authentication)
        let error = await failure { () throws(APNSError) in try await client.send(ClientFixture.push()) }
        #expect(error?.cause == .shutDown)
    }

    @Test func `applies before the first push`() async throws {
        let fixture = try ClientFixture()
        let wrong = try strange()
        let client = try fixture.client { $0.authentication = wrong }
        try client.replaceAuthentication(with: fixture.configuration().authentication)
        try await client.start()
        _ = try await client.send(ClientFixture.push())
        #expect(fixture.simulator.totals.requests == 1)
        await client.shutdown()
    }
}
