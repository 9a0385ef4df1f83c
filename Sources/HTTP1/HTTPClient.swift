public import Platform

/// One connection to a server: sends a request and waits for its response. Blocks, within its deadlines.
///
/// While it waits, it calls the `watch` of its caller every `step`. An error of `watch` ends the wait.
public struct HTTPClient: ~Copyable {
    private static let step = Duration.milliseconds(100)
    private static let names = NameResolver(thread: "http-names")

    private var transport: Transport
    private var poller = Poller()
    private var buffer = [UInt8](repeating: 0, count: 16 << 10)

    /// Connects to the first address that accepts.
    ///
    /// - Parameter tls: for `https`.
    public static func open(
        host: String, port: Int, tls: TLSContext?, until deadline: Instant, watch: () throws(SocketError) -> Void = {}
    ) throws(SocketError) -> HTTPClient {
        let addresses = try names.addresses(of: host, port: port, until: deadline, every: step, watch: watch)
        var failure = SocketError.unresolvable(host: host, reason: "no address")
        for (index, address) in addresses.enumerated() {
            // An address that drops packets does not use up the time of the next one.
            let end = index == addresses.count - 1 ? deadline : .now + (deadline - .now) / 2
            do throws(SocketError) {
                return try open(to: address, host: host, tls: tls, until: end, watch)
            } catch {
                failure = error
                try watch()
            }
        }
        throw failure
    }

    private init(_ socket: consuming Socket) { transport = .plain(socket) }

    private static func open(
        to address: SocketAddress, host: String, tls: TLSContext?, until deadline: Instant,
        _ watch: () throws(SocketError) -> Void
    ) throws(SocketError) -> HTTPClient {
        var connection = HTTPClient(try Socket(connectingTo: address))
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
    public var isQuiet: Bool {
        mutating get {
            guard case .needsRead = transport.read(into: &buffer) else { return false }
            return true
        }
    }

    /// Returns the complete response to a request.
    public mutating func exchange(
        _ request: [UInt8], keepsBody: Bool = false, until deadline: Instant, watch: () throws(SocketError) -> Void = {}
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
        var reader = HTTPResponseReader(keepsBody: keepsBody)
        while reader.head == nil {
            switch transport.read(into: &buffer) {
            case .done(let count): reader.receive(buffer[..<count])
            case .needsRead: try wait(for: .read, until: deadline, "response", watch)
            case .needsWrite: try wait(for: .write, until: deadline, "response", watch)
            case .closed: reader.ended()
            case .failed(let error): throw error
            }
            if reader.head == nil { try check(deadline, "response", watch) }
            if reader.isBroken { throw .refused(reader.isEmpty ? "closed without a response" : "the response is not HTTP/1.1") }
        }
        return reader
    }

    /// A peer that always has some more bytes does not extend the deadline.
    private func check(_ deadline: Instant, _ what: String, _ watch: () throws(SocketError) -> Void) throws(SocketError) {
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
