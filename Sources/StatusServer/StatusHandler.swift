import NIOCore
import NIOHTTP1

/// Answers the one request of a connection, and closes it.
final class StatusHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private let reply: @Sendable (String) -> StatusReply?
    private var head: HTTPRequestHead?
    private var isAsked = false
    private var isAnswered = false

    init(_ reply: @escaping @Sendable (String) -> StatusReply?) { self.reply = reply }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch Self.unwrapInboundIn(data) {
        case .head(let head): if !isAsked { self.head = head }
        case .body: break
        case .end:
            // A second request on this connection is not heard.
            guard !isAsked, let head else { return }
            isAsked = true
            answer(head, context)
        }
    }

    func channelInactive(context: ChannelHandlerContext) {
        isAnswered = true
        context.fireChannelInactive()
    }

    /// What is no HTTP has its 400 by now.
    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        isAnswered = true
        context.close(promise: nil)
    }

    private func answer(_ head: HTTPRequestHead, _ context: ChannelHandlerContext) {
        guard head.method == .GET || head.method == .HEAD else {
            return send(StatusResponse(status: 405, text: "Only GET and HEAD.\n"), context)
        }
        guard head.uri.hasPrefix("/") else { return send(StatusResponse(status: 400, text: "No path.\n"), context) }
        switch reply(String(head.uri.prefix { $0 != "?" })) {
        case nil: send(StatusResponse(status: 404, text: "Nothing is here.\n"), context)
        case .now(let answer): send(answer, context)
        case .later(let patience, let begin, let otherwise):
            let loop = context.eventLoop
            loop.assumeIsolated().scheduleTask(in: TimeAmount(patience)) { [self] in
                if !isAnswered { send(otherwise(), context) }
            }
            let bound = NIOLoopBound((self, context), eventLoop: loop)
            begin { answer in
                loop.execute {
                    let (handler, context) = bound.value
                    handler.send(answer, context)
                }
            }
        }
    }

    private func send(_ answer: StatusResponse, _ context: ChannelHandlerContext) {
        if isAnswered { return }
        isAnswered = true
        var headers = HTTPHeaders([
            ("Content-Type", answer.contentType), ("Content-Length", "\(answer.body.count)"), ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"), ("Server", StatusServer.name), ("Connection", "close"),
        ])
        if answer.status == 405 { headers.add(name: "Allow", value: "GET, HEAD") }
        let start = HTTPResponseHead(version: .http1_1, status: HTTPResponseStatus(statusCode: answer.status), headers: headers)
        context.write(Self.wrapOutboundOut(.head(start)), promise: nil)
        if head?.method != .HEAD {
            context.write(Self.wrapOutboundOut(.body(.byteBuffer(ByteBuffer(bytes: answer.body)))), promise: nil)
        }
        let sent = context.eventLoop.makePromise(of: Void.self)
        sent.futureResult.assumeIsolated().whenComplete { _ in context.close(promise: nil) }
        context.writeAndFlush(Self.wrapOutboundOut(.end(nil)), promise: sent)
    }
}
