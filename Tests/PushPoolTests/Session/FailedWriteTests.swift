import Harness
import Platform
import Synchronization
import Testing

@testable import PushPool

struct FailedWriteTests {
    @Test func `the GOAWAY that arrived before a failed write is the reason of the end`() throws {
        let server = try FakeServer([.init(goAwayThenReset: #"{"reason":"Shutdown"}"#)])
        let end = try run(server) { _, shared in
            #expect(waitUntil { server.record.goAways.load(ordering: .relaxed) == 1 })
            // GOAWAY and RST have arrived when the server's threads have ended.
            server.close()
            push(1...1, to: shared.work)
        }
        let goAway = SessionError.goAway(code: 0, reason: "Shutdown")
        #expect(end == End(outcomes: [.notProcessed(goAway)], faults: [goAway]))
    }

    @Test func `no request leaves when the time for sending ends between take and write`() throws {
        let server = try FakeServer()
        let ahead = { @Sendable in Instant.now + .seconds(7200) }
        let end = try run(server, clock: ahead) { orders, shared in
            shared.work.allowSending(until: .now + .seconds(3600))
            push(1...3, to: shared.work)
            // Without the fence, the session would end with its responses.
            orders.send(.drain)
        }
        let fault = SessionError.retired(.sendingEnded)
        #expect(end == End(outcomes: [.notProcessed(fault), .notProcessed(fault), .notProcessed(fault)], faults: [fault]))
        server.close()
        #expect(server.record.requests.load(ordering: .relaxed) == 0)
    }

    @Test func `no request leaves that had waited for its write when its job was withdrawn`() throws {
        let server = try FakeServer()
        let end = try runWithFence(server, ahead: .seconds(3600))
        let fault = SessionError.retired(.sendingEnded)
        #expect(end == End(outcomes: [.notProcessed(fault), .notProcessed(fault), .notProcessed(fault)], faults: [fault]))
        server.close()
        #expect(server.record.requests.load(ordering: .relaxed) == 0)
    }

    @Test func `a withdrawal ends no session whose requests leave in the turn in which it took them`() throws {
        // By this clock, no time passes between take and write.
        let end = try runWithFence(FakeServer(), ahead: .seconds(-3600))
        #expect(end.outcomes.count == 3 && end.faults == [.closedByUs])
    }

    /// Runs a session that takes three requests, which are withdrawn before it writes them.
    ///
    /// - Parameter ahead: the time by which the clock of the queue is ahead of the session's.
    private func runWithFence(_ server: FakeServer, ahead: Duration) throws -> End {
        let pool = Mutex<PoolShared?>(nil)
        // The first look at the clock is that of the write.
        let clock = { @Sendable in
            pool.withLock { $0?.work.fence() }
            return Instant.now + ahead
        }
        return try run(server, clock: clock) { orders, shared in
            shared.work.allowSending(until: .now + .seconds(7200))
            push(1...3, to: shared.work)
            orders.send(.drain)
            pool.withLock { $0 = shared }
        }
    }

    @Test func `a withdrawal concerns only what was taken before it`() throws {
        let server = try FakeServer()
        let end = try run(server) { orders, shared in
            shared.work.fence()
            push(1...3, to: shared.work)
            orders.send(.drain)
        }
        #expect(end.outcomes.count == 3 && end.outcomes.allSatisfy { if case .delivered = $0 { true } else { false } })
        #expect(end.faults == [.closedByUs])
    }

    @Test func `a session without unwritten requests stays open when the time for sending ends`() throws {
        let server = try FakeServer()
        let end = try run(server) { orders, shared in
            shared.work.allowSending(until: .now)
            push(1...3, to: shared.work)
            orders.send(.drain)
        }
        #expect(end == End(outcomes: [], faults: [.closedByUs]))
    }

    private struct End: Equatable {
        var outcomes: [Outcome]
        var faults: [SessionError]
    }

    /// Runs a session on this thread from its first SETTINGS to its end.
    ///
    /// - Parameter clock: of the queue.
    private func run(
        _ server: FakeServer, clock: @escaping @Sendable () -> Instant = { .now },
        before: (Mailbox<SessionOrder>, PoolShared) -> Void
    ) throws -> End {
        let folder = TemporaryFolder()
        folder.write(Certificates.shared.rootPEM, to: "root.pem")
        let settings = PoolSettings(host: "127.0.0.1", port: server.port, extraRootsPath: "\(folder.path)/root.pem")
        let deliveries = Mailbox<Delivery>()
        let shared = try PoolShared(
            deliveries: deliveries, rateLimits: SharedRateLimits(), resolver: NameResolver(thread: "apns names"),
            clock: clock)
        let wakeUp = WakeUp()
        let context = try SessionContext(
            id: SessionID(1), startsSlowly: false,
            configuration: PoolConfiguration(settings: settings, credential: PoolFixture.signing.get()), shared: shared,
            orders: Mailbox(wakeUp: wakeUp), wakeUp: wakeUp)
        switch Dial(context).run() {
        case .open(let wire, let codec, let address, let streams):
            before(context.orders, shared)
            var loop = SessionLoop(context, wire, codec, address, streams: streams)
            loop.run()
        case .failed(_, let fault): Issue.record("\(fault)")
        case .abandoned: Issue.record("abandoned")
        }
        let faults = shared.messages.drain().compactMap { if case .ended(_, _, let fault, _, _) = $0 { fault } else { nil } }
        return End(outcomes: deliveries.drain().map(\.outcome), faults: faults)
    }
}
