import Glibc
import Harness
import Platform
import PushPool
import Testing

/// A real HTTP/2 server, nghttp2's own, that serves files.
private final class Nghttpd {
    let port: Int
    private let process: ChildProcess
    private let directory = TemporaryFolder()

    init(tokens: [String], options: [String] = []) throws {
        directory.write(Certificates.shared.server.certificatesPEM, to: "server.pem")
        directory.write(Certificates.shared.server.keyPEM, to: "server.key")
        mkdir("\(directory.path)/3", 0o700)
        mkdir("\(directory.path)/3/device", 0o700)
        for token in tokens { directory.write("", to: "3/device/\(token)") }
        port = try Listener(port: 0).port
        let log = ChildProcess.Output.file(directory.file("log"))
        process = try ChildProcess(
            "nghttpd",
            ["-v", "-d", directory.path] + options + [
                "\(port)", directory.file("server.key"), directory.file("server.pem"),
            ], standardOutput: log, standardError: log)
    }

    var log: String { String(decoding: directory.read("log"), as: UTF8.self) }
}

@Suite("A pool and nghttpd")
struct NghttpdTests {
    private let token = "00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0"

    private func rejection(of id: UInt64, _ deliveries: [Delivery]) throws -> Rejection {
        guard case .rejected(let rejection)? = deliveries.first(where: { $0.id == id })?.outcome else {
            throw Command.Failure(description: "\(deliveries.suffix(5))")
        }
        return rejection
    }

    @Test func `a known token is delivered, an unknown one rejected with the server's text`() throws {
        let server = try Nghttpd(tokens: [token])
        // The server needs a moment to listen: until then dials fail, and the pool tries again.
        let fixture = try PoolFixture(port: server.port, sessions: 2)
        fixture.push(500)
        var batch = [
            notification(9001, token: "beef"), notification(9002, token: token, expiration: 4_000_000_000, collapseID: "c"),
        ]
        fixture.pool.push(&batch)
        let deliveries = fixture.waitForDeliveries(502)
        #expect(deliveries.count { $0.outcome == .delivered(apnsID: nil) } == 501)
        let rejection = try rejection(of: 9001, deliveries)
        #expect(rejection.status == 404)
        #expect(rejection.reason.contains("404"))
        _ = fixture.pool.close()
        for field in [
            "recv (stream_id=1) :method: POST", ":path: /3/device/\(token)", ":authority: 127.0.0.1:\(server.port)",
            "authorization: bearer ey", "apns-topic: com.example.app", "apns-push-type: alert", "apns-priority: 10",
            "apns-expiration: 4000000000", "apns-collapse-id: c",
        ] {
            #expect(server.log.contains(field), "\(field)")
        }
    }

    @Test(arguments: [
        ["--header-table-size=0"], ["--header-table-size=200", "-m", "3"], ["-w", "3"], ["-w", "1", "-m", "1"],
        ["--padding=200"], ["--header-table-size=100000", "-w", "20", "-W", "20", "-m", "1000"],
    ])
    func `small tables, small windows, few streams and padding change nothing but the time it takes`(options: [String]) throws {
        let server = try Nghttpd(tokens: [token], options: options)
        let fixture = try PoolFixture(port: server.port)
        var batch = (1...100).map {
            notification($0, token: token, payload: body, expiration: Int64($0 % 3) * 4_000_000_000, collapseID: "c\($0)")
        }
        batch.append(notification(101, token: "beef", payload: body))
        fixture.pool.push(&batch)
        let deliveries = fixture.waitForDeliveries(101)
        #expect(deliveries.map(\.id).sorted() == Array(1...101))
        #expect(deliveries.count { $0.outcome == .delivered(apnsID: nil) } == 100)
        #expect(try rejection(of: 101, deliveries).status == 404)
        _ = fixture.pool.close()
        let log = server.log
        for place in 1...100 { #expect(log.contains("apns-collapse-id: c\(place)\n")) }
    }

    private let body = #"{"aps":{"alert":"\#(String(repeating: "x", count: 300))"}}"#
}
