import Glibc
import Sockets
import SystemTime
import Threads

/// One connection to the receiver of results: sends a request and waits for its response. Blocks, within its deadlines.
struct RelayConnection: ~Copyable {
    private var transport: Transport
    private var poller = Poller()
    private var buffer = [UInt8](repeating: 0, count: 16 << 10)

    /// Connects to the first address that accepts, with TLS for `https`.
    static func open(to url: RelayURL, tls: TLSContext?, until deadline: Instant) throws(SocketError) -> RelayConnection {
        let addresses = try SocketAddress.resolve(host: url.address.host, port: url.address.port)
        var failure = SocketError.unresolvable(host: url.address.host, reason: "no address")
        for (index, address) in addresses.enumerated() {
            // An address that drops packets does not use up the time of the next one.
            let end = index == addresses.count - 1 ? deadline : .now + (deadline - .now) / 2
            do throws(SocketError) {
                return try open(to: address, host: url.address.host, tls: tls, until: end)
            } catch {
                failure = error
            }
        }
        throw failure
    }

    private init(_ socket: consuming Socket) { transport = .plain(socket) }

    private static func open(
        to address: SocketAddress, host: String, tls: TLSContext?, until deadline: Instant
    ) throws(SocketError) -> RelayConnection {
        var connection = RelayConnection(try Socket(connectingTo: address))
        try connection.wait(for: .write, until: deadline, "connection to \(address)")
        if let code = connection.transport.connectError() { throw .system("connect to \(address)", errno: code) }
        if let tls { try connection.secure(host: host, tls, until: deadline) }
        return connection
    }

    private mutating func secure(host: String, _ tls: TLSContext, until deadline: Instant) throws(SocketError) {
        do throws(TLSError) { try transport.secure(host: host, tls) } catch { throw .tls(error) }
        while true {
            switch transport.handshake() {
            case .done: return
            case .needsRead: try wait(for: .read, until: deadline, "TLS handshake")
            case .needsWrite: try wait(for: .write, until: deadline, "TLS handshake")
            case .closed: throw .tls(.other("the peer closed the connection during the handshake"))
            case .failed(let error): throw error
            }
        }
    }

    /// Returns the response to a request.
    mutating func exchange(_ request: [UInt8], until deadline: Instant) throws(SocketError) -> HTTPResponseReader {
        var written = 0
        while written < request.count {
            switch transport.write(request, from: written) {
            case .done(let count): written += count
            case .needsRead: try wait(for: .read, until: deadline, "request")
            case .needsWrite: try wait(for: .write, until: deadline, "request")
            case .closed: throw .refused("the receiver closed the connection")
            case .failed(let error): throw error
            }
            try check(deadline, "request")
        }
        var reader = HTTPResponseReader()
        while reader.status == nil {
            switch transport.read(into: &buffer) {
            case .done(let count): reader.receive(buffer[..<count])
            case .needsRead: try wait(for: .read, until: deadline, "response")
            case .needsWrite: try wait(for: .write, until: deadline, "response")
            case .closed: reader.ended()
            case .failed(let error): throw error
            }
            if reader.status == nil { try check(deadline, "response") }
            if reader.isBroken { throw .refused(reader.isEmpty ? "closed without a response" : "the response is not HTTP/1.1") }
        }
        return reader
    }

    /// A peer that always has some more bytes does not extend the deadline.
    private func check(_ deadline: Instant, _ what: String) throws(SocketError) {
        if deadline <= .now { throw .timedOut(what) }
    }

    private mutating func wait(
        for interest: Poller.Readiness, until deadline: Instant, _ what: String
    ) throws(SocketError) {
        poller.reset()
        let place = poller.add(transport.descriptor, for: interest)
        poller.wait(until: deadline)
        if poller.readiness(at: place).isEmpty, deadline <= .now { throw .timedOut(what) }
    }
}
