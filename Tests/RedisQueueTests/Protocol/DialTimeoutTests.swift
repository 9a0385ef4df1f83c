import Platform
import Testing

@testable import RedisQueue

@Suite("A dial of Redis")
struct DialTimeoutTests {
    /// The kernel drops a SYN to a listener whose backlog is full.
    @Test func `without a response ends as a connection that timed out`() throws {
        let listener = try Listener(port: 0, backlog: 0)
        let address = try #require(try SocketAddress.resolve(host: "127.0.0.1", port: listener.port).first)
        let endpoint = Endpoint.tcp(host: "127.0.0.1", port: listener.port)
        // The first one fills the backlog.
        let filling = try Socket(connectingTo: address)
        let more = try Socket(connectingTo: address)
        var connection = try RedisConnection<Void>(to: address, of: endpoint, tls: nil, timeout: .seconds(1), now: .now)
        var poller = Poller()
        connection.addInterest(to: &poller)
        poller.wait(until: .now)
        var fault: RedisError?
        do throws(RedisError) { try connection.receive(poller, now: .now + .seconds(1)) } catch { fault = error }
        #expect(fault == .timedOut(.connecting))
        withExtendedLifetime(listener.port) {}
        _ = (filling.descriptor, more.descriptor)
    }
}
