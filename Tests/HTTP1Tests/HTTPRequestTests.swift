import Harness
import Platform
import Testing

@testable import HTTP1

private func parse(_ text: String, limit: Int = 1000) -> HTTPRequestParser.Result {
    var parser = HTTPRequestParser(limit: limit)
    return parser.receive(text.utf8)
}

private func parsedHead(_ text: String) -> HTTPRequestHead? {
    if case .request(let head) = parse(text) { head } else { nil }
}

private func refusal(_ text: String, limit: Int = 1000) -> Int? {
    if case .refused(let response) = parse(text, limit: limit) { response.status } else { nil }
}

@Suite("The head of a request")
struct HTTPRequestTests {
    @Test func `The method, the path without its query, the hosts and the length are read`() throws {
        let head = try #require(
            parsedHead("HEAD /a/b?c=d?e HTTP/1.0\r\nhOST: \t x.example:1 \t\r\nX:\r\nContent-Length: 12\r\nHost: y\r\n\r\nbody"))
        #expect(head.method == "HEAD")
        #expect(head.path == "/a/b")
        #expect(head.minorVersion == 0)
        #expect(head.hosts == ["x.example:1", "y"])
        #expect(head.contentLength == 12)
    }

    @Test(
        arguments: [
            ("http://a.example:80/b/c?d=e?f", "a.example:80", "/b/c", "d=e?f"), ("HTTPS://[::1]", "[::1]", "/", ""),
            ("http://a?b", "a", "/", "b"), ("http:///b", "", "/b", ""), ("/http://a/b", nil, "/http://a/b", ""),
        ] as [(String, String?, String, String)])
    func `A target may have the absolute form`(target: String, authority: String?, path: String, query: String) throws {
        let head = try #require(parsedHead("GET \(target) HTTP/1.1\r\nHost: a\r\n\r\n"))
        #expect(head.authority == authority)
        #expect(head.path == path)
        #expect(head.query == query)
    }

    @Test func `A line may end with a line feed alone`() {
        #expect(parsedHead("GET / HTTP/1.1\nHost: a\n\n")?.hosts == ["a"])
    }

    @Test func `A head that goes on is incomplete, wherever it is cut`() {
        let text = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
        for count in 0..<text.utf8.count {
            var parser = HTTPRequestParser(limit: 1000)
            #expect(parser.receive(text.utf8.prefix(count)) == .incomplete)
            #expect(parser.receive(text.utf8.dropFirst(count)) == parse(text))
        }
    }

    @Test(arguments: [
        "\r\n", " GET / HTTP/1.1\r\n\r\n", "GET /\r\n\r\n", "GET  / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1 \r\n\r\n",
        "GET / HTTP/2.0\r\n\r\n",
        "GET / HTTP/1.x\r\n\r\n", "GET /\u{7F} HTTP/1.1\r\n\r\n", "GET /é HTTP/1.1\r\n\r\n", "G,T / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : a\r\n\r\n", "GET / HTTP/1.1\r\n: a\r\n\r\n", "GET / HTTP/1.1\r\nHost\r\n\r\n",
        "GET / HTTP/1.1\r\nX: a\r\n b\r\n\r\n", "GET / HTTP/1.1\r\nX: \u{7F}\r\n\r\n", "GET / HTTP/1.1\r\nX: a\rb\r\n\r\n", "G\0",
        "GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: \r\n\r\n",
    ])
    func `Bytes that break the grammar get 400`(text: String) {
        #expect(refusal(text) == 400)
    }

    @Test func `Head and announced body together have a limit`() {
        let head = "POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\n"
        #expect(refusal(head, limit: head.utf8.count + 10) == nil)
        #expect(refusal(head, limit: head.utf8.count + 9) == 413)
        #expect(refusal("GET / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n") == 413)
        #expect(refusal("GET /" + String(repeating: "x", count: 100), limit: 104) == 413)
        #expect(refusal("GET /" + String(repeating: "x", count: 100), limit: 105) == nil)
    }

    @Test func `No bytes make the parser trap`() {
        let seed = UInt64.random(in: .min ... .max)
        var random = SeededGenerator(seed: seed)
        let model = Array("GET /path?q HTTP/1.1\r\nHost: localhost:9464\r\nContent-Length: 3\r\n\r\nabc".utf8)
        for _ in 0..<20_000 {
            var bytes = model
            for _ in 0..<Int.random(in: 0...6, using: &random) {
                bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8.random(in: .min ... .max, using: &random)
            }
            let cut = Int.random(in: 0...bytes.count, using: &random)
            var parser = HTTPRequestParser(limit: Int.random(in: 1...100, using: &random))
            guard parser.receive(bytes[..<cut]) == .incomplete else { continue }
            if case .request(let head) = parser.receive(bytes[cut...]) {
                _ = AllowedHosts(["localhost"]).refusal(of: head, local: IPAddress("127.0.0.1"), ServerProfile())
                #expect(!head.method.isEmpty, "seed \(seed)")
            }
        }
    }
}

