internal import DequeModule
internal import Platform

/// One connection to Redis: commands out, replies in, in the same order. It never blocks.
///
/// Only the parser is hiredis': version 0.14 has no TLS, and cannot be interrupted while it waits.
///
/// `Tag` identifies the command of a reply.
struct RedisConnection<Tag>: ~Copyable {
    struct Sent {
        var tag: Tag
        /// The time at which `send` was called.
        var at: Instant
    }

    struct Incoming {
        var sent: Sent
        var reply: RedisReply
    }

    /// Apart from the tags: a tag is large, and a question about a time would copy it.
    private struct Times {
        var at: Instant
        var due: Instant
    }

    private enum Stage { case dialing, securing, open }

    private var transport: Transport
    private var stage = Stage.dialing
    /// The handshake waits for bytes from the server, not for room to write.
    private var isHandshakeReading = false
    /// Bytes have arrived: the server has accepted our certificate.
    private var hasReceived = false
    private let tls: (context: TLSContext, host: String)?
    private let timeout: Duration
    private let dialDue: Instant
    private var reader = ReplyReader()
    private var inbox = [UInt8](repeating: 0, count: 64 << 10)
    private var outbox: [UInt8] = []
    private var written = 0
    /// Of the commands whose reply the owner has not taken.
    private var tags = Deque<Tag>()
    private var times = Deque<Times>()
    /// Replies that the owner has not taken, without the tags: an element is copied when it is appended, and a tag is large.
    private var replies = Deque<RedisReply>()
    private var place: Int?
    /// When bytes of a reply arrived last, or the peer last took bytes of a backlog.
    private var movedAt: Instant?
    /// The socket has accepted no more bytes of the outbox. Until it is empty, a write shows that the peer reads.
    private var isBacklogged = false

    /// Begins to connect.
    ///
    /// - Parameters:
    ///   - endpoint: with that address. TLS verifies its name.
    ///   - timeout: for the dial and for each reply.
    init(
        to address: SocketAddress, of endpoint: Endpoint, tls: TLSContext?, timeout: Duration, now: Instant
    ) throws(RedisError) {
        let socket = try Self.dial(address)
        socket.setUserTimeout(timeout)
        let host = if case .tcp(let host, _) = endpoint { host } else { "localhost" }
        self.init(socket, tls: tls.map { ($0, host) }, timeout: timeout, dialDue: now + timeout)
    }

    private init(
        _ socket: consuming Socket, tls: (TLSContext, String)?, timeout: Duration, dialDue: Instant
    ) {
        transport = .plain(socket)
        self.tls = tls
        self.timeout = timeout
        self.dialDue = dialDue
    }

    private static func dial(_ address: SocketAddress) throws(RedisError) -> Socket {
        do throws(SocketError) { return try Socket(connectingTo: address) } catch { throw .socket(error) }
    }

    /// Appends a command, which `write` puts into the outbox, and expects its reply.
    ///
    /// - Parameter blocking: the time that a blocking command may take in addition to the timeout.
    mutating func send(
        _ tag: Tag, blocking: Duration = .zero, now: Instant, _ write: (inout [UInt8]) -> Void
    ) {
        write(&outbox)
        tags.append(tag)
        times.append(Times(at: now, due: now + timeout + blocking))
    }

    /// When the oldest command without a reply was sent.
    var oldest: Instant? { times.first?.at }

    mutating func addInterest(to poller: inout Poller) {
        let wantsWrite =
            switch stage {
            case .dialing: true
            case .securing: !isHandshakeReading
            case .open: written < outbox.count
            }
        place = poller.add(transport.descriptor, for: wantsWrite ? [.read, .write] : .read)
    }

    /// The time at which the dial or the oldest reply is overdue. A reply is not overdue while bytes move: a large one takes long
    /// on a slow link.
    var deadline: Instant? {
        mutating get {
            if stage != .open { return dialDue }
            guard let due = times.first?.due else { return nil }
            return movedAt.map { max(due, $0 + timeout) } ?? due
        }
    }

    /// Reads all bytes that have arrived. `next` returns the replies. Throws when the connection cannot be used any more.
    mutating func receive(_ poller: borrowing Poller, now: Instant) throws(RedisError) {
        let isOverdue = deadline.map { now >= $0 } ?? false
        // Without a place the descriptor was not in this round of polling.
        guard let place = place.take() else { return }
        let isReady = !poller.readiness(at: place).isEmpty
        if isReady || isOverdue || transport.hasPending {
            // SO_ERROR of a socket that is not ready is 0, as if it were connected.
            if stage != .open && isReady { try advanceDial() }
            if stage == .open { try read(now: now) }
        }
        // Checked only after the read: while the process was stopped, the reply may have arrived.
        if isOverdue, let deadline, now >= deadline {
            switch stage {
            case .dialing: throw .timedOut(.connecting)
            case .securing: throw .timedOut(.tlsHandshake)
            case .open: throw .timedOut(.reply)
            }
        }
    }

    /// Takes the next reply.
    mutating func next() -> Incoming? {
        guard let reply = replies.popFirst() else { return nil }
        return Incoming(sent: Sent(tag: tags.removeFirst(), at: times.removeFirst().at), reply: reply)
    }

    /// Writes the outbox, as far as the socket accepts it.
    mutating func flush(now: Instant) throws(RedisError) {
        guard stage == .open else { return }
        while written < outbox.count {
            switch transport.write(outbox, from: written) {
            case .done(let count):
                written += count
                if isBacklogged { movedAt = now }
            case .needsRead, .needsWrite:
                isBacklogged = true
                return
            case .closed: throw reasonToClose() ?? .closed
            case .failed(let error): throw reasonToClose() ?? .socket(error)
            }
        }
        isBacklogged = false
        if written == 0 { return }
        written = 0
        outbox.removeAll(keepingCapacity: outbox.capacity <= 1 << 20)
    }

    private mutating func advanceDial() throws(RedisError) {
        if stage == .dialing {
            if let code = transport.connectError() { throw .socket(.system("connect", errno: code)) }
            try secure()
        }
        guard stage == .securing else { return }
        switch transport.handshake() {
        case .done: stage = .open
        case .needsRead: isHandshakeReading = true
        case .needsWrite: isHandshakeReading = false
        case .closed: throw .closed
        case .failed(let error): throw .socket(error)
        }
    }

    private mutating func secure() throws(RedisError) {
        guard let tls else {
            stage = .open
            return
        }
        do throws(TLSError) {
            try transport.secure(host: tls.host, tls.context)
        } catch {
            throw .socket(.tls(error))
        }
        stage = .securing
    }

    /// A server that refuses our certificate sends an alert and closes (RFC 8446, 6.2). When a write fails, the alert is still
    /// unread.
    private mutating func reasonToClose() -> RedisError? {
        if hasReceived { return nil }
        if case .failed(.tls(let failure)) = transport.read(into: &inbox) { return .socket(.tls(failure)) }
        return nil
    }

    private mutating func read(now: Instant) throws(RedisError) {
        while true {
            switch transport.read(into: &inbox) {
            case .done(let count):
                hasReceived = true
                movedAt = now
                reader.feed(inbox, count: count)
                while let reply = try reader.next() {
                    if replies.count == tags.count { throw .notRedis("a reply without a command") }
                    replies.append(reply)
                }
                if count < inbox.count && !transport.hasPending { return }
            case .needsRead, .needsWrite: return
            case .closed: throw .closed
            case .failed(let error): throw .socket(error)
            }
        }
    }
}
