import Glibc
import Testing

@testable import Harness

@Suite("The fault proxy")
struct FaultProxyTests {
    /// TCP delivers all bytes in order or none: a peer that received the rest would mistake one reply for another.
    @Test(arguments: [true, false])
    func `a connection that lost bytes stays stopped after the fault`(losesReplies: Bool) throws {
        let redis = try RedisServer()
        let proxy = try FaultProxy(toUnixSocket: redis.socketPath, seed: 1)
        let old = try connect(to: proxy.port)
        defer { close(old) }
        #expect(ask(old, "PING") == "+PONG\r\n")
        if losesReplies { proxy.behaviour.swallowsReplies = true } else { proxy.behaviour.swallowsRequests = true }
        #expect(ask(old, "PING", within: 300) == "")
        proxy.behaviour = .init()
        #expect(ask(old, "ECHO second", within: 300) == "")
        let new = try connect(to: proxy.port)
        defer { close(new) }
        #expect(ask(new, "PING") == "+PONG\r\n")
    }

    private func connect(to port: Int) throws -> CInt {
        let descriptor = socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(port).bigEndian
        address.sin_addr.s_addr = in_addr_t(0x7f00_0001).bigEndian
        let size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { Glibc.connect(descriptor, $0, size) }
        }
        try #require(result == 0)
        return descriptor
    }

    /// Returns the reply to an inline command, or an empty string at the limit.
    private func ask(_ descriptor: CInt, _ command: String, within milliseconds: CInt = 10_000) -> String {
        let line = Array((command + "\r\n").utf8)
        guard send(descriptor, line, line.count, CInt(MSG_NOSIGNAL)) == line.count else { return "" }
        var waited = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        guard poll(&waited, 1, milliseconds) == 1 else { return "" }
        var buffer = [UInt8](repeating: 0, count: 4096)
        let count = recv(descriptor, &buffer, buffer.count, 0)
        return String(decoding: buffer.prefix(max(0, count)), as: UTF8.self)
    }
}

@Suite("Error replies of the fault proxy")
struct RedisRefusalsTests {
    private var refusals = RedisRefusals()

    private static let ping = "*1\r\n$4\r\nPING\r\n"
    private static let get = "*2\r\n$3\r\nGET\r\n$3\r\na\r\n\r\n"

    private mutating func ask(_ text: String, _ errors: String?...) -> (String, String) {
        var errors = errors[...]
        let (toServer, toDaemon) = refusals.add(requests: Array(text.utf8)[...]) { errors.popFirst() ?? nil }
        return (String(decoding: toServer, as: UTF8.self), String(decoding: toDaemon, as: UTF8.self))
    }

    private mutating func reply(_ text: String) -> String {
        String(decoding: refusals.add(replies: Array(text.utf8)[...]), as: UTF8.self)
    }

    @Test mutating func `a refused request does not reach Redis`() {
        #expect(ask(Self.ping, "LOADING later") == ("", "-LOADING later\r\n"))
        #expect(ask(Self.get, nil) == (Self.get, ""))
    }

    @Test mutating func `replies keep the order of the requests`() {
        #expect(ask(Self.get + Self.ping + Self.get, nil, "BUSY", nil) == (Self.get + Self.get, ""))
        #expect(reply("*2\r\n:1\r\n$3\r\n") == "")
        #expect(reply("\r\nx\r\n+O") == "*2\r\n:1\r\n$3\r\n\r\nx\r\n-BUSY\r\n")
        #expect(reply("K\r\n") == "+OK\r\n")
    }

    @Test mutating func `a request in pieces is one request`() {
        for piece in ["*2\r\n$3\r", "\nGET\r\n$3\r\na\r"] { #expect(ask(piece, "ERR").1 == "") }
        #expect(ask("\n\r\n", "ERR") == ("", "-ERR\r\n"))
    }

    @Test(arguments: ["$-1\r\n", "*-1\r\n", "*0\r\n", "+OK\r\n", "-ERR no\r\n", ":-7\r\n", "*2\r\n*1\r\n$0\r\n\r\n:1\r\n"])
    func `every kind of value has an end`(text: String) {
        #expect(RESPFrame.length(of: Array((text + "+next\r\n").utf8)[...]) == text.utf8.count)
        #expect(RESPFrame.length(of: Array(text.utf8.dropLast())[...]) == nil)
    }
}
