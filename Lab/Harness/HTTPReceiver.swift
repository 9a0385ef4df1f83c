import CLinux
import Glibc
import Platform

/// An HTTP/1.1 server on a loopback port that records the requests. It ends with this object.
public final class HTTPReceiver {
    public struct Request: Sendable, Equatable {
        /// `POST /path HTTP/1.1`
        public var line: String
        /// Values by name, in lower case.
        public var headers: [String: String]
        public var body: String
        /// The status of the response.
        public var status: Int
        /// Whether the client closed the connection before the response.
        public var isLate = false
    }

    /// Returns the status of the response to a request without a plan.
    public typealias Judge = @Sendable (_ body: String) -> Int
    /// Returns the time from a request to its response.
    public typealias Pace = @Sendable (_ body: String) -> Duration

    private struct State {
        var plan: [Int]
        let judge: Judge?
        let pace: Pace?
        var requests: [Request] = []
        var connections = 0
    }

    /// One open connection and its unread bytes.
    private final class Connection {
        let socket: Socket
        var bytes: [UInt8] = []
        var isOpen = true
        /// A request that has no response yet.
        var pending: (request: Request, due: Instant)?
        init(_ socket: consuming Socket) { self.socket = socket }
    }

    public let port: Int
    private let stop = WakeUp()
    private let state: Locked<State>
    private let thread: JoinOnce

    /// - Parameters:
    ///   - port: 0 is any free one.
    ///   - plan: the statuses of the first responses; 0 closes the connection without one, and -1 never responds.
    ///   - judge: of the others; 200 without it.
    ///   - pace: of all responses; none waits without it. A request is recorded when its time has passed or its connection
    ///     has ended.
    public init(port: Int = 0, plan: [Int] = [], judge: Judge? = nil, pace: Pace? = nil) throws {
        let door = ProxyDoor(try Listener(port: port))
        self.port = door.listener.port
        let (stop, state) = (stop, Locked(State(plan: plan, judge: judge, pace: pace)))
        self.state = state
        thread = JoinOnce(try OwnedThread(name: "receiver") { HTTPReceiver.serve(door, stop, state) })
    }

    deinit { close() }

    /// Ends every connection. The requests stay available.
    public func close() {
        stop.ring()
        thread.join()
    }

    /// All requests so far.
    public var requests: [Request] { state.withLock { $0.requests } }
    /// The bodies of the requests with status 200.
    public var accepted: [String] { requests.filter { $0.status == 200 }.map(\.body) }
    /// Changes the statuses of the next responses.
    public func plan(_ statuses: [Int]) { state.withLock { $0.plan = statuses } }

    /// The number of connections so far.
    public var connections: Int { state.withLock { $0.connections } }

    private static func serve(_ door: ProxyDoor, _ stop: WakeUp, _ state: Locked<State>) {
        var connections: [Connection] = []
        var poller = Poller()
        while true {
            poller.reset()
            poller.add(stop.descriptor, for: .read)
            poller.add(door.listener.descriptor, for: .read)
            for connection in connections { poller.add(connection.socket.descriptor, for: .read) }
            poller.wait(until: connections.compactMap { $0.pending?.due }.min())
            if poller.readiness(at: 0).contains(.read) { return }
            for (index, connection) in connections.enumerated() where !poller.readiness(at: 2 + index).isEmpty {
                receive(connection, state)
            }
            for connection in connections {
                if let pending = connection.pending, pending.due <= .now { finish(pending.request, on: connection, state) }
            }
            connections.removeAll { !$0.isOpen }
            while let socket = door.listener.accept() {
                connections.append(Connection(socket))
                state.withLock { $0.connections += 1 }
            }
        }
    }

    private static func receive(_ connection: Connection, _ state: Locked<State>) {
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        switch unsafe buffer.withUnsafeMutableBytes({ unsafe connection.socket.read(into: $0) }) {
        case .done(let count): connection.bytes += buffer[..<count]
        case .needsRead, .needsWrite: return
        case .closed, .failed:
            connection.isOpen = false
            if var request = connection.pending?.request {
                request.isLate = true
                finish(request, on: connection, state)
            }
            return
        }
        takeRequests(connection, state)
    }

    private static func takeRequests(_ connection: Connection, _ state: Locked<State>) {
        while connection.isOpen, connection.pending == nil, let taken = takeRequest(connection) {
            let (status, pace) = state.withLock { state in
                let status = state.plan.isEmpty ? state.judge?(taken.body) ?? 200 : state.plan.removeFirst()
                return (status, state.pace?(taken.body) ?? .zero)
            }
            let request = Request(line: taken.line, headers: taken.headers, body: taken.body, status: status)
            if pace > .zero { connection.pending = (request, .now + pace) } else { finish(request, on: connection, state) }
        }
    }

    /// Records a request and responds to it.
    private static func finish(_ request: Request, on connection: Connection, _ state: Locked<State>) {
        let wasPending = connection.pending != nil
        connection.pending = nil
        state.withLock { $0.requests.append(request) }
        if !connection.isOpen || request.status < 0 { return }
        if request.status == 0 {
            connection.isOpen = false
            return
        }
        respond(Array("HTTP/1.1 \(request.status) Planned\r\nContent-Length: 2\r\n\r\nok".utf8), on: connection)
        if wasPending { takeRequests(connection, state) }
    }

    private static func takeRequest(
        _ connection: Connection
    ) -> (line: String, headers: [String: String], body: String)? {
        guard let end = connection.bytes.firstRange(of: Array("\r\n\r\n".utf8)) else { return nil }
        let lines = String(decoding: connection.bytes[..<end.lowerBound], as: UTF8.self).split(whereSeparator: \.isNewline)
        let headers = headers(lines.dropFirst())
        let length = headers["content-length"].flatMap { Int($0) } ?? 0
        guard connection.bytes.count >= end.upperBound + length else { return nil }
        let body = String(decoding: connection.bytes[end.upperBound..<end.upperBound + length], as: UTF8.self)
        connection.bytes.removeFirst(end.upperBound + length)
        return (String(lines.first ?? ""), headers, body)
    }

    /// Returns the values by name, in lower case, of the lines after the first one.
    fileprivate static func headers(_ lines: ArraySlice<Substring>) -> [String: String] {
        var headers: [String: String] = [:]
        for line in lines {
            guard let colon = line.firstIndex(of: ":") else { continue }
            headers[line[..<colon].lowercased()] = String(line[line.index(after: colon)...].drop { $0 == " " })
        }
        return headers
    }

    /// A response is small: the socket takes it at once.
    private static func respond(_ bytes: [UInt8], on connection: Connection) {
        guard case .done(bytes.count) = unsafe bytes.withUnsafeBytes({ unsafe connection.socket.write($0) }) else {
            connection.isOpen = false
            return
        }
    }
}

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
            headers = HTTPReceiver.headers(lines.dropFirst())
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
