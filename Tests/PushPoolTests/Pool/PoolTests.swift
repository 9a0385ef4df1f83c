import APNSSimulator
import Harness
import PushPool
import Synchronization
import Testing

@testable import Platform

@Suite("A pool and a server that behaves")
struct PoolTests {
    @Test func `every push is delivered, once`() throws {
        let server = try FakeServer([.init(maxConcurrentStreams: 50)])
        let fixture = try PoolFixture(port: server.port, sessions: 2)
        let ids = fixture.push(5000)
        let deliveries = fixture.waitForDeliveries(5000)
        #expect(deliveries.map(\.id).sorted() == ids)
        #expect(deliveries.allSatisfy { $0.outcome == .delivered(apnsID: nil) })
        #expect(fixture.pool.capacity == 100)
        #expect(server.record.requests.load(ordering: .relaxed) == 5000)
    }

    @Test func `an id comes back where it was asked for`() throws {
        let server = try FakeServer()
        let fixture = try PoolFixture(port: server.port) { $0.collectsAPNSIDs = true }
        fixture.push(1)
        #expect(fixture.waitForDeliveries(1).first?.outcome == .delivered(apnsID: "ID"))
    }

    @Test func `an answer other than 200 arrives with its reason`() throws {
        let body = #"{"reason":"Unregistered","timestamp":1700000000123}"#
        let server = try FakeServer([.init(answers: [.status(410, body: body)])])
        let fixture = try PoolFixture(port: server.port)
        fixture.push(1)
        let expected = Rejection(status: 410, reason: "Unregistered", apnsID: "ID", timestamp: 1_700_000_000_123)
        #expect(fixture.waitForDeliveries(1).first?.outcome == .rejected(expected))
    }

    @Test func `a ceiling beyond all reason is lowered to one that fits`() throws {
        let server = try FakeServer([.init(maxConcurrentStreams: nil)])
        let fixture = try PoolFixture(port: server.port) { $0.maxConcurrentStreams = .max }
        fixture.push(10)
        fixture.waitForDeliveries(10)
        #expect(fixture.pool.capacity == 65_536)
    }

    @Test func `new settings lead to new sessions while pushes go on`() throws {
        let (old, new) = (try FakeServer(), try FakeServer())
        let fixture = try PoolFixture(port: old.port, sessions: 2)
        let before = fixture.push(2000)
        // A dial that is under way would be given up for a new one.
        fixture.waitUntilOpened(2)
        fixture.pool.replace(
            with: try .init(settings: fixture.settings(port: new.port, sessions: 2), credential: PoolFixture.signing.get()))
        let after = fixture.push(2000)
        fixture.waitUntilOpened(4)
        // The old sessions take work until the new server has accepted a push.
        var last: [UInt64] = []
        while !(fixture.events.drain().count { if case .closed = $0 { true } else { false } } == 2) {
            last += fixture.push(10)
            fixture.waitForDeliveries(4000 + last.count)
        }
        last += fixture.push(100)
        let deliveries = fixture.waitForDeliveries(4000 + last.count)
        #expect(deliveries.map(\.id).sorted() == before + after + last)
        #expect(deliveries.allSatisfy { $0.outcome == .delivered(apnsID: nil) })
        #expect(new.record.requests.load(ordering: .relaxed) >= 100)
    }

