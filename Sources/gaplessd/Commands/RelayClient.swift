import HTTP1
import Platform

/// POSTs batches of results to `relay_url`, over one connection as long as it lasts.
struct RelayClient: ~Copyable {
    /// For the connection, and for the response.
    static let timeout = Duration.seconds(10)

    enum Outcome: Equatable {
        /// The status of the response.
        case response(Int)
        /// The request was sent, and no response came in time.
        case slow(SocketError)
        /// There is no connection, or it ended without a response.
        case lost(SocketError)
    }

    private let url: RelayURL
    private let secret: Secret?
    private let headers: [RelayHeader]
    private let tls: TLSContext?
    private var connection: HTTPClient?

    /// - Parameter tls: `nil` for `http`.
    init(_ url: RelayURL, secret: Secret?, headers: [RelayHeader] = [], tls: TLSContext?) {
        (self.url, self.secret, self.headers, self.tls) = (url, secret, headers, tls)
        connection = nil
    }

    /// Posts a body. A connection that the receiver closed while it was idle, or on which it sent unasked bytes, is replaced.
    ///
    /// - Parameter watch: runs several times per second while the call waits. An error ends the call.
    mutating func post(_ body: [UInt8], watch: () throws(SocketError) -> Void) -> Outcome {
        let request = request(body)
        if var idle = connection.take(), idle.isQuiet {
            let outcome = post(request, over: idle, watch)
            guard case .lost = outcome else { return outcome }
        }
        let new: HTTPClient
        do throws(SocketError) {
            let (host, port) = (url.address.host, url.address.port)
            new = try HTTPClient.open(host: host, port: port, tls: tls, until: .now + Self.timeout, watch: watch)
        } catch {
            return .lost(error)
        }
        return post(request, over: new, watch)
    }

    private mutating func post(
        _ request: [UInt8], over connection: consuming HTTPClient, _ watch: () throws(SocketError) -> Void
    ) -> Outcome {
        var connection = connection
        do throws(SocketError) {
            let reader = try connection.exchange(request, until: .now + Self.timeout, watch: watch)
            if reader.keepsConnection { self.connection = .some(connection) }
            return .response(reader.head?.status ?? 0)
        } catch {
            if case .timedOut = error { return .slow(error) }
            return .lost(error)
        }
    }

    private func request(_ body: [UInt8]) -> [UInt8] {
        var head = """
            POST \(url.target) HTTP/1.1\r
            Host: \(url.authority)\r
            Content-Type: application/json\r
            Content-Length: \(body.count)\r

            """
        if !headers.contains(where: { $0.name.lowercased() == "user-agent" }) {
            head += "User-Agent: gaplessd/\(gaplessdVersion)\r\n"
        }
        for header in headers { head += "\(header.name): \(header.value.text)\r\n" }
        if let secret {
            head += "X-Gapless-Signature: sha256=\(HMACSHA256.hexadecimal(of: body, key: Array(secret.text.utf8)))\r\n"
        }
        return Array((head + "\r\n").utf8) + body
    }
}
