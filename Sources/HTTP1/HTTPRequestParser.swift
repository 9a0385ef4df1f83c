/// Collects the bytes of one request until its head is complete. No bytes make it trap.
struct HTTPRequestParser {
    enum Result: Equatable {
        case incomplete
        case request(HTTPRequestHead)
        case refused(StatusResponse)
    }

    /// Bytes of request line, headers and announced body.
    private let limit: Int
    private var received: [UInt8] = []
    /// Where the line begins that is not complete yet.
    private var lineStart = 0
    private var lines: [Range<Int>] = []

    init(limit: Int) { self.limit = limit }

    /// Takes more bytes. Call it no more after a request or a refusal.
    mutating func receive(_ bytes: some Collection<UInt8>) -> Result {
        let known = received.count
        received.append(contentsOf: bytes.prefix(max(0, limit + 1 - known)))
        for at in known..<received.count {
            let byte = received[at]
            // A client that speaks TLS, for instance, is refused at its first byte.
            if byte < 0x20 && ![0x09, 0x0A, 0x0D].contains(byte) || at == 0 && !HTTPRequestHead.isToken(byte) {
                return Self.noHTTP
            }
            guard byte == 0x0A else { continue }
            // A single LF may end a line (RFC 9112, 2.2).
            let end = at > lineStart && received[at - 1] == 0x0D ? at - 1 : at
            if end == lineStart { return result(headBytes: at + 1) }
            lines.append(lineStart..<end)
            lineStart = at + 1
        }
        return received.count > limit ? Self.tooLarge(limit) : .incomplete
    }

    private func result(headBytes: Int) -> Result {
        guard headBytes <= limit else { return Self.tooLarge(limit) }
        guard let head = HTTPRequestHead(lines: lines.map { received[$0] }) else { return Self.noHTTP }
        return head.contentLength ?? 0 > limit - headBytes ? Self.tooLarge(limit) : .request(head)
    }

    private static let noHTTP = Result.refused(StatusResponse(status: 400, text: "This is not HTTP/1.1.\n"))

    private static func tooLarge(_ limit: Int) -> Result {
        .refused(StatusResponse(status: 413, text: "A request has at most \(limit) bytes.\n"))
    }
}
