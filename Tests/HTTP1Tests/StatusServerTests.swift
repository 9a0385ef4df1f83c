import Glibc
import HTTP1
import Harness
import Platform
import Testing

@Suite("The status server")
struct StatusServerTests {
    private func server(
        host: String = "127.0.0.1", port: Int = 0, hosts: [String] = [], change: (inout ServerProfile) -> Void = { _ in }
    ) throws -> StatusServer {
        var profile = ServerProfile()
        change(&profile)
        return try StatusServer(host: host, port: port, hosts: hosts, profile: profile) { request in
            request.path == "/here" ? .now(StatusResponse(contentType: "text/x", text: "It is here.")) : nil
        }
    }

    private func status(_ request: String, _ server: StatusServer) -> Int? {
        guard let talk = HTTPTalk(port: server.port) else { return nil }
        talk.send(request)
        return talk.readToEnd().flatMap(HTTPTalk.Response.init)?.status
    }

    @Test func `A path has its response, whatever the query`() throws {
        let server = try server()
        defer { server.close() }
        let answer = try #require(HTTPTalk.get("/here?now=1", port: server.port))
        #expect(answer.status == 200)
        #expect(answer.body == "It is here.")
        #expect(answer.headers["content-type"] == "text/x")
        #expect(answer.headers["content-length"] == "11")
        #expect(answer.headers["cache-control"] == "no-store")
        #expect(answer.headers["server"] == "gaplessd")
        #expect(answer.headers["date"].flatMap(UTCDate.unixSeconds(http:)) != nil)
        #expect(answer.headers["connection"] == "close")
        #expect(HTTPTalk.get("/there", port: server.port)?.status == 404)
        #expect(HTTPTalk.get("here", port: server.port)?.status == 400)
    }

