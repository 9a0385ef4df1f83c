import Glibc
public import Platform
internal import Synchronization

/// A small HTTP proxy on a loopback port that supports only CONNECT. It ends with this object.
public final class ConnectProxy {
    /// The reaction to a request.
    public enum Behaviour: Sendable, Equatable {
        case connect
        /// Responds with this text and closes.
        case respond(String)
        /// Reads and sends nothing.
        case silent
        /// Closes at once.
        case close
    }

    public struct Request: Sendable, Equatable {
        /// `CONNECT api.push.apple.com:443 HTTP/1.1`
        public var line: String
        /// The value of `Proxy-Authorization`.
        public var authorization: String?
    }

    private struct State {
        var behaviour: Behaviour
        var requests: [Request] = []
    }

    /// Carries a socket from the accepting thread to the thread that serves it.
    private final class Visitor: @unchecked Sendable {  // The accepting thread gives it to exactly one other thread.
        private var socket: Socket?
        init(_ socket: consuming Socket) { self.socket = consume socket }
        func take() -> Socket? { socket.take() }
    }

    public let port: Int
    private let stop: WakeUp
    private let state: Locked<State>
    private let thread: JoinOnce

    /// - Parameter authorization: the required value of `Proxy-Authorization`; without it the proxy requires none.
    public init(_ behaviour: Behaviour = .connect, authorization: String? = nil) throws {
        let door = ProxyDoor(try Listener(port: 0))
        port = door.listener.port
        let (stop, state) = (WakeUp(), Locked(State(behaviour: behaviour)))
        self.stop = stop
        self.state = state
        thread = JoinOnce(
            try OwnedThread(name: "proxy") { ConnectProxy.accept(door, authorization, state, stop) })
    }

    deinit {
        stop.ring()
        thread.join()
    }

    /// All requests so far.
    public var requests: [Request] { state.withLock { $0.requests } }

    /// Changes the reaction from the next request on.
    public func behave(_ behaviour: Behaviour) { state.withLock { $0.behaviour = behaviour } }

    private static func accept(_ door: ProxyDoor, _ authorization: String?, _ state: Locked<State>, _ stop: WakeUp) {
        var workers: [JoinOnce] = []
        while wait(door.listener.descriptor, .read, stop) {
            guard let socket = door.listener.accept() else { continue }
            let visitor = Visitor(socket)
            let serve: @Sendable () -> Void = {
                if let socket = visitor.take() { ConnectProxy.serve(socket, authorization, state, stop) }
            }
            // Without a thread the connection closes with `visitor`.
            if let thread = try? OwnedThread(name: "proxied", body: serve) { workers.append(JoinOnce(thread)) }
        }
        for worker in workers { worker.join() }
    }

    private static func serve(_ client: consuming Socket, _ authorization: String?, _ state: Locked<State>, _ stop: WakeUp) {
        guard let request = head(client, stop) else { return }
        let behaviour = state.withLock { state in
            state.requests.append(request)
            return state.behaviour
        }
        var response = "HTTP/1.1 200 Connection established\r\n\r\n"
        switch behaviour {
        case .connect where authorization != nil && request.authorization != authorization:
            response = "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"proxy\"\r\n\r\n"
        case .connect: break
        case .respond(let text): response = text
        case .silent:
            while wait(client.descriptor, .read, stop), read(client) != nil {}
            return
        case .close: return
        }
        guard write(Array(response.utf8)[...], to: client, stop), response.contains(" 200 "), let server = dial(request, stop)
        else { return }
        pump(client, server, stop)
    }

    /// Reads the request head. Returns `nil` if the client closes before its end.
    private static func head(_ client: borrowing Socket, _ stop: WakeUp) -> Request? {
        var bytes: [UInt8] = []
        while !bytes.suffix(4).elementsEqual("\r\n\r\n".utf8) {
            guard wait(client.descriptor, .read, stop), let more = read(client, atMost: 1) else { return nil }
            bytes += more
        }
        let lines = String(decoding: bytes, as: UTF8.self).split(whereSeparator: \.isNewline)
        let name = "Proxy-Authorization: "
        let authorization = lines.first { $0.hasPrefix(name) }.map { String($0.dropFirst(name.count)) }
        return Request(line: String(lines.first ?? ""), authorization: authorization)
    }