@Suite("The hosts that a request may name")
struct AllowedHostsTests {
    private let list = AllowedHosts(["Metrics.Example", "192.0.2.7", "2001:db8::7"])

    private func status(_ host: String..., target: String = "/", version: Int = 1, local: String = "198.51.100.1") -> Int? {
        let lines = ["GET \(target) HTTP/1.\(version)"] + host.map { "Host: \($0)" }
        return parsedHead(lines.joined(separator: "\r\n") + "\r\n\r\n").flatMap {
            list.refusal(of: $0, local: IPAddress(local), ServerProfile())?.status
        }
    }

    @Test(arguments: [
        "localhost", "LOCALHOST:9464", "localhost.", "127.0.0.1", "127.9.9.9:1", "[::1]", "[::1]:9464", "[0:0::1]",
        "[::ffff:127.0.0.1]",
        "metrics.example", "metrics.example.:80", "192.0.2.7", "[2001:DB8:0::7]", "198.51.100.1:9464", "[::ffff:198.51.100.1]",
    ])
    func `Loopback names, the connection's own address and the names of the settings are allowed`(host: String) {
        #expect(status(host) == nil)
    }

    @Test(arguments: [
        "example", "metrics.example.org", "localhost.example", "192.0.2.8", "[2001:db8::8]", "127.0.0.1.example", "xlocalhost",
    ])
    func `Other hosts get 421`(host: String) {
        #expect(status(host) == 421)
    }

    @Test(arguments: ["", ":80", "localhost:x", "[::1", "[::1]x", "::1", "localhost:80:80"])
    func `A host that is not valid gets 400`(host: String) {
        #expect(status(host) == 400)
    }

    @Test func `There is exactly one host, and none only in HTTP 1 0`() {
        #expect(status() == 400)
        #expect(status("localhost", "localhost") == 400)
        #expect(status(version: 0) == nil)
        #expect(status("example", version: 0) == 421)
    }

    @Test func `The host of the target takes precedence over the header, which is still required`() {
        #expect(status("example", target: "http://localhost:9464/") == nil)
        #expect(status("localhost", target: "http://example/") == 421)
        #expect(status("localhost", target: "http://user@localhost/") == 421)
        #expect(status("localhost", target: "http:///") == 400)
        #expect(status(target: "http://localhost/") == 400)
        #expect(status("localhost", "localhost", target: "http://localhost/") == 400)
        #expect(status(target: "http://localhost/", version: 0) == nil)
        #expect(status(target: "http://example/", version: 0) == 421)
    }
}

@Suite("Which connection makes room for a new one")
struct ConnectionShareTests {
    private func victim(_ shares: (String, isBusy: Bool)...) -> Int? {
        ConnectionShare.victim(of: shares.map { ConnectionShare(client: IPAddress($0.0), isBusy: $0.isBusy) })
    }

    @Test func `It is the oldest idle one of the client with the most connections`() {
        #expect(ConnectionShare.victim(of: []) == nil)
        #expect(victim(("10.0.0.1", false), ("10.0.0.2", false), ("10.0.0.2", false)) == 1)
        #expect(victim(("10.0.0.1", false), ("10.0.0.2", true), ("10.0.0.2", false)) == 2)
        #expect(victim(("10.0.0.1", false), ("10.0.0.2", true), ("10.0.0.2", true)) == 1)
        #expect(victim(("10.0.0.1", true), ("10.0.0.2", false)) == 1)
    }
}
