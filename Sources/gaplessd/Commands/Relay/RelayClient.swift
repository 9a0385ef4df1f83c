import JSONBytes
import Sockets
import SystemTime

/// POSTs batches of results to `relay_url`, over one connection as long as it lasts.
struct RelayClient: ~Copyable {
    /// For the connection, and for the response.
    static let timeout = Duration.seconds(10)

    private let url: RelayURL
    private let secret: Secret?
    private let tls: TLSContext?
    private var connection: RelayConnection?

    /// - Parameter tls: `nil` for `http`.
    init(_ url: RelayURL, secret: Secret?, tls: TLSContext?) {
        (self.url, self.secret, self.tls) = (url, secret, tls)
        connection = nil
    }

    /// Returns the status of the response. A connection that the receiver closed while it was idle is replaced once.
    mutating func post(_ body: [UInt8]) throws(SocketError) -> Int {
        let request = request(body)
        if let idle = connection.take() {
            do throws(SocketError) { return try post(request, over: idle) } catch { if case .timedOut = error { throw error } }
        }
        return try post(request, over: RelayConnection.open(to: url, tls: tls, until: .now + Self.timeout))
    }

    private mutating func post(_ request: [UInt8], over connection: consuming RelayConnection) throws(SocketError) -> Int {
        var connection = connection
        let reader = try connection.exchange(request, until: .now + Self.timeout)
        if reader.keepsConnection { self.connection = .some(connection) }
        return reader.status ?? 0
    }

    private func request(_ body: [UInt8]) -> [UInt8] {
        var head = """
            POST \(url.target) HTTP/1.1\r
            Host: \(url.authority)\r
            User-Agent: gaplessd/\(gaplessdVersion)\r
            Content-Type: application/json\r
            Content-Length: \(body.count)\r

            """
        if let secret {
            head += "X-Gapless-Signature: sha256=\(HMACSHA256.hexadecimal(of: body, key: Array(secret.text.utf8)))\r\n"
        }
        return Array((head + "\r\n").utf8) + body
    }
}
