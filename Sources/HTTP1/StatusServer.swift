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
        host: String, port: Int, hosts: [String] = [], limits: ServerLimits = ServerLimits(),
        profile: ServerProfile = ServerProfile(), reply: @escaping @Sendable (StatusRequest) -> StatusReply?
    ) throws(ListenError) {
        let listener: Listener
        do throws(SocketError) {
            listener = try Listener(host: host, port: port, backlog: Self.backlog)
        } catch {
            throw .socket(error)
        }
        try self.init(listener, host: host, hosts: hosts, limits: limits, profile: profile, reply: reply)
    }

    /// Listens at an address of the host.
    public convenience init(
        host: String, at address: SocketAddress, hosts: [String] = [],
        reply: @escaping @Sendable (StatusRequest) -> StatusReply?
    ) throws(ListenError) {
        let listener: Listener
        do throws(SocketError) { listener = try Listener(at: address, backlog: Self.backlog) } catch { throw .socket(error) }
        try self.init(
            listener, host: host, hosts: hosts, limits: ServerLimits(), profile: ServerProfile(), reply: reply)
    }

    private init(
        _ listener: consuming Listener, host: String, hosts: [String], limits: ServerLimits, profile: ServerProfile,
        reply: @escaping @Sendable (StatusRequest) -> StatusReply?
    ) throws(ListenError) {
        do throws(ThreadError) {
            inbox = Mailbox(wakeUp: try WakeUp(thread: profile.thread))
        } catch {
            throw .thread(error)
        }
        (address, port) = (listener.address, listener.port)
        let door = Door(listener)
        self.host = host
        do throws(ThreadError) {
            thread = JoinOnce(
                try OwnedThread(name: profile.thread) { [inbox] in
                    guard let listener = door.open() else { return }
                    ServerLoop(listener, inbox, limits, profile, HostList(hosts + [host]), reply).run()
                })
        } catch {
            throw .thread(error)
        }
    }

    deinit { close() }

    /// Changes the names and addresses that a request may name.
    public func allow(hosts: [String]) { inbox.send(.allow(HostList(hosts + [host]))) }

    /// Ends every connection and the thread.
    public func close() {
        inbox.send(.stop)
        thread.join()
    }
}
