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
