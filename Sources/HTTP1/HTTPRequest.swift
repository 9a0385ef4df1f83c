/// The request line and the headers that matter here (RFC 9112, sections 3 and 5).
public struct HTTPRequestHead: Sendable, Equatable {
    public private(set) var method = ""
    /// Without the query. Percent escapes are not decoded: no path of ours needs one.
    public private(set) var path = ""
    /// The text behind the question mark, as received; empty without one.
    public private(set) var query = ""
    /// The x of HTTP/1.x.
    var minorVersion = 1
    /// Host and port of a target in absolute form, which take precedence over the `Host` header (RFC 9112, 3.2.2).
    var authority: String?
    /// The values of all `Host` headers.
    var hosts: [String] = []
    /// Bytes of the body that the client announced; `nil` without the header.
    var contentLength: Int?

    /// Parses the lines of a head, without the empty one at its end. Returns `nil` for bytes that are not HTTP/1.
    init?(lines: [ArraySlice<UInt8>]) {
        guard let first = lines.first, parseRequestLine(first) else { return nil }
        for line in lines.dropFirst() { guard parseHeader(line) else { return nil } }
    }

    private mutating func parseRequestLine(_ line: ArraySlice<UInt8>) -> Bool {
        let words = line.split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
        let isText = { (byte: UInt8) in 0x21...0x7E ~= byte }
        guard words.count == 3, !words[0].isEmpty, words[0].allSatisfy(Self.isToken), !words[1].isEmpty,
            words[1].allSatisfy(isText), words[2].count == 8, words[2].starts(with: "HTTP/1.".utf8), let digit = words[2].last,
            UInt8(ascii: "0")...UInt8(ascii: "9") ~= digit
        else { return false }
        method = Self.text(words[0])
        parseTarget(Self.text(words[1]))
        minorVersion = Int(digit - UInt8(ascii: "0"))
        return true
    }

    private mutating func parseTarget(_ target: String) {
        var rest = target[...]
        if let scheme = ["http://", "https://"].first(where: target.lowercased().hasPrefix) {
            let host = rest.dropFirst(scheme.count).prefix { $0 != "/" && $0 != "?" }
            (authority, rest) = (String(host), rest[host.endIndex...])
            if !rest.hasPrefix("/") { rest = "/" + rest }
        }
        path = String(rest.prefix { $0 != "?" })
        query = String(rest.dropFirst(path.count + 1))
    }

    /// A line that begins with white space continues the one before; such folding is obsolete and refused (RFC 9112, 5.2).
    private mutating func parseHeader(_ line: ArraySlice<UInt8>) -> Bool {
        guard let colon = line.firstIndex(of: UInt8(ascii: ":")), colon > line.startIndex,
            line[..<colon].allSatisfy(Self.isToken)
        else { return false }
        let isSpace = { (byte: UInt8) in byte == 0x20 || byte == 0x09 }
        let value = line[(colon + 1)...].drop(while: isSpace)
        guard value.allSatisfy({ $0 >= 0x20 && $0 != 0x7F || $0 == 0x09 }) else { return false }
        let text = Self.text(
            value.prefix((value.lastIndex { !isSpace($0) }.map { $0 + 1 } ?? value.startIndex) - value.startIndex))
        switch Self.text(line[..<colon]).lowercased() {
        case "host": hosts.append(text)
        case "content-length":
            // Two different lengths are a sign of request smuggling (RFC 9112, 6.3).
            guard !text.isEmpty, text.utf8.allSatisfy({ 0x30...0x39 ~= $0 }), contentLength == nil else { return false }
            contentLength = Int(text) ?? .max
        default: break
        }
        return true
    }

    private static func text(_ bytes: ArraySlice<UInt8>) -> String { String(decoding: bytes, as: UTF8.self) }

    /// The characters of a method and of a header's name (RFC 9110, 5.6.2).
    static func isToken(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
        }
    }
}

/// Collects the bytes of one request until its head is complete. No bytes make it trap.
struct HTTPRequestParser {
    enum Result: Equatable {
        case incomplete
        case request(HTTPRequestHead)
        case refused(StatusResponse)
    }

    /// Bytes of request line, headers and announced body.
    private let limit: Int
    private var lines = HTTPHeadLines()

    init(limit: Int) { self.limit = limit }

    /// Takes more bytes. Call it no more after a request or a refusal.
    mutating func receive(_ bytes: some Collection<UInt8>) -> Result {
        for byte in bytes {
            // A client that speaks TLS, for instance, is refused at its first byte.
            let isControl = byte < 0x20 && ![0x09, 0x0A, 0x0D].contains(byte)
            if isControl || lines.count == 0 && !HTTPRequestHead.isToken(byte) { return Self.noHTTP }
            let isComplete = lines.receive(byte)
            if lines.count > limit { return Self.tooLarge(limit) }
            if isComplete { return result }
        }
        return .incomplete
    }

    private var result: Result {
        guard let head = HTTPRequestHead(lines: lines.all) else { return Self.noHTTP }
        return head.contentLength ?? 0 > limit - lines.count ? Self.tooLarge(limit) : .request(head)
    }

    private static let noHTTP = Result.refused(StatusResponse(status: 400, text: "This is not HTTP/1.1.\n"))

    private static func tooLarge(_ limit: Int) -> Result {
        .refused(StatusResponse(status: 413, text: "A request has at most \(limit) bytes.\n"))
    }
}

/// The fields of a query (WHATWG URL, application/x-www-form-urlencoded).
public struct FormQuery: Sendable {
    public let fields: [(name: String, value: String)]

    public init(_ query: String) {
        fields = query.split(separator: "&").map { pair in
            let sides = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            return (Self.decoded(sides[0]), Self.decoded(sides.count > 1 ? sides[1] : ""))
        }
    }

    /// The value of the last field with this name.
    public subscript(name: String) -> String? { fields.last { $0.name == name }?.value }

    private static func decoded(_ value: Substring) -> String {
        var bytes: [UInt8] = []
        var rest = Array(value.utf8)[...]
        while let byte = rest.popFirst() {
            let digits = String(decoding: rest.prefix(2), as: UTF8.self)
            if byte == UInt8(ascii: "%"), digits.utf8.count == 2, digits.allSatisfy(\.isHexDigit),
                let code = UInt8(digits, radix: 16)
            {
                bytes.append(code)
                rest = rest.dropFirst(2)
            } else {
                bytes.append(byte == UInt8(ascii: "+") ? UInt8(ascii: " ") : byte)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
