import PushPool
import Sockets
import Synchronization
import Testing

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
}