    @Test func `a refused new credential leaves the sessions and the settings as they were`() throws {
        let old = try FakeServer()
        let new = try FakeServer([.init(answers: [.status(403, body: #"{"reason":"InvalidProviderToken"}"#)])])
        let fixture = try PoolFixture(port: old.port)
        fixture.push(1)
        let session = try #require(fixture.waitForDeliveries(1).first?.session)
        fixture.pool.replace(with: try .init(settings: fixture.settings(port: new.port), credential: PoolFixture.signing.get()))
        fixture.waitUntilOpened(2)
        #expect(!fixture.pool.usesPresentCredential(session))
        var count = UInt64(1)
        func isRefused() -> Bool {
            fixture.events.drain().contains(.credentialRefused("403 InvalidProviderToken", retryIn: .seconds(60)))
        }
        while !isRefused() {
            count += UInt64(fixture.push(4).count)
            fixture.waitForDeliveries(Int(count))
        }
        #expect(fixture.pool.usesPresentCredential(session))
        let refused = fixture.deliveries.all.filter { $0.outcome != .delivered(apnsID: nil) }
        #expect(!refused.isEmpty)
        #expect(refused.allSatisfy { !fixture.pool.usesPresentCredential($0.session) })
        // Only the session on trial closes.
        fixture.events.wait { $0.contains { if case .closed(let id, _, .closedByUs) = $0 { id != session } else { false } } }
        let ids = fixture.push(100)
        let last = fixture.waitForDeliveries(Int(count) + 100).suffix(100)
        #expect(last.map(\.id).sorted() == ids)
        #expect(last.allSatisfy { $0.outcome == .delivered(apnsID: nil) && $0.session == session })
        #expect(fixture.events.all.count { if case .closed = $0 { true } else { false } } == 1)
    }

    @Test func `a dial that failed before a reload used the old credential, one that failed after it the current one`()
        throws
    {
        let server = try FakeServer()
        let fixture = try PoolFixture(port: server.port) { $0.extraRootsPath = nil }
        func failures() -> [SessionID] {
            fixture.events.all.compactMap { if case .dialFailed(let session, _, .untrusted, _) = $0 { session } else { nil } }
        }
        fixture.events.wait { _ in !failures().isEmpty }
        let old = failures()
        #expect(old.allSatisfy(fixture.pool.usesPresentCredential))
        let settings = fixture.settings(port: server.port) { $0.extraRootsPath = nil }
        fixture.pool.replace(with: try .init(settings: settings, credential: PoolFixture.signing.get()))
        // At once: the pool's thread may not have heard of it.
        #expect(!old.contains(where: fixture.pool.usesPresentCredential))
        fixture.events.wait { _ in failures().contains(where: fixture.pool.usesPresentCredential) }
    }

    @Test func `a young token is renewed once, for the clock may have been set, and a certificate has none`() throws {
        let server = try FakeServer()
        // A key id of its own: all pools of one key share its token.
        let own = try Credential.signingKey(p8PEM: Certificates.shared.signingKeyPEM, keyID: "RENEWTOKEN", teamID: "TEAM567890")
        let fixture = try PoolFixture(port: server.port, credential: own)
        fixture.waitUntilOpened()
        #expect(fixture.pool.renewToken() == .renewed)
        fixture.waitUntilOpened(2)
        #expect(fixture.pool.renewToken() == .tooYoung)
        let client = Certificates.shared.client
        let certificate = try Credential.certificate(certPEM: client.certificatesPEM, keyPEM: client.keyPEM)
        #expect(try PoolFixture(port: server.port, credential: certificate).pool.renewToken() == .noSigningKey)
    }

    @Test func `a session goes on with its token when there is a younger one, for APNs counts changes by connection`() throws {
        let credentials = try Credentials.make()
        let directory = TemporaryFolder()
        _ = try credentials.write(to: directory.path)
        let simulator = try Simulator(Simulator.Configuration(credentials: credentials))
        let key = credentials.providerKey
        let credential = try Credential.signingKey(p8PEM: key.pem, keyID: key.keyID, teamID: key.teamID)
        let pools = try (0..<2).map { _ in
            try PoolFixture(port: simulator.port, credential: credential) {
                $0.host = "localhost"
                $0.extraRootsPath = "\(directory.path)/ca.pem"
            }
        }
        for pool in pools { pool.push(1) }
        for pool in pools { pool.waitForDeliveries(1) }
        #expect(pools[1].pool.renewToken() == .renewed)
        pools[1].waitUntilOpened(2)
        for pool in pools { pool.push(5) }
        for pool in pools { #expect(pool.waitForDeliveries(6).allSatisfy { $0.outcome == .delivered(apnsID: nil) }) }
        #expect(simulator.totals.connections == 3)
    }

    @Test func `a session whose old token is refused gets the younger one that there is, and none is signed for it`() throws {
        let server = try FakeServer()
        let own = try Credential.signingKey(p8PEM: Certificates.shared.signingKeyPEM, keyID: "OLDANDNEW1", teamID: "TEAM567890")
        let (first, second) = (
            try PoolFixture(port: server.port, credential: own), try PoolFixture(port: server.port, credential: own)
        )
        for pool in [first, second] {
            pool.push(1)
            pool.waitForDeliveries(1)
        }
        #expect(second.pool.renewToken() == .renewed)
        second.waitUntilOpened(2)
        let session = try #require(first.deliveries.all.first?.session)
        #expect(first.pool.renewToken(refusedOn: session) == .renewed)
        first.waitUntilOpened(2)
        let minted = (first.events.drain() + second.events.drain()).count { $0 == .tokens(.minted(key: "OLDANDNEW1")) }
        #expect(minted == 2)
    }

    @Test func `a session whose old token was refused may have ended: no other token is signed for it`() throws {
        let server = try FakeServer([.init(answers: [.status(200), .hangUp]), .init()])
        let own = try Credential.signingKey(p8PEM: Certificates.shared.signingKeyPEM, keyID: "OLDANDGONE", teamID: "TEAM567890")
        let first = try PoolFixture(port: server.port, credential: own)
        first.push(1)
        let session = try #require(first.waitForDeliveries(1).first?.session)
        let second = try PoolFixture(port: server.port, credential: own)
        second.waitUntilOpened()
        #expect(second.pool.renewToken() == .renewed)
        first.push(1)
        first.waitForDeliveries(2)
        first.push(1)
        first.waitForDeliveries(3)
        #expect(first.pool.renewToken(refusedOn: session) == .renewed)
        second.waitUntilOpened(2)
        let minted = (first.events.drain() + second.events.drain()).count { $0 == .tokens(.minted(key: "OLDANDGONE")) }
        #expect(minted == 2)
    }

    @Test func `reconnecting replaces every session and loses nothing`() throws {
        let server = try FakeServer()
        let fixture = try PoolFixture(port: server.port, sessions: 2)
        fixture.waitUntilOpened(2)
        let ids = fixture.push(1000)
        fixture.pool.reconnect()
        fixture.waitUntilOpened(4)
        #expect(fixture.waitForDeliveries(1000).map(\.id).sorted() == ids)
        #expect(fixture.deliveries.all.allSatisfy { $0.outcome == .delivered(apnsID: nil) })
        fixture.events.wait { events in events.count { if case .closed = $0 { true } else { false } } == 2 }
        #expect(fixture.pool.capacity == 200)
    }

    @Test func `a cancelled notification is withdrawn, or its stream is reset`() throws {
        let server = try FakeServer([.init(maxConcurrentStreams: 1, answers: [.silence, .status(200)])])
        let fixture = try PoolFixture(port: server.port)
        let ids = fixture.push(3)
        #expect(waitUntil { server.record.requests.load(ordering: .relaxed) == 1 })
        #expect(fixture.pool.cancel([ids[0], ids[1]]) == [ids[1]])
        let deliveries = fixture.waitForDeliveries(2)
        #expect(deliveries.map(\.id) == [ids[0], ids[2]])
        #expect(deliveries.map(\.outcome) == [.maybeProcessed(.streamReset(code: 8)), .delivered(apnsID: nil)])
        #expect(server.record.resets.load(ordering: .relaxed) == 1)
        #expect(fixture.pool.cancel([ids[0], ids[2]]) == [])
    }

    @Test func `a pool that becomes automatic keeps its number of sessions`() throws {
        let server = try FakeServer()
        let fixture = try PoolFixture(port: server.port, sessions: 3)
        fixture.waitUntilOpened(3)
        let settings = fixture.settings(port: server.port) { ($0.isAutomatic, $0.mostSessions) = (true, 32) }
        fixture.pool.replace(with: try .init(settings: settings, credential: PoolFixture.signing.get()))
        fixture.waitUntilOpened(6)
    }

    @Test func `a pool without an owner does not wait for a session that is stuck`() throws {
        let server = try FakeServer([.init(answers: [.silence])])
        let deliveries = Collector<Delivery>()
        let folder = TemporaryFolder()
        folder.write(Certificates.shared.rootPEM, to: "root.pem")
        // Shorter than the wait of `close`.
        let settings = PoolSettings(
            host: "127.0.0.1", port: server.port, extraRootsPath: folder.file("root.pem"), sessions: 1,
            requestTimeout: .seconds(45))
        var pools = try (0..<2).map { _ in
            try SessionPool(
                settings: settings, credential: PoolFixture.signing.get(), deliveries: deliveries.mailbox, events: Mailbox())
        }
        for (id, pool) in pools.enumerated() {
            var batch = [notification(UInt64(id))]
            pool.push(&batch)
        }
        #expect(waitUntil { server.record.requests.load(ordering: .relaxed) == 2 })
        // The sessions cannot report while this lock is held: the second pool would stop after its request has timed out.
        deliveries.mailbox.waiting.withLock { _ in pools = [] }
        deliveries.wait { $0.count == 2 }
        #expect(deliveries.all.allSatisfy { $0.outcome == .maybeProcessed(.closedByUs) })
    }

    @Test func `closing leaves a session that is stuck`() throws {
        let server = try FakeServer([.init(answers: [.silence])])
        let fixture = try PoolFixture(port: server.port)
        fixture.push(1)
        #expect(waitUntil { server.record.requests.load(ordering: .relaxed) == 1 })
        // The session cannot report while this lock is held: a close that waits for it would never return.
        fixture.deliveries.mailbox.waiting.withLock { _ in
            #expect(fixture.pool.close(atMost: .milliseconds(50)) == [])
        }
        #expect(fixture.waitForDeliveries(1).map(\.outcome) == [.maybeProcessed(.closedByUs)])
    }
}
