import Glibc
import JSONBytes
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
    private var connection: RelayConnection?

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
        let new: RelayConnection
        do throws(SocketError) {
            new = try RelayConnection.open(to: url, tls: tls, until: .now + Self.timeout, watch: watch)
        } catch {
            return .lost(error)
        }
        return post(request, over: new, watch)
    }

    private mutating func post(
        _ request: [UInt8], over connection: consuming RelayConnection, _ watch: () throws(SocketError) -> Void
    ) -> Outcome {
        var connection = connection
        do throws(SocketError) {
            let reader = try connection.exchange(request, until: .now + Self.timeout, watch: watch)
            if reader.keepsConnection { self.connection = .some(connection) }
            return .response(reader.status ?? 0)
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

/// One connection to the receiver of results: sends a request and waits for its response. Blocks, within its deadlines.
///
/// While it waits, it calls the `watch` of its caller every `step`. An error of `watch` ends the wait.
struct RelayConnection: ~Copyable {
    private static let step = Duration.milliseconds(100)
    private static let names = NameResolver(thread: "relay-names")

    private var transport: Transport
    private var poller = Poller()
    private var buffer = [UInt8](repeating: 0, count: 16 << 10)

    /// Connects to the first address that accepts, with TLS for `https`.
    static func open(
        to url: RelayURL, tls: TLSContext?, until deadline: Instant, watch: () throws(SocketError) -> Void = {}
    ) throws(SocketError) -> RelayConnection {
        let addresses = try addresses(of: url, until: deadline, watch)
        var failure = SocketError.unresolvable(host: url.address.host, reason: "no address")
        for (index, address) in addresses.enumerated() {
            // An address that drops packets does not use up the time of the next one.
            let end = index == addresses.count - 1 ? deadline : .now + (deadline - .now) / 2
            do throws(SocketError) {
                return try open(to: address, host: url.address.host, tls: tls, until: end, watch)
            } catch {
                failure = error
                try watch()
            }
        }
        throw failure
    }

    private static func addresses(
        of url: RelayURL, until deadline: Instant, _ watch: () throws(SocketError) -> Void
    ) throws(SocketError) -> [SocketAddress] {
        let (host, port) = (url.address.host, url.address.port)
        if let address = SocketAddress.numeric(host: host, port: port) { return [address] }
        let answers: Mailbox<NameResolver.Answer>
        do throws(ThreadError) {
            answers = Mailbox(wakeUp: try WakeUp(thread: "relay-names"))
        } catch {
            throw .unresolvable(host: host, reason: error.description)
        }
        names.ask(host, port: port, answers: answers)
        defer { names.forget(answers) }
        var poller = Poller()
        poller.add(answers.wakeDescriptor, for: .read)
        while .now < deadline {
            poller.wait(until: min(deadline, .now + step))
            if let answer = answers.drain().first { return try answer.get() }
            try watch()
        }
        throw .timedOut("looking up \(host)")
    }

    private init(_ socket: consuming Socket) { transport = .plain(socket) }

    private static func open(
        to address: SocketAddress, host: String, tls: TLSContext?, until deadline: Instant,
        _ watch: () throws(SocketError) -> Void
    ) throws(SocketError) -> RelayConnection {
        var connection = RelayConnection(try Socket(connectingTo: address))
        try connection.wait(for: .write, until: deadline, "connection to \(address)", watch)
        if let code = connection.transport.connectError() { throw .system("connect to \(address)", errno: code) }
        if let tls { try connection.secure(host: host, tls, until: deadline, watch) }
        return connection
    }

    private mutating func secure(
        host: String, _ tls: TLSContext, until deadline: Instant, _ watch: () throws(SocketError) -> Void
    ) throws(SocketError) {
        do throws(TLSError) { try transport.secure(host: host, tls) } catch { throw .tls(error) }
        while true {
            switch transport.handshake() {
            case .done: return
            case .needsRead: try wait(for: .read, until: deadline, "TLS handshake", watch)
            case .needsWrite: try wait(for: .write, until: deadline, "TLS handshake", watch)
            case .closed: throw .tls(.other("the peer closed the connection during the handshake"))
            case .failed(let error): throw error
            }
        }
    }

    /// Whether nothing has arrived since the last response, and the peer has not closed the connection. A client must not take
    /// unasked bytes for a response to its next request (RFC 9112, 9.2).
    var isQuiet: Bool {
        mutating get {
            guard case .needsRead = transport.read(into: &buffer) else { return false }
            return true
        }
    }

    /// Returns the response to a request.
    mutating func exchange(
        _ request: [UInt8], until deadline: Instant, watch: () throws(SocketError) -> Void = {}
    ) throws(SocketError) -> HTTPResponseReader {
        var written = 0
        while written < request.count {
            switch transport.write(request, from: written) {
            case .done(let count): written += count
            case .needsRead: try wait(for: .read, until: deadline, "request", watch)
            case .needsWrite: try wait(for: .write, until: deadline, "request", watch)
            case .closed: throw .refused("the receiver closed the connection")
            case .failed(let error): throw error
            }
            try check(deadline, "request", watch)
        }
        var reader = HTTPResponseReader()
        while reader.status == nil {
            switch transport.read(into: &buffer) {
            case .done(let count): reader.receive(buffer[..<count])
            case .needsRead: try wait(for: .read, until: deadline, "response", watch)
            case .needsWrite: try wait(for: .write, until: deadline, "response", watch)
            case .closed: reader.ended()
            case .failed(let error): throw error
            }
            if reader.status == nil { try check(deadline, "response", watch) }
            if reader.isBroken { throw .refused(reader.isEmpty ? "closed without a response" : "the response is not HTTP/1.1") }
        }
        return reader
    }

    /// A peer that always has some more bytes does not extend the deadline.
    private func check(
        _ deadline: Instant, _ what: String, _ watch: () throws(SocketError) -> Void
    ) throws(SocketError) {
        if deadline <= .now { throw .timedOut(what) }
        try watch()
    }

    private mutating func wait(
        for interest: Poller.Readiness, until deadline: Instant, _ what: String, _ watch: () throws(SocketError) -> Void
    ) throws(SocketError) {
        poller.reset()
        let place = poller.add(transport.descriptor, for: interest)
        poller.wait(until: min(deadline, .now + Self.step))
        if !poller.readiness(at: place).isEmpty { return }
        if deadline <= .now { throw .timedOut(what) }
        try watch()
    }
}
