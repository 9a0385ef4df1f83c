import Glibc
internal import HTTP1
internal import Platform
internal import Synchronization

/// Opens a session from a host name: DNS, TCP, TLS, ALPN, and the peer's first SETTINGS, within one deadline.
///
/// Runs on the session's own thread and may block it; it notices an order to end while it waits.
struct Dial {
    enum Result: ~Copyable {
        case open(Wire, HTTP2Codec, SocketAddress, streams: Int)
        case failed(address: String, SessionError)
        /// The pool has ordered this dial to end.
        case abandoned
    }

    /// The most addresses that one dial tries.
    static let mostAddresses = 4

    let context: SessionContext
    let deadline: Instant

    init(_ context: SessionContext) {
        self.context = context
        deadline = .now + context.configuration.settings.dialTimeout
    }

    var host: String { context.configuration.settings.host }
    var port: Int { context.configuration.settings.port }
    private var proxy: HTTPProxy? { context.configuration.settings.proxy }
    private var name: String { "\(host):\(port)" }

    /// The host whose name is looked up: the proxy resolves the name of APNs.
    private var dialled: (host: String, port: Int) { proxy.map { ($0.host, $0.port) } ?? (host, port) }

    /// Resolves the name for every dial, as Apple asks ("Establishing a connection to APNs"), and tries one address after
    /// another.
    func run() -> Result {
        guard prepareToken() else {
            return .failed(address: name, .dial("the provider token cannot be signed", isCredential: true))
        }
        do throws(SocketError) {
            guard let addresses = try resolve() else { return .abandoned }
            return connect(to: addresses)
        } catch {
            return .failed(address: name, .dial(error.description, isCredential: false))
        }
    }

    /// Prepares the token of a new session. Returns `false` if there is none.
    private func prepareToken() -> Bool {
        // A token that expires soon is renewed now, not while the session is young (docs/design.md, "Provider tokens").
        guard let tokens = context.configuration.tokens else { return true }
        let token = tokens.token(forNewSession: true)
        context.report(tokens)
        guard let token else { return false }
        context.shared.tokenGeneration.store(token.generation, ordering: .relaxed)
        return true
    }

    /// Looks up the addresses of the dialled host. Returns `nil` if the pool has abandoned this dial.
    private func resolve() throws(SocketError) -> [SocketAddress]? {
        guard let wakeUp = WakeUp.ifAvailable(sparing: 0) else { throw .system("eventfd", errno: EMFILE) }
        let answers = Mailbox<NameResolver.Answer>(wakeUp: wakeUp)
        let resolver = context.shared.resolver
        resolver.ask(dialled.host, port: dialled.port, answers: answers)
        defer { resolver.forget(answers) }
        guard try wait(answers.wakeDescriptor, for: .read, until: deadline, "looking up \(dialled.host)") else { return nil }
        return try answers.drain().first?.get()
    }

    /// Tries the addresses in turn until one gives a session.
    private func connect(to addresses: [SocketAddress]) -> Result {
        var left = addresses.shuffled()
        let none = SessionError.dial("\(dialled.host) has no address", isCredential: false)
        var failure = (address: name, fault: none)
        for tried in 0..<Dial.mostAddresses where .now < deadline {
            let chosen = context.shared.addresses.withLock { $0.choose(from: left, now: .now) }
            guard let address = chosen else { break }
            left.removeAll { $0 == address }
            let isLast = left.isEmpty || tried == Dial.mostAddresses - 1
            switch connect(to: address, until: Dial.deadline(of: deadline, isLast: isLast, now: .now)) {
            case .open(let wire, let codec, let address, let streams):
                return .open(wire, codec, address, streams: streams)
            case .abandoned:
                context.shared.addresses.withLock { $0.release(address) }
                return .abandoned
            case .failed(let name, let fault):
                context.shared.addresses.withLock { $0.failed(address, now: .now) }
                failure = (name, fault)
                // Another address would reject the certificate in the same way, or present the same one.
                switch fault {
                case .untrusted, .dial(_, isCredential: true): return .failed(address: failure.address, fault)
                default: break
                }
            }
        }
        return .failed(address: failure.address, failure.fault)
    }

    /// Returns the deadline of one address: half of the remaining time if another address follows, so that an address that
    /// drops packets does not use up the dial.
    static func deadline(of whole: Instant, isLast: Bool, now: Instant) -> Instant {
        isLast ? whole : now + (whole - now) / 2
    }

