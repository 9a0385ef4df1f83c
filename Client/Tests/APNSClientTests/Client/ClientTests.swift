import APNSClient
import APNSSimulator
import Harness
import Testing

@Suite("A client and a simulator")
struct ClientTests {
    @Test func `sends with a signing key, a certificate or a PKCS#12 file`() async throws {
        let fixture = try ClientFixture()
        let text = { (bytes: [UInt8]) in String(decoding: bytes, as: UTF8.self) }
        let credentials = fixture.credentials
        let certificate = APNSAuthentication.certificate(
            pem: text(credentials.clientCertificatePEM), key: text(credentials.clientKeyPEM))
        let file = APNSAuthentication.pkcs12(credentials.clientP12, password: Credentials.Request().p12Password)
        for (number, authentication) in [fixture.configuration().authentication, certificate, file].enumerated() {
            let client = try fixture.client { $0.authentication = authentication }
            try await client.start()
            let receipt = try await client.send(ClientFixture.push(number))
            #expect(receipt.apnsID?.isEmpty == false)
            #expect(receipt.attempts == 1)
            await client.shutdown()
        }
        #expect(fixture.simulator.totals.accepted == 3)
    }

    @Test func `sends every header`() async throws {
        let fixture = try ClientFixture { $0.ledgerDetail = .requests(keepsBodies: true) }
        let client = try fixture.client()
        var push = try ClientFixture.push()
        push.kind = .background
        push.collapseID = "weather"
        push.apnsID = "123E4567-e89b-12d3-a456-426655440000"
        push.expiration = .once
        let receipt = try await client.send(push)
        #expect(receipt.apnsID?.lowercased() == "123e4567-e89b-12d3-a456-426655440000")
        let entry = try #require(fixture.simulator.ledger.entries.first)
        #expect(entry.pushType == "background")
        #expect(entry.priority == "5")
        #expect(entry.collapseID == "weather")
        #expect(entry.expiration == "0")
        #expect(entry.topic == "com.example.app")
        #expect(entry.body == push.payload)
        await client.shutdown()
    }

