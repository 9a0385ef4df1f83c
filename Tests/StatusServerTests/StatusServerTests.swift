import Glibc
import Harness
import StatusServer
import Testing
import Threads

@Suite("The server for people and monitoring programs")
struct StatusServerTests {
    private func server(
        patience: Duration = .seconds(10), connections: Int = 64, host: String = "127.0.0.1", port: Int = 0
    ) throws -> StatusServer {
        var limits = StatusServer.Limits()
        limits.patience = patience
        limits.connections = connections
        return try StatusServer(host: host, port: port, limits: limits) { path in
            path == "/here" ? .now(StatusResponse(contentType: "text/x", text: "It is here.")) : nil
        }
    }

    @Test func `says what is at a path, whatever the query`() throws {
        let server = try server()
        defer { server.close() }
        let answer = try #require(HTTPTalk.get("/here?now=1", port: server.port))
        #expect(answer.status == 200)
        #expect(answer.body == "It is here.")
        #expect(answer.headers["content-type"] == "text/x")
        #expect(answer.headers["content-length"] == "11")
        #expect(answer.headers["cache-control"] == "no-store")
        #expect(answer.headers["server"] == "gaplessd")
        #expect(HTTPTalk.get("/there", port: server.port)?.status == 404)
        #expect(HTTPTalk.get("here", port: server.port)?.status == 400)
    }

    @Test func `leaves the body out for HEAD, and has no other methods than GET and HEAD`() throws {
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

    @Test(arguments: ["rubbish\r\n\r\n", "GET /here HTTP/9.9\r\n\r\n", "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\r\n\r\n"])
    func `answers 400 to what is no HTTP`(bytes: String) throws {
        let server = try server()
        defer { server.close() }
        let talk = try #require(HTTPTalk(port: server.port))
        talk.send(bytes)
        #expect(talk.readToEnd().flatMap(HTTPTalk.Answer.init)?.status == 400)
        #expect(HTTPTalk.get("/here", port: server.port)?.status == 200)
    }

    @Test(arguments: [
        "GET /here HTTP/1.1\r\nX: " + String(repeating: "x", count: 17 << 10), "GET /" + String(repeating: "x", count: 17 << 10),
        "POST /here HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n" + String(repeating: "x", count: 17 << 10),
    ])
    func `hears no more than 16 KiB from anybody`(request: String) throws {
        let server = try server(patience: .seconds(2))
        defer { server.close() }
        let talk = try #require(HTTPTalk(port: server.port))
        talk.send(request)
        #expect(talk.readToEnd().flatMap(HTTPTalk.Answer.init)?.status == 413)
        #expect(HTTPTalk.get("/here", port: server.port)?.status == 200)
    }

    @Test func `hears one request a connection`() throws {
        let server = try server()
        defer { server.close() }
        let talk = try #require(HTTPTalk(port: server.port))
        talk.send("GET /here HTTP/1.1\r\nHost: a\r\n\r\nGET /here HTTP/1.1\r\nHost: a\r\n\r\n")
        let text = try #require(talk.readToEnd())
        #expect(text.split(separator: "It is here.", omittingEmptySubsequences: false).count == 2)
    }

    @Test func `cuts off who takes too long`() throws {
        let server = try server(patience: .milliseconds(200))
        defer { server.close() }
        let (silent, slow) = (try #require(HTTPTalk(port: server.port)), try #require(HTTPTalk(port: server.port)))
        slow.send("GET /here HTTP/1.1\r\nX-")
        #expect(slow.readToEnd() == "")
        #expect(silent.readToEnd() == "")
    }

    @Test func `lets no more in than its limit, and others once there is room`() throws {
        let server = try server(connections: 2)
        defer { server.close() }
        var idle: [HTTPTalk?] = [HTTPTalk(port: server.port), HTTPTalk(port: server.port)]
        #expect(HTTPTalk.get("/here", port: server.port) == nil)
        idle[0] = nil
        #expect(waitUntil { HTTPTalk.get("/here", port: server.port)?.status == 200 })
        #expect(idle[1] != nil)
    }

    @Test func `waits for an answer from elsewhere as long as it is told, and no longer`() throws {
        let held = Locked<[@Sendable (StatusResponse) -> Void]>([])
        let server = try StatusServer(host: "127.0.0.1", port: 0) { path in
            .later(
                patience: path == "/soon" ? .seconds(10) : .milliseconds(50),
                begin: { done in
                    if path == "/soon" { done(StatusResponse(text: "soon")) } else { held.withLock { $0.append(done) } }
                }, otherwise: { StatusResponse(status: 503, text: "otherwise") })
        }
        defer { server.close() }
        #expect(HTTPTalk.get("/soon", port: server.port)?.body == "soon")
        #expect(HTTPTalk.get("/never", port: server.port)?.body == "otherwise")
        for done in held.withLock({ $0 }) { done(StatusResponse(text: "too late")) }
        #expect(HTTPTalk.get("/soon", port: server.port)?.body == "soon")
    }

    @Test func `says why it cannot listen, and listens where another has just been`() throws {
        let first = try server()
        #expect(HTTPTalk.get("/here", port: first.port)?.status == 200)
        #expect(throws: ListenError.self) { _ = try server(port: first.port) }
        do { _ = try server(port: first.port) } catch let fault as ListenError {
            #expect(fault.description == "Address already in use")
        }
        do { _ = try server(host: "192.0.2.1") } catch let fault as ListenError {
            #expect(fault.description == "Cannot assign requested address")
        }
        first.close()
        #expect(HTTPTalk(port: first.port) == nil)
        let second = try server(port: first.port)
        #expect(HTTPTalk.get("/here", port: second.port)?.status == 200)
        second.close()
    }

    @Test(.enabled(if: !File.read("/proc/net/if_inet6").isEmpty, "there is no IPv6 here"))
    func `listens by IPv6, too`() throws {
        let server = try server(host: "::1")
        defer { server.close() }
        #expect(HTTPTalk.get("/here", port: server.port, isIPv6: true)?.status == 200)
    }
}
