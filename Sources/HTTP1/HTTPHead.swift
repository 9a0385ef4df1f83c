/// Collects the lines of a head, up to the empty line at its end. No bytes make it trap.
struct HTTPHeadLines: Sendable {
    private var bytes: [UInt8] = []
    /// Where the line begins that is not complete yet.
    private var lineStart = 0
    private var lines: [Range<Int>] = []

    /// Bytes so far.
    var count: Int { bytes.count }
    /// The complete lines without their ends.
    var all: [ArraySlice<UInt8>] { lines.map { bytes[$0] } }

    /// Takes one byte. Returns whether it ends the head.
    mutating func receive(_ byte: UInt8) -> Bool {
        bytes.append(byte)
        guard byte == 0x0A else { return false }
        let at = bytes.count - 1
        // A single LF may end a line (RFC 9112, 2.2).
        let end = at > lineStart && bytes[at - 1] == 0x0D ? at - 1 : at
        if end == lineStart { return true }
        lines.append(lineStart..<end)
        lineStart = at + 1
        return false
    }
}

/// The status line and the fields of a response (RFC 9112, section 4).
public struct HTTPResponseHead: Sendable, Equatable {
    public let status: Int
    /// The reason phrase.
    public let reason: String
    /// The x of HTTP/1.x.
    let minorVersion: Int
    /// Lines of name and value.
    private let fields: [String]

    /// `nil` for lines that are not HTTP/1.
    init?(lines: [ArraySlice<UInt8>]) {
        let texts = lines.map { String(decoding: $0, as: UTF8.self) }
        let words = texts.first?.split(separator: " ", maxSplits: 2) ?? []
        guard words.count >= 2, words[0].utf8.count == 8, words[0].hasPrefix("HTTP/1."),
            let version = words[0].last?.wholeNumberValue,
            words[1].utf8.count == 3, let status = Int(words[1]), status >= 100
        else { return nil }
        (self.status, minorVersion, reason) = (status, version, words.count > 2 ? String(words[2]) : "")
        fields = Array(texts.dropFirst())
    }

    /// The comma-separated values of a field, in lower case.
    public func values(_ name: String) -> [String] {
        fields.flatMap { field -> [String] in
            let parts = field.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2, parts[0].lowercased() == name else { return [] }
            return parts[1].split(separator: ",").map { String($0.filter { $0 != " " && $0 != "\t" }).lowercased() }
        }
    }
}

/// The peer does not speak HTTP/1.
public struct NotHTTP: Error, Equatable {}

/// Reads heads of responses byte by byte, and nothing behind them.
public struct HTTPHeadReader: Sendable {
    private let limit: Int
    private var lines = HTTPHeadLines()
    /// Bytes of the heads before this one.
    private var earlier = 0

    /// - Parameter limit: bytes of all heads together.
    public init(limit: Int) { self.limit = limit }

    /// Bytes so far.
    var count: Int { earlier + lines.count }

    /// Takes one byte. Returns the head once it is complete.
    public mutating func receive(_ byte: UInt8) throws(NotHTTP) -> HTTPResponseHead? {
        let isComplete = lines.receive(byte)
        guard count <= limit else { throw NotHTTP() }
        guard isComplete else { return nil }
        guard let head = HTTPResponseHead(lines: lines.all) else { throw NotHTTP() }
        (earlier, lines) = (count, HTTPHeadLines())
        return head
    }
}
