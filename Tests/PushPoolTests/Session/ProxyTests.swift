import Harness
import Platform
import Synchronization
import Testing

@testable import PushPool

@Suite("The proxy's response to CONNECT")
struct ProxyAnswerTests {
    private func verdict(_ text: String) -> ProxyAnswer.Verdict? {
        var answer = ProxyAnswer()
        for byte in text.utf8 {
            if let verdict = answer.receive(byte) { return verdict }
        }
        return nil
    }

    @Test(arguments: [
        "HTTP/1.1 200 Connection established\r\n\r\n", "HTTP/1.0 200\r\nX: y\r\n\r\n", "HTTP/1.1 204 No Content\n\n",
    ])
    func `any 2xx opens the way`(text: String) {
        #expect(verdict(text) == .open)
    }

    @Test func `nothing is decided before the head is complete`() {
        #expect(verdict("HTTP/1.1 200 OK\r\nVia: 1.1 somewhere\r\n") == nil)
    }

    @Test func `407 is about the user and password, and any other status is a refusal of the proxy`() {
        #expect(verdict("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n") == .refused(.credentials))
        #expect(verdict("HTTP/1.1 403 Forbidden\r\n\r\n") == .refused(.status(403, "Forbidden")))
        #expect(verdict("HTTP/1.1 502\r\n\r\n") == .refused(.status(502, "")))
    }

    @Test func `407 names the schemes of a proxy that does not accept Basic`() {
        let start = "HTTP/1.1 407 Authentication Required\r\n"
        #expect(verdict(start + "Proxy-Authenticate: NTLM\r\n\r\n") == .refused(.scheme("NTLM")))
        let two = start + "Proxy-Authenticate: Negotiate\r\nproxy-authenticate: NTLM\r\n"
        #expect(verdict(two + "\r\n") == .refused(.scheme("Negotiate, NTLM")))
        #expect(verdict(two + "Proxy-Authenticate: Basic realm=\"x\"\r\n\r\n") == .refused(.credentials))
        #expect(verdict(start + "Proxy-Authenticate: Unheard\r\n\r\n") == .refused(.credentials))
        #expect("\(ProxyError.scheme("NTLM"))" == "407: it accepts only NTLM; expected a proxy that accepts Basic")
    }

    @Test func `interim responses are read over, up to the limit of all heads`() {
        #expect(verdict("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n") == .open)
        #expect(verdict("HTTP/1.1 103 Early Hints\r\nA: b\r\n\r\nHTTP/1.1 407 No\r\n\r\n") == .refused(.credentials))
        #expect(verdict("HTTP/1.1 101 Switching Protocols\r\n\r\n") == .refused(.status(101, "Switching Protocols")))
        let endless = String(repeating: "HTTP/1.1 100 Continue\r\n\r\n", count: ProxyAnswer.mostBytes / 25 + 1)
        #expect(verdict(endless) == .refused(.nonsense))
    }

    @Test(arguments: ["SSH-2.0-OpenSSH_9.2\r\n\r\n", "HTTP/2 200\r\n\r\n", "HTTP/1.1 abc x\r\n\r\n", "\r\n\r\n"])
    func `a response other than HTTP opens no tunnel`(text: String) {
        #expect(verdict(text) == .refused(.nonsense))
    }

    @Test func `a head without end is cut off`() {
        #expect(verdict(String(repeating: "x", count: ProxyAnswer.mostBytes + 1)) == .refused(.nonsense))
    }

    @Test func `the request names the host, and the password only in Basic`() {
        let proxy = HTTPProxy(host: "proxy", port: 3128, user: "Aladdin", password: "open sesame")
        #expect(
            String(decoding: proxy.request(host: "api.push.apple.com", port: 443), as: UTF8.self) == """
                CONNECT api.push.apple.com:443 HTTP/1.1\r
                Host: api.push.apple.com:443\r
                Proxy-Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r
                \r

                """)
        #expect(
            String(decoding: HTTPProxy(host: "p", port: 1).request(host: "::1", port: 2), as: UTF8.self).hasPrefix(
                "CONNECT [::1]:2 "))
        var dumped = ""
        dump(proxy, to: &dumped)
        #expect(!"\(dumped) \(proxy) \(String(reflecting: proxy))".contains("sesame"))
    }
}

