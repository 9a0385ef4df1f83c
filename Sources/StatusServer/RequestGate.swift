import NIOCore

/// The first that a connection meets: keeps it within the server's limits before anybody parses anything.
final class RequestGate: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let limits: StatusServer.Limits
    private let connections: ConnectionCount
    private var received = 0
    private var isRefused = false
    private var end: Scheduled<Void>?

    init(_ limits: StatusServer.Limits, _ connections: ConnectionCount) {
        self.limits = limits
        self.connections = connections
    }

    func channelActive(context: ChannelHandlerContext) {
        if connections.opened() > limits.connections {
            context.close(promise: nil)
        } else {
            end = context.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(limits.patience)) { context.close(promise: nil) }
        }
        context.fireChannelActive()
    }

    func channelInactive(context: ChannelHandlerContext) {
        connections.closed()
        end?.cancel()
        context.fireChannelInactive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if isRefused { return }
        received += Self.unwrapInboundIn(data).readableBytes
        if received > limits.requestBytes { refuse(context) } else { context.fireChannelRead(data) }
    }

    /// Says so and hears no more. The connection ends with the peer, or with its time: closed now, with bytes unread, the answer
    /// would be lost.
    private func refuse(_ context: ChannelHandlerContext) {
        isRefused = true
        let answer = ByteBuffer(string: "HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
        context.writeAndFlush(Self.wrapOutboundOut(answer), promise: nil)
        context.close(mode: .output, promise: nil)
    }
}
