/// Reads one response (RFC 9112), byte by byte.
public struct HTTPResponseReader: Sendable {
    private enum Phase { case head, body, chunkSize, chunk, chunkEnd, trailers, untilClose, done, broken }

    /// Bytes of the heads, and of each line of a chunked body.
    private static let longestHead = 64 << 10
    /// A longer body ends the connection.
    private static let longestBody = 1 << 20

    private var phase = Phase.head
    private var heads = HTTPHeadReader(limit: longestHead)
    private var readHead: HTTPResponseHead?
    private var line: [UInt8] = []
    private var bodyBytes = 0
    private let keepsBody: Bool
    /// The bytes of the body, if they are kept.
    public private(set) var body: [UInt8] = []
    /// Bytes left of the body or of a chunk.
    private var left = 0
    private var mayKeep = true

    public init(keepsBody: Bool = false) { self.keepsBody = keepsBody }

    /// The head of a complete response; `nil` before its end.
    public var head: HTTPResponseHead? { phase == .done ? readHead : nil }
    /// The peer does not speak HTTP/1.1.
    public var isBroken: Bool { phase == .broken }
    /// Whether the connection can carry another request.
    public var keepsConnection: Bool { phase == .done && mayKeep }
    /// Whether no byte has arrived.
    var isEmpty: Bool { heads.count == 0 }

    public mutating func receive(_ bytes: ArraySlice<UInt8>) {
        for byte in bytes {
            switch phase {
            case .head: takeHead(byte)
            case .body, .chunk, .untilClose: takeBody(byte)
            case .chunkSize, .chunkEnd, .trailers: takeLine(byte)
            case .done: mayKeep = false  // More than one response to one request.
            case .broken: return
            }
        }
    }

    /// The peer has closed the connection.
    public mutating func ended() {
        mayKeep = false
        if phase == .untilClose { phase = .done } else if phase != .done { phase = .broken }
    }

    private mutating func takeHead(_ byte: UInt8) {
        do {
            if let head = try heads.receive(byte) { headEnded(head) }
        } catch {
            phase = .broken
        }
    }

    private mutating func headEnded(_ head: HTTPResponseHead) {
        readHead = head
        if head.status < 200 {
            // 100 Continue precedes the response; 101 would be another protocol.
            if head.status == 101 { phase = .broken }
            return
        }
        if head.minorVersion == 0 || head.values("connection").contains("close") { mayKeep = false }
        if head.status == 204 || head.status == 304 {
            phase = .done
            return
        }
        let codings = head.values("transfer-encoding")
        let lengths = Set(head.values("content-length"))
        if !codings.isEmpty {
            // A chunked coding is the last one (RFC 9112, 6.1); without it the body ends with the connection.
            phase = codings.last == "chunked" ? .chunkSize : .untilClose
            if !lengths.isEmpty { mayKeep = false }
        } else if let length = lengths.first {
            guard lengths.count == 1, length.utf8.allSatisfy({ 0x30...0x39 ~= $0 }), let count = Int(length) else {
                phase = .broken
                return
            }
            if count > Self.longestBody { return end() }
            (left, phase) = (count, count == 0 ? .done : .body)
        } else {
            phase = .untilClose
        }
    }

    private mutating func takeBody(_ byte: UInt8) {
        bodyBytes += 1
        if bodyBytes > Self.longestBody { return end() }
        if keepsBody { body.append(byte) }
        if phase == .untilClose { return }
        left -= 1
        if left == 0 { phase = phase == .body ? .done : .chunkEnd }
    }

    /// Ends a response whose body is too long: only the status counts.
    private mutating func end() { (mayKeep, phase) = (false, .done) }

    private mutating func takeLine(_ byte: UInt8) {
        guard byte == UInt8(ascii: "\n") else {
            line.append(byte)
            if line.count > Self.longestHead { phase = .broken }
            return
        }
        if line.last == UInt8(ascii: "\r") { line.removeLast() }
        let text = String(decoding: line, as: UTF8.self)
        line.removeAll(keepingCapacity: true)
        switch phase {
        case .chunkEnd: phase = text.isEmpty ? .chunkSize : .broken
        case .trailers: if text.isEmpty { phase = .done }
        default:
            let digits = text.prefix { $0 != ";" && $0 != " " }
            guard !digits.hasPrefix("+"), !digits.hasPrefix("-"), let count = Int(digits, radix: 16) else {
                phase = .broken
                return
            }
            if count > Self.longestBody { return end() }
            (left, phase) = (count, count == 0 ? .trailers : .chunk)
        }
    }
}
