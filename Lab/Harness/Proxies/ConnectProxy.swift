internal import Sockets
internal import Threads

/// A small HTTP proxy that knows CONNECT alone, for pushes that have no straight way: on the loopback interface, on a port of
/// its own, gone with this object.
public final class ConnectProxy {
    /// What it does about a request.
    public enum Manner: Sendable, Equatable {
        /// Opens the way.
        case obliging
        /// Answers with this and closes.
        case answering(String)
        /// Reads and says nothing.
        case silent
        /// Closes at once.
        case closing
    }

    /// One request, as it came.
    public struct Request: Sendable, Equatable {
        /// `CONNECT api.push.apple.com:443 HTTP/1.1`
        public var line: String
        /// The value of `Proxy-Authorization`.
        public var authorization: String?
    }

    private struct Books {
        var manner: Manner
        var requests: [Request] = []
    }

    /// A listener that one thread has.
    private final class Door: @unchecked Sendable {  // Made here, then used by the accepting thread alone.
        let listener: Listener
        init(_ listener: consuming Listener) { self.listener = listener }
    }

    /// A socket on its way to the thread that will own it.
    private final class Visitor: @unchecked Sendable {  // Given by the accepting thread to exactly one other.
        private var socket: Socket?
        init(_ socket: consuming Socket) { self.socket = consume socket }
        func take() -> Socket? { socket.take() }
    }

    private final class Servant {
        private var thread: OwnedThread?
        init(_ thread: consuming OwnedThread) { self.thread = consume thread }
        func join() { thread.take()?.join() }
    }

    public let port: Int
    private let stop: WakeUp
    private let books: Locked<Books>
    private let thread: Servant

    /// - Parameter authorization: what it wants to hear in `Proxy-Authorization`; without it everybody may pass.
    public init(_ manner: Manner = .obliging, authorization: String? = nil) throws {
        let door = Door(try Listener(port: 0))
        port = door.listener.port
        let (stop, books) = (WakeUp(), Locked(Books(manner: manner)))
        self.stop = stop
        self.books = books
        thread = Servant(
            try OwnedThread(name: "proxy") {
                ConnectProxy.accept(door, stop) { visitor in
                    guard let socket = visitor.take() else { return }
                    ConnectProxy.serve(socket, authorization, books, stop)
                }
            })
    }

    deinit {
        stop.ring()
        thread.join()
    }

    /// Every request so far.
    public var requests: [Request] { books.withLock { $0.requests } }

    /// From the next request on.
    public func behave(_ manner: Manner) { books.withLock { $0.manner = manner } }

    private static func accept(_ door: Door, _ stop: WakeUp, _ serve: @escaping @Sendable (Visitor) -> Void) {
        var servants: [Servant] = []
        var poller = Poller()
        while true {
            poller.reset()
            poller.add(door.listener.descriptor, for: .read)
            poller.add(stop.descriptor, for: .read)
            poller.wait(until: nil)
            if poller.readiness(at: 1).contains(.read) { break }
            guard let socket = door.listener.accept() else { continue }
            let visitor = Visitor(socket)
            // Who finds no thread is not served: the connection closes with `visitor`.
            if let thread = try? OwnedThread(name: "proxied", body: { serve(visitor) }) { servants.append(Servant(thread)) }
        }
        for servant in servants { servant.join() }
    }

    private static func serve(_ client: consuming Socket, _ authorization: String?, _ books: Locked<Books>, _ stop: WakeUp) {
        guard let request = head(client, stop) else { return }
        let manner = books.withLock { books in
            books.requests.append(request)
            return books.manner
        }
        var answer = "HTTP/1.1 200 Connection established\r\n\r\n"
        switch manner {
        case .obliging: break
        case .answering(let text): answer = text
        case .silent: return sleep(client, stop)
        case .closing: return
        }
        if manner == .obliging && authorization != nil && request.authorization != authorization {
            answer = "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"proxy\"\r\n\r\n"
        }
        guard write(Array(answer.utf8), to: client, stop), answer.contains(" 200 "), let server = dial(request, stop) else {
            return
        }
        pump(client, server, stop)
    }

    /// What was asked; `nil` where the client went before it had asked.
    private static func head(_ client: borrowing Socket, _ stop: WakeUp) -> Request? {
        var bytes: [UInt8] = []
        var byte: [UInt8] = [0]
        while !bytes.suffix(4).elementsEqual("\r\n\r\n".utf8) {
            switch byte.withUnsafeMutableBytes({ client.read(into: $0) }) {
            case .done: bytes.append(byte[0])
            case .needsRead, .needsWrite: if !wait(client.descriptor, .read, stop) { return nil }
            case .closed, .failed: return nil
            }
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

    /// Bytes both ways until one side is through.
    private static func pump(_ left: borrowing Socket, _ right: borrowing Socket, _ stop: WakeUp) {
        var poller = Poller()
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        func move(_ from: borrowing Socket, _ to: borrowing Socket) -> Bool {
            switch buffer.withUnsafeMutableBytes({ from.read(into: $0) }) {
            case .done(let count): write(Array(buffer[..<count]), to: to, stop)
            case .needsRead, .needsWrite: true
            case .closed, .failed: false
            }
        }
        while true {
            poller.reset()
            poller.add(stop.descriptor, for: .read)
            poller.add(left.descriptor, for: .read)
            poller.add(right.descriptor, for: .read)
            poller.wait(until: nil)
            if poller.readiness(at: 0).contains(.read) { return }
            if !poller.readiness(at: 1).isEmpty && !move(left, right) { return }
            if !poller.readiness(at: 2).isEmpty && !move(right, left) { return }
        }
    }

    private static func write(_ bytes: [UInt8], to socket: borrowing Socket, _ stop: WakeUp) -> Bool {
        var rest = bytes[...]
        while !rest.isEmpty {
            switch rest.withUnsafeBytes({ socket.write($0) }) {
            case .done(let count): rest = rest.dropFirst(count)
            case .needsRead, .needsWrite: if !wait(socket.descriptor, .write, stop) { return false }
            case .closed, .failed: return false
            }
        }
        return true
    }

    private static func sleep(_ client: borrowing Socket, _ stop: WakeUp) {
        while wait(client.descriptor, .read, stop) {
            var byte: [UInt8] = [0]
            switch byte.withUnsafeMutableBytes({ client.read(into: $0) }) {
            case .closed, .failed: return
            case .done, .needsRead, .needsWrite: continue
            }
        }
    }

    /// `false` when the proxy stops.
    private static func wait(_ descriptor: CInt, _ interest: Poller.Readiness, _ stop: WakeUp) -> Bool {
        var poller = Poller()
        poller.add(stop.descriptor, for: .read)
        poller.add(descriptor, for: interest)
        poller.wait(until: nil)
        return !poller.readiness(at: 0).contains(.read)
    }
}