    private func connect(to address: SocketAddress, until deadline: Instant) -> Result {
        let name = context.name(of: address)
        do throws(SocketError) {
            let socket = try Socket(connectingTo: address)
            guard try wait(socket.descriptor, for: .write, until: deadline, "TCP connection") else { return .abandoned }
            if let code = socket.connectError() { throw .system("connect", errno: code) }
            socket.setUserTimeout(.seconds(20))
            if let proxy {
                guard try openWay(socket, through: proxy, until: deadline) else { return .abandoned }
            }
            let configuration = context.configuration
            let codec = HTTP2Codec(
                authority: configuration.authority, slots: configuration.streams,
                collectsAPNSIDs: configuration.settings.collectsAPNSIDs, topic: configuration.settings.topic)
            var wire = try makeWire(socket)
            guard try handshake(&wire, until: deadline) else { return .abandoned }
            return try firstSettings(wire, codec, address, name, until: deadline)
        } catch {
            return .failed(address: name, Dial.fault(error))
        }
    }

    private func makeWire(_ socket: consuming Socket) throws(SocketError) -> Wire {
        do throws(TLSError) {
            return Wire(try TLSStream(client: socket, host: host, wantedProtocol: "h2", context.configuration.tls))
        } catch { throw .tls(error) }
    }

    private func handshake(_ wire: inout Wire, until deadline: Instant) throws(SocketError) -> Bool {
        while true {
            let interest: Poller.Readiness
            switch wire.handshake() {
            case .done: return true
            case .needsRead: interest = .read
            case .needsWrite: interest = .write
            case .closed: throw .tls(.other("the peer closed the connection during the handshake"))
            case .failed(let error): throw error
            }
            guard try wait(wire.descriptor, for: interest, until: deadline, "TLS handshake") else { return false }
        }
    }

    /// Sends the preface and waits for the peer's SETTINGS (RFC 9113, 3.4). A GOAWAY instead is a failed dial
    /// (jchambers/pushy#831).
    private func firstSettings(
        _ wire: consuming Wire, _ codec: consuming HTTP2Codec, _ address: SocketAddress, _ name: String,
        until deadline: Instant
    ) throws(SocketError) -> Result {
        var events: [HTTP2Event] = []
        while true {
            var hasRead = false
            let reading = wire.read(into: &codec, hasRead: &hasRead)
            codec.takeEvents(into: &events)
            var streams: Int?
            for event in events {
                if case .settings(let limit) = event { streams = limit }
                if case .goAway(_, let code, let debugData) = event {
                    let fault = SessionError.goAway(code: code, reason: ResponseBody(debugData).reason)
                    return .failed(address: name, fault)
                }
            }
            let writing = wire.write(from: &codec)
            for flow in [reading, writing] where flow != .open {
                if case .ended(let error?) = flow { throw error }
                return .failed(address: name, .dial(flow.text, isCredential: false))
            }
            if codec.isOver { return .failed(address: name, .dial(codec.fault, isCredential: false)) }
            if let streams { return .open(wire, codec, address, streams: streams) }
            let interest: Poller.Readiness = wire.interestInWriting ? [.read, .write] : .read
            guard try wait(wire.descriptor, for: interest, until: deadline, "HTTP/2 SETTINGS") else { return .abandoned }
            wire.becameReady()
        }
    }

    /// Sleeps until the descriptor is ready. Returns `false` if the pool has abandoned this dial.
    func wait(
        _ descriptor: CInt, for interest: Poller.Readiness, until deadline: Instant, _ what: String
    ) throws(SocketError) -> Bool {
        var poller = Poller()
        while true {
            poller.reset()
            poller.add(descriptor, for: interest)
            poller.add(context.orders.wakeDescriptor, for: .read)
            poller.wait(until: deadline)
            // A session that is not open has nothing to drain: either order ends it.
            if poller.readiness(at: 1).contains(.read) && !context.orders.drain().isEmpty { return false }
            if !poller.readiness(at: 0).isEmpty { return true }
            if deadline <= .now { throw .timedOut(what) }
        }
    }

    private static func fault(_ error: SocketError) -> SessionError {
        switch error {
        case .tls(.untrusted): .untrusted(error.description)
        case .tls(.ourCertificateRefused): .dial(error.description, isCredential: true)
        default: .dial(error.description, isCredential: false)
        }
    }
}

