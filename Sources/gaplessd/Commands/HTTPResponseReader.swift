/// Reads one HTTP/1.1 response (RFC 9112), byte by byte. Keeps the status and no body.
struct HTTPResponseReader {
    private enum Phase { case head, body, chunkSize, chunk, chunkEnd, trailers, untilClose, done, broken }

    /// Bytes of the head, and of each line of a chunked body.
    private static let longestHead = 64 << 10
    /// A longer body ends the connection: only the status counts.
    private static let longestBody = 1 << 20

    private var phase = Phase.head
    private var line: [UInt8] = []
    private var lines: [String] = []
    private var headBytes = 0
    private var bodyBytes = 0
    /// Bytes left of the body or of a chunk.
    private var left = 0
    private var mayKeep = true
    private var readStatus = 0

    /// The status of a complete response; `nil` before its end.
    var status: Int? { phase == .done ? readStatus : nil }
    /// The peer does not speak HTTP/1.1.
    var isBroken: Bool { phase == .broken }
    /// Whether the connection can carry another request.
    var keepsConnection: Bool { phase == .done && mayKeep }
    /// Whether no byte has arrived.
    var isEmpty: Bool { headBytes == 0 }

    mutating func receive(_ bytes: some Sequence<UInt8>) {
        for byte in bytes {
            switch phase {
            case .head: takeHead(byte)
            case .body, .chunk, .untilClose: takeBody()
            case .chunkSize, .chunkEnd, .trailers: takeLine(byte)
            case .done: mayKeep = false  // More than one response to one request.
            case .broken: return
            }
        }
    }

    /// The peer has closed the connection.
    mutating func ended() {
        mayKeep = false
        if phase == .untilClose { phase = .done } else if phase != .done { phase = .broken }
    }

    private mutating func takeHead(_ byte: UInt8) {
        headBytes += 1
        if headBytes > Self.longestHead {
            phase = .broken
            return
        }
        guard byte == UInt8(ascii: "\n") else { return line.append(byte) }
        let text = takeText()
        if !text.isEmpty { return lines.append(text) }
        headEnded()
    }

    private mutating func takeText() -> String {
        if line.last == UInt8(ascii: "\r") { line.removeLast() }
        defer { line.removeAll(keepingCapacity: true) }
        return String(decoding: line, as: UTF8.self)
    }

    private mutating func headEnded() {
        let words = lines.first?.split(separator: " ", maxSplits: 2) ?? []
        guard words.count >= 2, words[0] == "HTTP/1.1" || words[0] == "HTTP/1.0", words[1].utf8.count == 3,
            let status = Int(words[1]), status >= 100
        else {
            phase = .broken
            return
        }
        let fields = lines.dropFirst()
        lines = []
        if status < 200 {
            // 100 Continue precedes the response; 101 would be another protocol.
            if status == 101 { phase = .broken }
            return
        }
        readStatus = status
        if words[0] == "HTTP/1.0" || values("connection", fields).contains("close") { mayKeep = false }
        if status == 204 || status == 304 {
            phase = .done
            return
        }
        let codings = values("transfer-encoding", fields)
        let lengths = Set(values("content-length", fields))
        if !codings.isEmpty {
            // A chunked coding is the last one (RFC 9112, 6.1); without it the body ends with the connection.
            phase = codings.last == "chunked" ? .chunkSize : .untilClose
            if !lengths.isEmpty { mayKeep = false }
        } else if let length = lengths.first {
            guard lengths.count == 1, length.utf8.allSatisfy({ 0x30...0x39 ~= $0 }), let count = Int(length) else {
                phase = .broken
                return
            }
            expectBody(count, .body)
        } else {
            phase = .untilClose
        }
    }

    /// The comma-separated values of a field, in lower case.
    private func values(_ name: String, _ fields: ArraySlice<String>) -> [String] {
        fields.flatMap { field -> [String] in
            let parts = field.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2, parts[0].lowercased() == name else { return [] }
            return parts[1].split(separator: ",").map { String($0.filter { $0 != " " && $0 != "\t" }).lowercased() }
        }
    }

    private mutating func expectBody(_ count: Int, _ next: Phase) {
        (left, phase) = (count, next)
        if count > Self.longestBody { return end(keeping: false) }
        if count == 0 { phase = .done }
    }

    private mutating func takeBody() {
        bodyBytes += 1
        if bodyBytes > Self.longestBody { return end(keeping: false) }
        if phase == .untilClose { return }
        left -= 1
        if left == 0 { phase = phase == .body ? .done : .chunkEnd }
    }

    private mutating func end(keeping: Bool) {
        if !keeping { mayKeep = false }
        phase = .done
    }

    private mutating func takeLine(_ byte: UInt8) {
        guard byte == UInt8(ascii: "\n") else {
            line.append(byte)
            if line.count > Self.longestHead { phase = .broken }
            return
        }
        let text = takeText()
        switch phase {
        case .chunkEnd: phase = text.isEmpty ? .chunkSize : .broken
        case .trailers: if text.isEmpty { phase = .done }
        default:
            let digits = text.prefix { $0 != ";" && $0 != " " }
            guard !digits.hasPrefix("+"), !digits.hasPrefix("-"), let count = Int(digits, radix: 16) else {
                phase = .broken
                return
            }
            if count == 0 {
                phase = .trailers
                return
            }
            if count > Self.longestBody { return end(keeping: false) }
            (left, phase) = (count, .chunk)
        }
    }
}
