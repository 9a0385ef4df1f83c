import Harness
import Sockets
import Synchronization
import Testing
import Threads

@testable import PushPool

struct FailedWriteTests {
    @Test func `the GOAWAY that arrived before a failed write is the reason of the end`() throws {
        let server = try FakeServer([.init(goAwayThenReset: #"{"reason":"Shutdown"}"#)])
        let folder = TemporaryFolder()
        folder.write(Certificates.shared.rootPEM, to: "root.pem")
        let settings = PoolSettings(host: "127.0.0.1", port: server.port, extraRootsPath: "\(folder.path)/root.pem")
        let deliveries = Mailbox<Delivery>()
        let shared = try PoolShared(
            deliveries: deliveries, rateLimits: SharedRateLimits(), resolver: NameResolver(thread: "apns names"))
        let wakeUp = WakeUp()
        let context = try SessionContext(
            id: SessionID(1), startsSlowly: false,
            configuration: PoolConfiguration(settings: settings, credential: PoolFixture.signing.get()), shared: shared,
            orders: Mailbox(wakeUp: wakeUp), wakeUp: wakeUp)
        switch Dial(context).run() {
        case .open(let wire, let codec, let address, let streams):
            #expect(waitUntil { server.record.goAways.load(ordering: .relaxed) == 1 })
            // GOAWAY and RST have arrived when the server's threads have ended.
            server.close()
            push(1...1, to: shared.queue)
            var loop = SessionLoop(context, wire, codec, address, streams: streams)
            loop.run()
        case .failed(_, let fault): Issue.record("\(fault)")
        case .abandoned: Issue.record("abandoned")
        }
        let goAway = SessionError.goAway(code: 0, reason: "Shutdown")
        #expect(deliveries.drain().map(\.outcome) == [.notProcessed(goAway)])
        let ends = shared.messages.drain().compactMap { if case .ended(_, _, let fault, _, _) = $0 { fault } else { nil } }
        #expect(ends == [goAway])
    }
}
