import CLinux
import Glibc
import Platform

/// A connection to an HTTP server on this machine; the test writes the bytes of the request.
public final class HTTPTalk {
    public struct Response: Sendable {
        public var status: Int
        /// Values by name, in lower case.
        public var headers: [String: String]
        public var body: String

        /// Returns `nil` if the text is not an HTTP response.
        public init?(_ text: String) {
            let parts = text.split(separator: "\r\n\r\n", maxSplits: 1, omittingEmptySubsequences: false)
            let lines = parts.first?.split(separator: "\r\n") ?? []
            guard parts.count == 2, let words = lines.first?.split(separator: " "), words.count > 1, words[0] == "HTTP/1.1",
                let status = Int(words[1])
            else { return nil }
            self.status = status
            headers = [:]
            for line in lines.dropFirst() {
                guard let colon = line.firstIndex(of: ":") else { continue }
                headers[line[..<colon].lowercased()] = String(line[line.index(after: colon)...].drop { $0 == " " })
            }
            body = String(parts[1])
        }
    }

    private let descriptor: CInt

    /// Returns `nil` if no server listens.
    public init?(port: Int, isIPv6: Bool = false) {
        descriptor = socket(isIPv6 ? AF_INET6 : AF_INET, CInt(SOCK_STREAM.rawValue), 0)
        var four = sockaddr_in()
        four.sin_family = sa_family_t(AF_INET)
        four.sin_port = in_port_t(port).bigEndian
        four.sin_addr.s_addr = in_addr_t(0x7F00_0001).bigEndian
        var six = sockaddr_in6()
        six.sin6_family = sa_family_t(AF_INET6)
        six.sin6_port = in_port_t(port).bigEndian
        six.sin6_addr = in6addr_loopback
        let bytes =
            unsafe isIPv6
            ? withUnsafeBytes(of: &six) { unsafe Array($0) } : unsafe withUnsafeBytes(of: &four) { unsafe Array($0) }
        let status = unsafe bytes.withUnsafeBytes { raw in
            unsafe connect(descriptor, raw.baseAddress!.assumingMemoryBound(to: sockaddr.self), socklen_t(raw.count))
        }
        if status != 0 { return nil }
    }

    deinit { close(descriptor) }

    public func send(_ text: String) {
        let bytes = Array(text.utf8)
        var sent = 0
        while sent < bytes.count {
            let count = unsafe bytes[sent...].withUnsafeBytes {
                unsafe Glibc.send(descriptor, $0.baseAddress, $0.count, CInt(MSG_NOSIGNAL))
            }
            if count <= 0 { return }
            sent += count
        }
    }

    /// Returns all bytes until the peer closes; `nil` if it does not close within the limit.
    public func readToEnd(atMost limit: Duration = .seconds(15)) -> String? {
        let deadline = Instant.now + limit
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            let left = (deadline - .now) / .milliseconds(1)
            var one = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            guard left > 0, unsafe poll(&one, 1, CInt(left.rounded(.up))) > 0 else { return nil }
            let count = unsafe recv(descriptor, &buffer, buffer.count, 0)
            if count <= 0 { return String(decoding: bytes, as: UTF8.self) }
            bytes += buffer[..<count]
        }
    }

    /// Sends one request on a new connection.
    public static func get(_ path: String, port: Int, method: String = "GET", isIPv6: Bool = false) -> Response? {
        guard let talk = HTTPTalk(port: port, isIPv6: isIPv6) else { return nil }
        talk.send("\(method) \(path) HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return talk.readToEnd().flatMap(Response.init)
    }
}
