import HTTP1
import Harness
import Platform
import Testing

@Suite("A connection to an HTTP server")
struct HTTPClientTests {
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

    /// Sends two responses to the first request.
    private static func serveTwice(_ listener: borrowing Listener) {
        guard let socket = accepted(listener) else { return }
        let bytes = Array("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".utf8)
        _ = unsafe bytes.withUnsafeBytes { unsafe socket.write($0) }
        _ = unsafe bytes.withUnsafeBytes { unsafe socket.write($0) }
        var buffer = [UInt8](repeating: 0, count: 1024)
        _ = waitUntil(atMost: .seconds(60), every: .zero) {
            switch unsafe buffer.withUnsafeMutableBytes({ unsafe socket.read(into: $0) }) {
            case .closed, .failed: true
            default: false
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

    @Test func `a connection with an unasked response is not used again`() throws {
        let door = try Door()
        let thread = try OwnedThread(name: "twice") { Self.serveTwice(door.listener) }
        do {
            var connection = try HTTPClient.open(
                host: "127.0.0.1", port: door.listener.port, tls: nil, until: .now + .seconds(60))
            let reader = try connection.exchange(Array("x".utf8), until: .now + .seconds(60))
            #expect(reader.head?.status == 200)
            // Both responses may arrive at once.
            if reader.keepsConnection {
                var isQuiet = true
                let deadline = Instant.now + .seconds(60)
                while isQuiet, .now < deadline { isQuiet = connection.isQuiet }
                #expect(!isQuiet)
            }
        }
        thread.join()
    }

    @Test func `the caller can end a wait`() throws {
        let door = try Door()
        var connection = try HTTPClient.open(host: "127.0.0.1", port: door.listener.port, tls: nil, until: .now + .seconds(60))
        var beats = 0
        #expect(throws: SocketError.refused("enough")) {
            _ = try connection.exchange(Array("x".utf8), until: .now + .seconds(60)) { () throws(SocketError) in
                beats += 1
                if beats == 3 { throw .refused("enough") }
            }
        }
    }

    @Test func `a response without an end does not outlast its deadline`() throws {
        let door = try Door()
        let thread = try OwnedThread(name: "endless") { Self.serve(door.listener) }
        do {
            var connection = try HTTPClient.open(
                host: "127.0.0.1", port: door.listener.port, tls: nil, until: .now + .seconds(10))
            #expect(throws: SocketError.timedOut("response")) {
                _ = try connection.exchange(Array("x".utf8), until: .now + .milliseconds(300))
            }
        }
        thread.join()
    }
}
