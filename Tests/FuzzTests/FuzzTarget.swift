/// A reader of bytes from outside. No bytes may make it trap or hang, or break one of its promises.
///
/// `make fuzz` passes mutated bytes to each target, and `CorpusTests` the files of the corpus. The raw value names the folder of
/// the corpus.
enum FuzzTarget: String, CaseIterable, Sendable {
    /// PEM and DER of certificates and keys.
    case certificate
    /// An HTTP proxy's response to CONNECT, and the response of a receiver of results.
    case exchange
    /// Payloads that the word filter searches.
    case filter
    /// HPACK header blocks of responses.
    case headers
    /// Header blocks, read with and without nghttp2.
    case hpack
    /// The bytes of a server on an HTTP/2 connection.
    case http2
    case job
    case json
    /// Texts of peers and producers in log lines.
    case log
    case pkcs12
    /// Replies of Redis to a worker that claims and settles.
    case queue
    /// Dead letters, feedback, results and cancelled jobs, as the commands print them.
    case record
    /// The protocol of Redis.
    case reply
    /// Requests for metrics.
    case request
    case settings
    /// The file that stores a provider token.
    case token

    /// Throws the promise that these bytes break.
    func run(_ bytes: [UInt8]) throws {
        switch self {
        case .certificate: try CertificateFuzz.run(bytes)
        case .exchange: try ExchangeFuzz.run(bytes)
        case .filter: try FilterFuzz.run(bytes)
        case .headers: try HTTP2Fuzz.runHeaders(bytes)
        case .hpack: try HPACKFuzz.run(bytes)
        case .http2: try HTTP2Fuzz.run(bytes)
        case .job: try JobFuzz.run(bytes)
        case .json: try JSONFuzz.run(bytes)
        case .log: try LogFuzz.run(bytes)
        case .pkcs12: PKCS12Fuzz.run(bytes)
        case .queue: try QueueFuzz.run(bytes)
        case .record: try RecordFuzz.run(bytes)
        case .reply: try ReplyFuzz.run(bytes)
        case .request: try RequestFuzz.run(bytes)
        case .settings: try SettingsFuzz.run(bytes)
        case .token: try TokenFuzz.run(bytes)
        }
    }
}

/// Takes the choices of a target from the bytes of a fuzzer. Used up, it yields zeros.
struct FuzzInput {
    private(set) var rest: ArraySlice<UInt8>

    init(_ bytes: [UInt8]) { rest = bytes[...] }

    var isEmpty: Bool { rest.isEmpty }

    mutating func byte() -> UInt8 { rest.popFirst() ?? 0 }

    /// The next bytes, as many as there are up to `count`.
    mutating func bytes(_ count: Int) -> [UInt8] {
        defer { rest = rest.dropFirst(count) }
        return Array(rest.prefix(count))
    }

    /// The rest in pieces, whose size the first byte chooses.
    mutating func pieces() -> [[UInt8]] {
        let size = [Int.max, 1, 2, 3, 9, 50, 1000, 16_384][Int(byte()) % 8]
        var pieces: [[UInt8]] = []
        while !isEmpty { pieces.append(bytes(size)) }
        return pieces
    }

    /// A number of 64 bits in decimal up to the next line end, clamped to the range of `Int64`; 0 for another text.
    mutating func number() -> Int64 {
        let line = rest.prefix { $0 != UInt8(ascii: "\n") }
        rest = rest.dropFirst(line.count + 1)
        let text = String(decoding: line, as: UTF8.self)
        return Int64(text) ?? (Double(text).map { $0 < 0 ? .min : .max } ?? 0)
    }
}

/// A promise that the bytes of a fuzzer broke.
struct BrokenPromise: Error, CustomStringConvertible {
    var description: String

    /// Throws unless the condition holds.
    static func unless(_ condition: Bool, _ promise: @autoclosure () -> String) throws {
        if !condition { throw BrokenPromise(description: promise()) }
    }
}
