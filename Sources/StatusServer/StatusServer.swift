import Glibc
import NIOCore
import NIOHTTP1
import NIOPosix
import Synchronization

/// A small HTTP server on a thread of its own, for people and monitoring programs: GET and HEAD, one request a connection.
///
/// It believes nobody: whoever sends too much, too slowly or too often is cut off, and costs the rest of the process nothing.
public final class StatusServer: Sendable {
    /// What one client, and all of them, may have.
    public struct Limits: Sendable {
        /// Request line, headers and body together.
        public var requestBytes = 16 << 10
        public var connections = 64
        /// From the connection's start to its end.
        public var patience = Duration.seconds(10)

        public init() {}
    }

    /// The Server header of every answer to a request: who finds the port taken can tell by whom.
    public static let name = "gaplessd"

    /// The port that is listened at, also where any free one was asked for.
    public let port: Int
    private let group: MultiThreadedEventLoopGroup

    /// Listens at once. Blocks while the host's name is resolved, where it is one.
    ///
    /// - Parameter reply: says what is at a path; `nil` for nothing. Called on the server's thread.
    public init(
        host: String, port: Int, limits: Limits = Limits(), reply: @escaping @Sendable (_ path: String) -> StatusReply?
    ) throws(ListenError) {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let connections = ConnectionCount()
        let bootstrap = ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: 64)
            // A port whose last connections are still in TIME_WAIT is free.
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let pipeline = channel.pipeline.syncOperations
                    try pipeline.addHandler(RequestGate(limits, connections))
                    try pipeline.configureHTTPServerPipeline(withPipeliningAssistance: false)
                    try pipeline.addHandler(StatusHandler(reply))
                }
            }
        do {
            let address = try SocketAddress.of(host: host, port: port)
            let channel = try bootstrap.bind(to: address).wait()
            self.port = channel.localAddress?.port ?? port
            self.group = group
        } catch {
            try? group.syncShutdownGracefully()
            throw ListenError(description: (error as? IOError).map { String(cString: strerror($0.errnoCode)) } ?? "\(error)")
        }
    }

    deinit { try? group.syncShutdownGracefully() }

    /// Ends every connection and the thread. Nothing is answered afterwards.
    public func close() { try? group.syncShutdownGracefully() }
}

extension SocketAddress {
    fileprivate static func of(host: String, port: Int) throws -> SocketAddress {
        if let address = try? SocketAddress(ipAddress: host, port: port) { return address }
        return try SocketAddress.makeAddressResolvingHost(host, port: port)
    }
}