    @Test func `broadcasts to a channel`() async throws {
        let fixture = try ClientFixture { $0.channels = [.init(app: "com.example.app", id: "dHN0LXNyY2g=")] }
        let client = try fixture.client()
        var push = try Push(
            to: .channel("dHN0LXNyY2g="),
            json: Array(#"{"aps":{"timestamp":1,"event":"update","content-state":{}}}"#.utf8))
        push.expiration = .after(.seconds(600))
        _ = try await client.send(push)
        #expect(fixture.simulator.ledger.entries.map(\.isBroadcast) == [true])
        await client.shutdown()
    }

    @Test func `returns the reason and the consequence of a rejection`() async throws {
        let fixture = try ClientFixture()
        let client = try fixture.client()
        fixture.answer(1, .status(410, "Unregistered", timestamp: 1_700_000_000_123))
        fixture.answer(2, .status(400, "BadDeviceToken"))
        fixture.answer(3, .status(413, "PayloadTooLarge"))
        let gone = await failure { () throws(APNSError) in try await client.send(ClientFixture.push(1)) }
        #expect(gone?.cause == .rejected)
        #expect(gone?.fate == .rejected)
        #expect(gone?.token == .dead)
        #expect(gone?.response?.timestamp == 1_700_000_000_123)
        let bad = await failure { () throws(APNSError) in try await client.send(ClientFixture.push(2)) }
        #expect(bad?.token == .suspect)
        #expect(bad?.response?.reason == "BadDeviceToken")
        let large = await failure { () throws(APNSError) in try await client.send(ClientFixture.push(3)) }
        #expect(large?.token == APNSError.Consequence.none)
        #expect(large?.description == "rejected: 413 PayloadTooLarge")
        await client.shutdown()
    }

    @Test func `retries 429 and 503, and then returns the error`() async throws {
        let fixture = try ClientFixture()
        let client = try fixture.client { $0.retries.limit = 2 }
        let busy = Answer.status(503, "ServiceUnavailable")
        fixture.answer(1, busy, .status(429, "TooManyRequests"))
        #expect(try await client.send(ClientFixture.push(1)).attempts == 3)
        fixture.answer(2, busy, busy, busy)
        let error = await failure { () throws(APNSError) in try await client.send(ClientFixture.push(2)) }
        #expect(error?.response?.status == 503)
        #expect(error?.attempts == 3)
        fixture.answer(3, .status(429, "TooManyRequests", retryAfter: 90))
        let later = await failure { () throws(APNSError) in try await client.send(ClientFixture.push(3)) }
        #expect(later?.retryAfter == .seconds(90))
        await client.shutdown()
    }

    @Test func `asks the caller's rule`() async throws {
        let fixture = try ClientFixture()
        let client = try fixture.client { configuration in
            configuration.retries.judge = { failure in
                failure.error.response?.status == 410 ? .resend(after: .milliseconds(1)) : .giveUp
            }
        }
        fixture.answer(1, .status(410, "Unregistered"))
        #expect(try await client.send(ClientFixture.push(1)).attempts == 2)
        fixture.answer(2, .status(503, "ServiceUnavailable"))
        let error = await failure { () throws(APNSError) in try await client.send(ClientFixture.push(2)) }
        #expect(error?.attempts == 1)
        await client.shutdown()
    }

    @Test func `suspends callers while the pool is full`() async throws {
        let fixture = try ClientFixture { configuration in
            configuration.behaviour.streamLimit = 2
            configuration.behaviour.tokenStreamLimit = 2
        }
        let client = try fixture.client { $0.poolSize = .fixed(1) }
        let accepted = await withTaskGroup { group in
            for number in 0..<500 { group.addTask { (try? await client.send(ClientFixture.push(number))) != nil } }
            return await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
        }
        #expect(accepted == 500)
        #expect(fixture.simulator.totals.limitViolations == 0)
        await client.shutdown()
    }

    @Test func `loses nothing by GOAWAY and lost connections`() async throws {
        let fixture = try ClientFixture { $0.behaviour.script.latency = .zero ... .milliseconds(3) }
        let client = try fixture.client { $0.retries.resendsMaybeSent = true }
        let simulator = fixture.simulator
        let receipts = await withTaskGroup { group in
            for number in 0..<2000 {
                group.addTask {
                    if number % 400 == 200 { simulator.goAway() }
                    return try? await client.send(ClientFixture.push(number))
                }
            }
            return await group.reduce(into: [Receipt]()) { receipts, receipt in if let receipt { receipts.append(receipt) } }
        }
        #expect(receipts.count == 2000)
        let counts = simulator.ledger.acceptedCounts
        #expect(counts.count == 2000)
        // Of GOAWAY alone, nothing is in doubt.
        #expect(counts.values.allSatisfy { $0 == 1 })
        fixture.answer(9001, .closeConnection(recorded: true))
        let doubtful = try await client.send(ClientFixture.push(9001))
        #expect(doubtful.mayBeDuplicate)
        await client.shutdown()
    }

    @Test func `reports a wrong credential, and holds`() async throws {
        let fixture = try ClientFixture()
        let other = try Credentials.make(.init(keyID: "OTHERKEY01"))
        let client = try fixture.client {
            $0.authentication = .signingKey(
                pem: String(decoding: other.providerKey.pem, as: UTF8.self), keyID: "OTHERKEY01", teamID: "SIMTEAM001")
        }
        let first = await failure { () throws(APNSError) in try await client.send(ClientFixture.push()) }
        #expect(first?.response?.status == 403)
        // Of pushes that are submitted together, at most one is a probe.
        var held: [APNSError] = []
        for await result in client.results(ofSending: try (0..<3).map(ClientFixture.push)) {
            if case .failure(let error) = result.result, error.cause == .held { held.append(error) }
        }
        #expect(held.count >= 2)
        #expect(held.allSatisfy { $0.fate == .notSent })
        await client.shutdown()
    }

    @Test func `reports a server that it cannot trust`() async throws {
        let fixture = try ClientFixture()
        let client = try fixture.client { $0.extraRootsPath = nil }
        #expect(await failure { () async throws(APNSError) in try await client.start() }?.cause == .held)
        let error = await failure { () throws(APNSError) in try await client.send(ClientFixture.push()) }
        #expect(error?.cause == .held)
        await client.shutdown()
    }

    @Test func `reports an unreachable host`() async throws {
        let fixture = try ClientFixture()
        let port = FreePort.pick()
        let client = try fixture.client {
            $0.server = .host("127.0.0.1", port: port)
            $0.deadline = .milliseconds(200)
        }
        #expect(await failure { () async throws(APNSError) in try await client.start() }?.cause == .unreachable)
        let error = await failure { () throws(APNSError) in try await client.send(ClientFixture.push()) }
        #expect(error?.cause == .unreachable)
        #expect(error?.fate == .notSent)
        await client.shutdown()
    }

    @Test func `fails at the deadline of a push, and resets its stream`() async throws {
        let fixture = try ClientFixture()
        let client = try fixture.client()
        fixture.answer(1, .silent)
        // A session is open, so that the push leaves long before its deadline.
        _ = try await client.send(ClientFixture.push(0))
        var push = try ClientFixture.push(1)
        push.deadline = .seconds(2)
        let slow = push
        let error = await failure { () throws(APNSError) in try await client.send(slow) }
        #expect(error?.cause == .deadlineExceeded)
        #expect(error?.fate == .maybeSent)
        _ = try await client.send(ClientFixture.push(2))
        await client.shutdown()
    }
}

@Suite("A client behind a proxy")
struct ClientProxyTests {
    @Test func `reaches APNs by CONNECT, with its name and the user of the proxy`() async throws {
        let fixture = try ClientFixture()
        let proxy = try ConnectProxy(authorization: "Basic dTpw")
        let client = try fixture.client {
            $0.server = .host("localhost", port: fixture.simulator.port)
            $0.proxy = APNSProxy(host: "127.0.0.1", port: proxy.port, user: "u", password: "p")
        }
        try await client.start()
        for number in 0..<100 { _ = try await client.send(ClientFixture.push(number)) }
        #expect(fixture.simulator.totals.accepted == 100)
        #expect(Set(proxy.requests.map(\.line)) == ["CONNECT localhost:\(fixture.simulator.port) HTTP/1.1"])
        await client.shutdown()
    }

    @Test func `reports a refusal by the proxy`() async throws {
        let fixture = try ClientFixture()
        let proxy = try ConnectProxy(authorization: "Basic dTpw")
        let client = try fixture.client { $0.proxy = APNSProxy(host: "127.0.0.1", port: proxy.port) }
        let error = await failure { () async throws(APNSError) in try await client.start() }
        #expect(error?.cause == .unreachable)
        #expect(error?.message.contains("the proxy http://127.0.0.1:\(proxy.port): 407") == true)
        #expect(fixture.simulator.totals.connections == 0)
        await client.shutdown()
    }
}
