internal import Sockets
internal import Threads

/// A small HTTP/1.1 server on one thread of its own, for people and monitoring programs: one request a connection, without a
/// body.
///
/// It trusts no client: each one is limited in bytes, time and connections, and costs the rest of the process nothing.
public final class StatusServer: Sendable {
    /// The `Server` header of the daemon: `gaplessd check` recognises by it which program has a port.
    public static let name = "gaplessd"
    /// Connections that the kernel holds until they are accepted.
    private static let backlog: CInt = 64

    /// The port it listens at, also if any free one was asked for.
    public let port: Int
    private let host: String
    private let inbox = Mailbox<ServerLoop.Message>()
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
    public init(
        host: String, port: Int, hosts: [String] = [], limits: ServerLimits = ServerLimits(),
        profile: ServerProfile = ServerProfile(), reply: @escaping @Sendable (StatusRequest) -> StatusReply?
    ) throws(ListenError) {
        let door: Door
        do throws(SocketError) {
            let listener = try Listener(host: host, port: port, backlog: Self.backlog)
            self.port = listener.port
            door = Door(listener)
        } catch {
            throw .socket(error)
        }
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