@Suite("Pushing through a proxy")
struct ProxyTests {
    private func fixture(_ proxy: ConnectProxy, port: Int, user: String? = nil, password: String? = nil) throws -> PoolFixture {
        try PoolFixture(port: port, sessions: 2) {
            $0.host = "localhost"
            $0.proxy = HTTPProxy(host: "127.0.0.1", port: proxy.port, user: user, password: password)
            $0.dialTimeout = .milliseconds(500)
        }
    }

    @Test func `the way is opened by name, and TLS goes through it`() throws {
        let server = try FakeServer()
        let proxy = try ConnectProxy(authorization: "Basic dTpw")
        let fixture = try fixture(proxy, port: server.port, user: "u", password: "p")
        fixture.push(500)
        let deliveries = fixture.waitForDeliveries(500)
        #expect(deliveries.allSatisfy { $0.outcome == .delivered(apnsID: nil) })
        #expect(Set(proxy.requests.map(\.line)) == ["CONNECT localhost:\(server.port) HTTP/1.1"])
        let opened = fixture.events.all.compactMap { if case .opened(_, let address, _) = $0 { address } else { nil } }
        #expect(opened.allSatisfy { $0 == "localhost:\(server.port) through the proxy 127.0.0.1:\(proxy.port)" })
    }

    @Test func `the name of APNs is not looked up here`() throws {
        let proxy = try ConnectProxy(.respond("HTTP/1.1 503 No route\r\n\r\n"))
        let fixture = try fixture(proxy, port: 443)
        #expect(fixture.waitForFailedDial()?.address.hasPrefix("localhost:") == true)
        let other = try PoolFixture(port: 443) {
            $0.host = "nowhere.invalid"
            $0.proxy = HTTPProxy(host: "127.0.0.1", port: proxy.port)
        }
        other.events.wait { !$0.isEmpty }
        #expect(proxy.requests.contains { $0.line == "CONNECT nowhere.invalid:443 HTTP/1.1" })
    }

    @Test func `each way to say no has its own words`() throws {
        let server = try FakeServer()
        let proxy = try ConnectProxy(authorization: "Basic dTpw")
        let name = "the proxy http://127.0.0.1:\(proxy.port)"
        let manners: [(ConnectProxy.Behaviour, String)] = [
            (.connect, "\(name): 407: it requires a user and a password, or rejects the given ones"),
            (.respond("HTTP/1.1 403 Forbidden\r\n\r\n"), "\(name): it refused CONNECT: 403 Forbidden"),
            (.respond("220 smtp ready\r\n\r\n"), "\(name): its response is not HTTP"),
            (.close, "\(name): it closed the connection without a response to CONNECT"),
            (.silent, "response of the proxy to CONNECT: timed out"),
        ]
        for (manner, words) in manners {
            proxy.behave(manner)
            let found = try fixture(proxy, port: server.port, user: "u", password: "wrong").waitForFailedDial()
            #expect(found?.fault == .dial(words, isCredential: false))
            #expect(found?.address.hasPrefix("localhost:") == true)
        }
        #expect(server.record.connections.load(ordering: .relaxed) == 0)
    }

    @Test func `a proxy that is not there is refused within the dial's time`() throws {
        let port = try Listener(port: 0).port
        let fixture = try PoolFixture(port: 1) { $0.proxy = HTTPProxy(host: "127.0.0.1", port: port) }
        #expect(fixture.waitForFailedDial()?.fault == .dial("connect: Connection refused", isCredential: false))
    }
}
