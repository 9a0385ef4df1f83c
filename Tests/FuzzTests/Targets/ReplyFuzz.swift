@testable import RedisQueue

/// The protocol of Redis, in any pieces.
enum ReplyFuzz {
    static func run(_ bytes: [UInt8]) throws {
        var input = FuzzInput(bytes)
        let pieces = input.pieces()
        let parted = read(pieces)
        let whole = read([Array(pieces.joined())])
        try BrokenPromise.unless(parted.replies == whole.replies && parted.isBroken == whole.isBroken, "the pieces change it")
        for reply in whole.replies { describe(reply) }
    }

    static func read(_ pieces: [[UInt8]]) -> (replies: [RedisReply], isBroken: Bool) {
        var reader = ReplyReader()
        var replies: [RedisReply] = []
        for piece in pieces {
            reader.feed(piece, count: piece.count)
            do { while let reply = try reader.next() { replies.append(reply) } } catch { return (replies, true) }
        }
        return (replies, false)
    }

    private static func describe(_ reply: RedisReply) {
        switch reply {
        case .error(let error):
            _ = error.description
            _ = Waiting.missingFeature(error)
            if case .moved(let node) = error.kind {
                var locator = ServerLocator(.tcp(host: "localhost", port: 1))
                _ = locator.begin()
                locator.moved(to: node)
                _ = locator.begin()
            }
        case .array(let items): items.forEach(describe)
        case .string, .status: _ = ServerInfo(reply.text ?? "").warnings
        case .integer, .null: break
        }
        _ = reply.count
        _ = QueuePause.split(reply)
        if let items = reply.items {
            _ = Endpoint.nodes(items, besides: .tcp(host: "localhost", port: 1))
            if items.count >= 8 { _ = QueueStatus(items).unexplained }
        }
    }
}