    @Test func `HEAD has no body, and other methods than GET and HEAD are refused`() throws {
        let server = try server()
        defer { server.close() }
        let head = try #require(HTTPTalk.get("/here", port: server.port, method: "HEAD"))
        #expect(head.status == 200)
        #expect(head.body == "")
        #expect(head.headers["content-length"] == "11")
        for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
            let answer = HTTPTalk.get("/here", port: server.port, method: method)
            #expect(answer?.status == 405)
            #expect(answer?.headers["allow"] == "GET, HEAD")
        }
    }

    @Test func `Another program has its own methods, name and text for foreign hosts`() throws {
        var profile = ServerProfile()
        (profile.name, profile.methods, profile.hostRefusal) = ("other", ["GET", "DELETE"], "Not here.\n")
        let server = try StatusServer(host: "127.0.0.1", port: 0, profile: profile) { request in
            .now(StatusResponse(text: "\(request.method) \(request.path) \(request.query)"))
        }
        defer { server.close() }
        let answer = try #require(HTTPTalk.get("/a?b=%20?c", port: server.port, method: "DELETE"))
        #expect(answer.body == "DELETE /a b=%20?c")
        #expect(answer.headers["server"] == "other")
        #expect(HTTPTalk.get("/a", port: server.port)?.body == "GET /a ")
        let refused = HTTPTalk.get("/a", port: server.port, method: "POST")
        #expect(refused?.status == 405)
        #expect(refused?.headers["allow"] == "GET, DELETE")
        let talk = try #require(HTTPTalk(port: server.port))
        talk.send("GET / HTTP/1.1\r\nHost: rebound.example\r\n\r\n")
        #expect(talk.readToEnd()?.hasSuffix("Not here.\n") == true)
    }

    @Test(arguments: ["rubbish\r\n\r\n", "GET /here HTTP/9.9\r\n\r\n", "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}"])
    func `Bytes that are not HTTP get 400`(bytes: String) throws {
        let server = try server()
        defer { server.close() }
        #expect(status(bytes, server) == 400)
        #expect(HTTPTalk.get("/here", port: server.port)?.status == 200)
    }

    @Test(arguments: [
        "GET /here HTTP/1.1\r\nX: " + String(repeating: "x", count: 17 << 10), "GET /" + String(repeating: "x", count: 17 << 10),
        "POST /here HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n" + String(repeating: "x", count: 17 << 10),
    ])
    func `A request of more than 16 KiB gets 413`(request: String) throws {
        let server = try server()
        defer { server.close() }
        #expect(status(request, server) == 413)
        #expect(HTTPTalk.get("/here", port: server.port)?.status == 200)
    }

    @Test func `A connection serves one request`() throws {
        let server = try server()
        defer { server.close() }
        let talk = try #require(HTTPTalk(port: server.port))
        talk.send("GET /here HTTP/1.1\r\nHost: localhost\r\n\r\nGET /here HTTP/1.1\r\nHost: localhost\r\n\r\n")
        let text = try #require(talk.readToEnd())
        #expect(text.split(separator: "It is here.", omittingEmptySubsequences: false).count == 2)
    }

    @Test func `A request may arrive byte by byte`() throws {
        let server = try server()
        defer { server.close() }
        let talk = try #require(HTTPTalk(port: server.port))
        for character in "GET /here HTTP/1.1\r\nHost: localhost\r\n\r\n" { talk.send(String(character)) }
        #expect(talk.readToEnd()?.hasSuffix("It is here.") == true)
    }

    @Test func `A client that takes too long is disconnected`() throws {
        let server = try server { $0.timeout = .milliseconds(200) }
        defer { server.close() }
        let (silent, slow) = (try #require(HTTPTalk(port: server.port)), try #require(HTTPTalk(port: server.port)))
        slow.send("GET /here HTTP/1.1\r\nX-")
        #expect(slow.readToEnd() == "")
        #expect(silent.readToEnd() == "")
    }

    @Test func `A client that holds every connection loses its oldest one to the next request`() throws {
        let server = try server { $0.connections = 2 }
        defer { server.close() }
        let (oldest, second) = (try #require(HTTPTalk(port: server.port)), try #require(HTTPTalk(port: server.port)))
        #expect(HTTPTalk.get("/here", port: server.port)?.status == 200)
        #expect(oldest.readToEnd() == "")
        second.send("GET /here HTTP/1.1\r\nHost: localhost\r\n\r\n")
        #expect(second.readToEnd()?.hasSuffix("It is here.") == true)
    }

    @Test func `A response from another thread is awaited within its time, and replaced after it`() throws {
        let held = Locked<[@Sendable (StatusResponse) -> Void]>([])
        let server = try StatusServer(host: "127.0.0.1", port: 0) { request in
            .later(
                timeout: request.path == "/soon" ? .seconds(10) : .milliseconds(50),
                begin: { done in
                    if request.path == "/soon" { done(StatusResponse(text: "soon")) } else { held.withLock { $0.append(done) } }
                }, otherwise: { StatusResponse(status: 503, text: "otherwise") })
        }
        defer { server.close() }
        #expect(HTTPTalk.get("/soon", port: server.port)?.body == "soon")
        #expect(HTTPTalk.get("/never", port: server.port)?.body == "otherwise")
        for done in held.withLock({ $0 }) { done(StatusResponse(text: "too late")) }
        #expect(HTTPTalk.get("/soon", port: server.port)?.body == "soon")
    }

    @Test func `A response larger than the socket's buffer arrives whole`() throws {
        let server = try StatusServer(host: "127.0.0.1", port: 0) { _ in
            .now(StatusResponse(text: String(repeating: "x", count: 8 << 20)))
        }
        defer { server.close() }
        #expect(HTTPTalk.get("/", port: server.port)?.body.utf8.count == 8 << 20)
    }

    @Test func `Only allowed hosts get a response`() throws {
        let server = try server(hosts: ["metrics.example"])
        defer { server.close() }
        func status(_ host: String) -> Int? { self.status("GET /here HTTP/1.1\r\nHost: \(host)\r\n\r\n", server) }
        #expect(status("127.0.0.1:\(server.port)") == 200)
        #expect(status("metrics.example") == 200)
        #expect(status("rebound.example") == 421)
        #expect(self.status("GET /here HTTP/1.1\r\n\r\n", server) == 400)
        #expect(self.status("GET http://metrics.example/here HTTP/1.1\r\nHost: rebound.example\r\n\r\n", server) == 200)
        server.allow(hosts: ["rebound.example"])
        #expect(status("rebound.example") == 200)
        #expect(status("metrics.example") == 421)
    }

    @Test func `An address in use is an error, and is free again after close`() throws {
        let first = try server()
        #expect(HTTPTalk.get("/here", port: first.port)?.status == 200)
        func why(_ host: String, _ port: Int) -> String? {
            do { _ = try server(host: host, port: port) } catch { return "\(error)" }
            return nil
        }
        #expect(why("127.0.0.1", first.port) == "Address already in use")
        #expect(why("192.0.2.1", 0) == "Cannot assign requested address")
        first.close()
        first.close()
        #expect(HTTPTalk(port: first.port) == nil)
        let second = try server(port: first.port)
        #expect(HTTPTalk.get("/here", port: second.port)?.status == 200)
        second.close()
    }

    @Test(.enabled(if: !File.read("/proc/net/if_inet6").isEmpty, "there is no IPv6 here"))
    func `It listens at IPv6 addresses, too`() throws {
        let server = try server(host: "::1")
        defer { server.close() }
        #expect(HTTPTalk.get("/here", port: server.port, isIPv6: true)?.status == 200)
    }
}