    private static func dial(_ request: Request, _ stop: WakeUp) -> Socket? {
        let words = request.line.split(separator: " ")
        guard words.count == 3, words[0] == "CONNECT", let colon = words[1].lastIndex(of: ":"),
            let port = Int(words[1][words[1].index(after: colon)...])
        else { return nil }
        for address in (try? SocketAddress.resolve(host: String(words[1][..<colon]), port: port)) ?? [] {
            guard let socket = try? Socket(connectingTo: address) else { continue }
            guard wait(socket.descriptor, .write, stop) else { return nil }
            if socket.connectError() == nil { return socket }
        }
        return nil
    }

    /// Copies bytes in both directions until one side closes.
    private static func pump(_ left: borrowing Socket, _ right: borrowing Socket, _ stop: WakeUp) {
        var poller = Poller()
        while true {
            poller.reset()
            poller.add(stop.descriptor, for: .read)
            poller.add(left.descriptor, for: .read)
            poller.add(right.descriptor, for: .read)
            poller.wait(until: nil)
            if poller.readiness(at: 0).contains(.read) { return }
            if !poller.readiness(at: 1).isEmpty {
                guard let bytes = read(left), write(bytes[...], to: right, stop) else { return }
            }
            if !poller.readiness(at: 2).isEmpty {
                guard let bytes = read(right), write(bytes[...], to: left, stop) else { return }
            }
        }
    }

    /// Returns the available bytes, or `nil` if the connection is closed.
    private static func read(_ socket: borrowing Socket, atMost limit: Int = 64 << 10) -> [UInt8]? {
        var buffer = [UInt8](repeating: 0, count: limit)
        switch unsafe buffer.withUnsafeMutableBytes({ unsafe socket.read(into: $0) }) {
        case .done(let count): return Array(buffer[..<count])
        case .needsRead, .needsWrite: return []
        case .closed, .failed: return nil
        }
    }

    private static func write(_ bytes: ArraySlice<UInt8>, to socket: borrowing Socket, _ stop: WakeUp) -> Bool {
        var rest = bytes
        while !rest.isEmpty {
            switch unsafe rest.withUnsafeBytes({ unsafe socket.write($0) }) {
            case .done(let count): rest = rest.dropFirst(count)
            case .needsRead, .needsWrite: if !wait(socket.descriptor, .write, stop) { return false }
            case .closed, .failed: return false
            }
        }
        return true
    }

    /// Returns `false` when the proxy stops.
    private static func wait(_ descriptor: CInt, _ interest: Poller.Readiness, _ stop: WakeUp) -> Bool {
        var poller = Poller()
        poller.add(stop.descriptor, for: .read)
        poller.add(descriptor, for: interest)
        poller.wait(until: nil)
        return !poller.readiness(at: 0).contains(.read)
    }
}

/// A name server for tests. It answers with 127.0.0.1 while it is open, and otherwise hangs.
public final class SlowNames: Sendable {
    private let count = Atomic<Int>(0)
    private let hanging = Atomic<Int>(0)
    private let isOpen: Atomic<Bool>
    private let gate = WakeUp()

    public init(isOpen: Bool = false) { self.isOpen = Atomic(isOpen) }

    /// The lookups so far.
    public var lookups: Int { count.load(ordering: .relaxed) }

    /// Whether a lookup is waiting.
    public var isHanging: Bool { hanging.load(ordering: .acquiring) > 0 }

    public func lookUp(_ host: String, _ port: Int) -> NameResolver.Answer {
        count.add(1, ordering: .relaxed)
        hanging.add(1, ordering: .acquiringAndReleasing)
        defer { hanging.subtract(1, ordering: .acquiringAndReleasing) }
        var poller = Poller()
        while !isOpen.load(ordering: .acquiring) {
            poller.reset()
            poller.add(gate.descriptor, for: .read)
            poller.wait(until: nil)
        }
        return Result { () throws(SocketError) in try SocketAddress.resolve(host: "127.0.0.1", port: port) }
    }

    /// From now on it answers at once.
    public func open() {
        isOpen.store(true, ordering: .releasing)
        gate.ring()
    }

    /// From now on it hangs.
    public func close() {
        isOpen.store(false, ordering: .releasing)
        gate.listen()
    }
}
