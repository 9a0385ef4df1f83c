import Harness
import Sockets
import SystemTime
import Testing
import Threads

@testable import gaplessd

@Suite("The connection of the relay", .blocking)
struct RelayConnectionTests {
    /// Sends a response whose trailers never end, until the peer is gone.
    private static func serve(_ listener: borrowing Listener) {
        guard let socket = accepted(listener) else { return }
        var bytes = Array("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n".utf8)
        _ = waitUntil(atMost: .seconds(60), every: .zero) {
            let progress = unsafe bytes.withUnsafeBytes { unsafe socket.write($0) }
            bytes = Array("X: y\r\n".utf8)
            switch progress {
            case .done, .needsRead, .needsWrite: return false
            case .closed, .failed: return true
            }
        }
    }

    private static func accepted(_ listener: borrowing Listener) -> Socket? {
        let deadline = Instant.now + .seconds(60)
        while .now < deadline { if let socket = listener.accept() { return socket } }
        return nil
    }

    /// Carries the listener to the thread.
    private final class Door: Sendable {
        let listener: Listener
        init() throws { listener = try Listener(port: 0) }
    }

    @Test func `a response without an end does not outlast its deadline`() throws {
        let door = try Door()
        let url = try #require(RelayURL("http://127.0.0.1:\(door.listener.port)/"))
        let thread = try OwnedThread(name: "endless") { Self.serve(door.listener) }
        do {
            var connection = try RelayConnection.open(to: url, tls: nil, until: .now + .seconds(10))
            #expect(throws: SocketError.timedOut("response")) {
                _ = try connection.exchange(Array("x".utf8), until: .now + .milliseconds(300))
            }
        }
        thread.join()
    }
}
