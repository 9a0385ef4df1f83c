import APNSClient
import APNSSimulator
import Harness
import Testing

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
        do throws(APNSError) {
            try await client.start()
            Issue.record("the proxy let a client without a user through")
        } catch {
            #expect(error.cause == .unreachable)
            #expect(error.message.contains("the proxy http://127.0.0.1:\(proxy.port): 407"))
        }
        #expect(fixture.simulator.totals.connections == 0)
        await client.shutdown()
    }
}