/// Opens a tunnel through a proxy by a plain HTTP request. After the response to it, every byte comes from the server.
extension Dial {
    /// Sends CONNECT and reads the response. Returns `false` if the pool has abandoned this dial.
    func openWay(_ socket: borrowing Socket, through proxy: HTTPProxy, until deadline: Instant) throws(SocketError) -> Bool {
        var request = proxy.request(host: host, port: port)[...]
        while !request.isEmpty {
            switch unsafe request.withUnsafeBytes({ unsafe socket.write($0) }) {
            case .done(let count): request = request.dropFirst(count)
            case .failed(let error): throw error
            case .closed, .needsRead, .needsWrite:
                guard try wait(socket.descriptor, for: .write, until: deadline, "CONNECT") else { return false }
            }
        }
        var answer = ProxyAnswer()
        var byte: [UInt8] = [0]
        while true {
            switch unsafe byte.withUnsafeMutableBytes({ unsafe socket.read(into: $0) }) {
            case .done:
                switch answer.receive(byte[0]) {
                case .open: return true
                case .refused(let fault): throw Dial.fault(fault, of: proxy)
                case nil: break
                }
            case .failed(let error): throw error
            case .closed: throw Dial.fault(.closed, of: proxy)
            case .needsRead, .needsWrite:
                guard try wait(socket.descriptor, for: .read, until: deadline, "response of the proxy to CONNECT") else {
                    return false
                }
            }
        }
    }

    private static func fault(_ fault: ProxyError, of proxy: HTTPProxy) -> SocketError {
        .refused("the proxy \(proxy): \(fault)")
    }
}

/// Reads the proxy's response to CONNECT byte by byte.
struct ProxyAnswer {
    enum Verdict: Equatable {
        /// The tunnel is open: all further bytes come from the server.
        case open
        case refused(ProxyError)
    }

    /// The largest response in bytes.
    static let mostBytes = 16 << 10

    private var reader = HTTPHeadReader(limit: mostBytes)

    /// Reads one byte. Returns the result once the head of the response is complete.
    ///
    /// It reads single bytes because the first byte after the head belongs to TLS.
    mutating func receive(_ byte: UInt8) -> Verdict? {
        do {
            guard let head = try reader.receive(byte) else { return nil }
            switch head.status {
            case 200..<300: return .open
            // An interim response, such as 100 Continue (RFC 9110, 15.2). No request asks for 101.
            case 100, 102..<200: return nil
            case 407: return .refused(Self.refusal(of: head))
            default: return .refused(.status(head.status, String(head.reason.prefix(100))))
            }
        } catch {
            return .refused(.nonsense)
        }
    }

    private static func refusal(of head: HTTPResponseHead) -> ProxyError {
        let offers = head.values("proxy-authenticate")
        func isOffered(_ scheme: String) -> Bool { offers.contains { $0.hasPrefix(scheme.lowercased()) } }
        let others = ["Negotiate", "NTLM", "Digest", "Bearer"].filter(isOffered)
        return others.isEmpty || isOffered("Basic") ? .credentials : .scheme(others.joined(separator: ", "))
    }
}

/// The reason why a proxy opened no tunnel, for the operator.
enum ProxyError: Error, Equatable, CustomStringConvertible {
    /// 407
    case credentials
    /// 407 that does not offer Basic, but these schemes.
    case scheme(String)
    case status(Int, String)
    /// The response is not HTTP.
    case nonsense
    case closed

    var description: String {
        switch self {
        case .credentials: "407: it requires a user and a password, or rejects the given ones"
        case .scheme(let offers): "407: it accepts only \(offers); expected a proxy that accepts Basic"
        case .status(let status, let phrase): "it refused CONNECT: \(status)\(phrase.isEmpty ? "" : " \(phrase)")"
        case .nonsense: "its response is not HTTP"
        case .closed: "it closed the connection without a response to CONNECT"
        }
    }
}

/// Chooses the address of the next dial. All sessions of a pool share it.
///
/// Apple balances load by DNS, and records can point at dead hosts (jchambers/pushy#1044): sessions spread over distinct
/// addresses, and an address that failed is avoided for a while if there is another.
struct AddressBook: Sendable {
    static let badFor: Duration = .seconds(60)

    private var badUntil: [SocketAddress: Instant] = [:]
    private var sessions: [SocketAddress: Int] = [:]

    /// Chooses among `candidates`, and counts a session on the returned address until `release`.
    ///
    /// Prefers addresses that have not failed, then the least used, then the first.
    ///
    /// - Parameter candidates: in random order.
    mutating func choose(from candidates: [SocketAddress], now: Instant) -> SocketAddress? {
        badUntil = badUntil.filter { $0.value > now }
        let best = candidates.min { left, right in
            let isLeftBad = badUntil[left] != nil
            let isRightBad = badUntil[right] != nil
            if isLeftBad != isRightBad { return isRightBad }
            return sessions[left, default: 0] < sessions[right, default: 0]
        }
        if let best { sessions[best, default: 0] += 1 }
        return best
    }

    /// The session on this address has ended, or never opened.
    mutating func release(_ address: SocketAddress) {
        guard let count = sessions[address] else { return }
        sessions[address] = count > 1 ? count - 1 : nil
    }

    /// The dial to this address failed.
    mutating func failed(_ address: SocketAddress, now: Instant) {
        badUntil[address] = now + AddressBook.badFor
        release(address)
    }
}
