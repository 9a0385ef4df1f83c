import Glibc
public import Platform

/// A small HTTP/1.1 server on one thread of its own, for people and monitoring programs: one request a connection, without a
/// body.
///
/// It trusts no client: each one is limited in bytes, time and connections, and costs the rest of the process nothing.
public final class StatusServer: Sendable {
    /// The `Server` header of the daemon: `gaplessd check` recognises by it which program has a port.
    public static let name = "gaplessd"
    /// Connections that the kernel holds until they are accepted.
    private static let backlog: CInt = 64

    /// The address it listens at, with its port also if any free one was asked for.
    public let address: SocketAddress
    public let port: Int
    private let host: String
    private let descriptor: CInt
    private let inbox: Mailbox<ServerLoop.Message>
    private let thread: JoinOnce

    /// The thread's, which makes it and closes it; a closure cannot own it directly.
    private final class Door: @unchecked Sendable {  // Only the thread takes `listener` out.
        private var listener: Listener?
        init(_ listener: consuming Listener) { self.listener = .some(listener) }
        func open() -> Listener? { listener.take() }
    }

    /// Listens at once. Blocks while the host's name is resolved, if it is one.
    ///
    /// - Parameters:
    ///   - hosts: names and addresses that a request may name, beside the loopback ones and `host`.
    ///   - reply: returns the reply to a request, `nil` if there is nothing. Called on the server's thread.
    public convenience init(
        host: String, port: Int, hosts: [String] = [], profile: ServerProfile = ServerProfile(),
        reply: @escaping @Sendable (HTTPRequestHead) -> StatusReply?
    ) throws(ListenError) {
        let listener: Listener
        do throws(SocketError) {
            listener = try Listener(host: host, port: port, backlog: Self.backlog)
        } catch {
            throw .socket(error)
        }
        try self.init(listener, host: host, hosts: hosts, profile: profile, reply: reply)
    }

    /// Listens at an address of the host.
    ///
    /// - Parameter old: a server that may have the same port at an overlapping address, because this one replaces it.
    public convenience init(
        host: String, at address: SocketAddress, hosts: [String] = [], beside old: StatusServer? = nil,
        reply: @escaping @Sendable (HTTPRequestHead) -> StatusReply?
    ) throws(ListenError) {
        let listener: Listener
        do throws(SocketError) { listener = try Listener(at: address, backlog: Self.backlog, beside: old?.descriptor) } catch {
            throw .socket(error)
        }
        try self.init(listener, host: host, hosts: hosts, profile: ServerProfile(), reply: reply)
    }

    private init(
        _ listener: consuming Listener, host: String, hosts: [String], profile: ServerProfile,
        reply: @escaping @Sendable (HTTPRequestHead) -> StatusReply?
    ) throws(ListenError) {
        do throws(ThreadError) {
            inbox = Mailbox(wakeUp: try WakeUp(thread: profile.thread))
        } catch {
            throw .thread(error)
        }
        (address, port, descriptor) = (listener.address, listener.port, listener.descriptor)
        let door = Door(listener)
        self.host = host
        do throws(ThreadError) {
            thread = JoinOnce(
                try OwnedThread(name: profile.thread) { [inbox] in
                    guard let listener = door.open() else { return }
                    ServerLoop(listener, inbox, profile, AllowedHosts(hosts + [host]), reply).run()
                })
        } catch {
            throw .thread(error)
        }
    }

    deinit { close() }

    /// Changes the names and addresses that a request may name.
    public func allow(hosts: [String]) { inbox.send(.allow(AllowedHosts(hosts + [host]))) }

    /// Ends every connection and the thread.
    public func close() {
        inbox.send(.stop)
        thread.join()
    }
}

/// The properties of a server that differ between programs, and its limits.
public struct ServerProfile: Sendable, Equatable {
    /// The `Server` header of every response.
    public var name = StatusServer.name
    public var methods = ["GET", "HEAD"]
    /// The text for a request that names another host.
    public var hostRefusal = "This host is not in metrics_hosts.\n"
    /// The name of the server's thread.
    public var thread = "metrics"
    /// The path that is served first, so that many other requests do not fail a liveness probe.
    var urgentPath = "/healthz"

    /// Bytes of request line, headers and body together. Browsers send less than 2 KiB, with cookies of other ports up to 8
    /// KiB.
    var requestBytes = 16 << 10
    /// Open connections of all clients together: each costs a descriptor, of which the daemon needs some itself.
    public var connections = 64
    /// From the start of a connection to its end. A response takes 2 s at most, if Redis does not respond.
    public var timeout = Duration.seconds(10)

    public init() {}
}

/// The reason why the server cannot start.
public enum ListenError: Error, Sendable, Equatable, CustomStringConvertible {
    case socket(SocketError)
    case thread(ThreadError)

    /// Without the address, which the caller knows.
    public var description: String {
        switch self {
        case .socket(.system(_, let code)): unsafe String(cString: strerror(code))
        case .socket(let error): error.description
        case .thread(let error): error.description
        }
    }
}

/// The reply to a path. The server asks for it on its own thread, which must not wait.
public enum StatusReply: Sendable {
    case now(StatusResponse)
    /// Another thread knows the response. The server calls `begin` at once; `done` may be called from any thread. If `done` is
    /// not called within `timeout`, the server sends the result of `otherwise`.
    case later(
        timeout: Duration, begin: @Sendable (_ done: @escaping @Sendable (StatusResponse) -> Void) -> Void,
        otherwise: @Sendable () -> StatusResponse)
}

/// The response to one request.
public struct StatusResponse: Sendable, Equatable {
    public var status: Int
    public var contentType: String
    public var body: [UInt8]
    /// The value of `Content-Security-Policy`; `nil` without one.
    public var contentSecurityPolicy: String?

    public init(status: Int = 200, contentType: String = "text/plain; charset=utf-8", body: [UInt8]) {
        self.status = status
        self.contentType = contentType
        self.body = body
    }

    public init(status: Int = 200, contentType: String = "text/plain; charset=utf-8", text: String) {
        self.init(status: status, contentType: contentType, body: Array(text.utf8))
    }

    /// The bytes on the wire (RFC 9112, section 4). `nosniff` and `no-store` keep a browser from guessing a type and from
    /// caching.
    ///
    /// - Parameter now: Unix seconds.
    func encoded(for profile: ServerProfile, withBody: Bool, now: Int64) -> [UInt8] {
        let allow = status == 405 ? "Allow: \(profile.methods.joined(separator: ", "))\r\n" : ""
        let policy = contentSecurityPolicy.map { "Content-Security-Policy: \($0)\r\n" } ?? ""
        let head = """
            HTTP/1.1 \(status) \(reason)\r
            Date: \(UTCDate.http(now))\r
            Content-Type: \(contentType)\r
            Content-Length: \(body.count)\r
            Cache-Control: no-store\r
            X-Content-Type-Options: nosniff\r
            Server: \(profile.name)\r
            \(policy)\(allow)Connection: close\r
            \r

            """
        return Array(head.utf8) + (withBody ? body : [])
    }

    private var reason: String {
        switch status {
        case 200: "OK"
        case 400: "Bad Request"
        case 404: "Not Found"
        case 405: "Method Not Allowed"
        case 413: "Content Too Large"
        case 421: "Misdirected Request"
        case 503: "Service Unavailable"
        default: ""
        }
    }
}
