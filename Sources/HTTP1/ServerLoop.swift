internal import Platform

/// Accepts and serves the connections of one listener. The server's thread owns everything in it.
struct ServerLoop: ~Copyable {
    enum Message: Sendable {
        case respond(connection: Int, StatusResponse)
        case allow(AllowedHosts)
        case stop
    }

    /// Pause after an accept(2) that found no free descriptor or memory: the waiting connection keeps the listener readable.
    private static let acceptPause = Duration.milliseconds(100)
    /// Bytes of one read, and so of one connection's turn.
    private static let readBytes = 4 << 10

    private let listener: Listener
    private let inbox: Mailbox<Message>
    private let profile: ServerProfile
    private let reply: @Sendable (HTTPRequestHead) -> StatusReply?
    private var hosts: AllowedHosts
    private var connections: [HTTPConnection] = []
    private var nextID = 0
    private var acceptsAgain: Instant?
    private var poller = Poller()
    private var buffer = [UInt8](repeating: 0, count: readBytes)

    init(
        _ listener: consuming Listener, _ inbox: Mailbox<Message>, _ profile: ServerProfile, _ hosts: AllowedHosts,
        _ reply: @escaping @Sendable (HTTPRequestHead) -> StatusReply?
    ) {
        self.listener = listener
        self.inbox = inbox
        self.profile = profile
        self.hosts = hosts
        self.reply = reply
    }

    consuming func run() {
        while true {
            let ready = sleep()
            for message in inbox.drain() {
                switch message {
                case .respond(let id, let response): connections.first { $0.id == id }?.send(response)
                case .allow(let hosts): self.hosts = hosts
                case .stop: return
                }
            }
            serve(ready)
            let now = Instant.now
            for connection in connections { connection.tick(now: now) }
            connections.removeAll { $0.phase == .closed }
            accept(now: now)
        }
    }

    /// Sleeps until there is something to do. Returns the connections that are ready.
    private mutating func sleep() -> [HTTPConnection] {
        poller.reset()
        poller.add(inbox.wakeDescriptor, for: .read)
        poller.add(listener.descriptor, for: acceptsAgain == nil ? .read : [])
        for connection in connections { poller.add(connection.descriptor, for: connection.interest) }
        var timer = Earliest(acceptsAgain)
        for connection in connections { timer.consider(connection.deadline) }
        poller.wait(until: timer.instant)
        return connections.indices.filter { !poller.readiness(at: $0 + 2).isEmpty }.map { connections[$0] }
    }

    private mutating func serve(_ ready: [HTTPConnection]) {
        var requests: [(HTTPConnection, HTTPRequestHead)] = []
        for connection in ready {
            switch connection.phase {
            case .reading, .lingering:
                if let head = connection.receive(into: &buffer) { requests.append((connection, head)) }
            case .writing: connection.flush()
            // Asked for nothing, the descriptor is ready only if the connection broke.
            case .waiting: connection.close()
            case .closed: break
            }
        }
        for (connection, head) in requests where head.path == profile.urgentPath { respond(connection, to: head) }
        for (connection, head) in requests where head.path != profile.urgentPath { respond(connection, to: head) }
    }

    private func respond(_ connection: HTTPConnection, to head: HTTPRequestHead) {
        if let refusal = hosts.refusal(of: head, local: connection.local, profile) ?? refusal(of: head) {
            return connection.send(refusal)
        }
        switch reply(head) {
        case nil: connection.send(StatusResponse(status: 404, text: "There is nothing at this path.\n"))
        case .now(let response): connection.send(response)
        case .later(let timeout, let begin, let otherwise):
            connection.wait(until: .now + timeout, otherwise: otherwise)
            begin { [inbox, id = connection.id] response in inbox.send(.respond(connection: id, response)) }
        }
    }

    private func refusal(of head: HTTPRequestHead) -> StatusResponse? {
        if !profile.methods.contains(head.method) {
            let methods = profile.methods.joined(separator: ", ")
            return StatusResponse(status: 405, text: "Only these methods are allowed: \(methods).\n")
        }
        return head.path.hasPrefix("/") ? nil : StatusResponse(status: 400, text: "The request has no path.\n")
    }

    private mutating func accept(now: Instant) {
        if let at = acceptsAgain, now < at { return }
        acceptsAgain = nil
        do throws(SocketError) {
            // More than the limit would only evict each other; the others wait in the backlog for the next turn.
            for _ in 0..<profile.connections {
                guard let socket = try listener.acceptNext() else { return }
                if connections.count >= profile.connections,
                    let victim = ConnectionShare.victim(of: connections.map(ConnectionShare.init))
                {
                    connections.remove(at: victim).close()
                }
                nextID += 1
                connections.append(HTTPConnection(id: nextID, socket, profile, now: now))
            }
        } catch {
            acceptsAgain = now + Self.acceptPause
        }
    }
}

/// One connection: reads one request, writes one response, and waits for the client to close. Used on the server's thread only.
final class HTTPConnection {
    enum Phase {
        case reading
        /// Another thread makes the response.
        case waiting
        case writing
        /// The response is out. Closed now, with bytes unread, the connection would be reset and the response lost.
        case lingering
        case closed
    }

    /// The time for which unexpected bytes are read and dropped after the response.
    private static let lingerTime = Duration.seconds(1)

    let id: Int
    /// `nil` if the client was gone before it could be asked.
    let client: IPAddress?
    let local: IPAddress?
    private(set) var phase = Phase.reading
    private let socket: Socket
    private let profile: ServerProfile
    private var end: Instant
    private var parser: HTTPRequestParser
    private var omitsBody = false
    private var fallback: (at: Instant, response: @Sendable () -> StatusResponse)?
    private var output: [UInt8] = []
    private var written = 0

    init(id: Int, _ socket: consuming Socket, _ profile: ServerProfile, now: Instant) {
        self.id = id
        (local, client) = socket.addresses
        self.socket = socket
        self.profile = profile
        end = now + profile.timeout
        parser = HTTPRequestParser(limit: profile.requestBytes)
    }

    var descriptor: CInt { socket.descriptor }

    var interest: Poller.Readiness {
        switch phase {
        case .reading, .lingering: .read
        case .writing: .write
        case .waiting, .closed: []
        }
    }

    /// The earliest pending timer.
    var deadline: Instant { min(end, fallback?.at ?? end) }

    /// Acts on the timers.
    func tick(now: Instant) {
        if now >= end { return close() }
        if let fallback, now >= fallback.at { send(fallback.response()) }
    }

    /// Reads what has arrived. Returns the request once it is complete; refuses a bad one itself.
    func receive(into buffer: inout [UInt8]) -> HTTPRequestHead? {
        switch unsafe buffer.withUnsafeMutableBytes({ unsafe socket.read(into: $0) }) {
        case .done(let count) where phase == .reading:
            switch parser.receive(buffer[..<count]) {
            case .incomplete: return nil
            case .request(let head):
                omitsBody = head.method == "HEAD"
                return head
            case .refused(let response):
                send(response)
                return nil
            }
        case .done, .needsRead, .needsWrite: return nil
        case .closed, .failed:
            close()
            return nil
        }
    }

    /// Waits for `send`, and sends `response` if nothing was sent by then.
    func wait(until deadline: Instant, otherwise response: @escaping @Sendable () -> StatusResponse) {
        phase = .waiting
        fallback = (deadline, response)
    }

    /// Sends the first response it is given.
    func send(_ response: StatusResponse) {
        guard phase == .reading || phase == .waiting else { return }
        fallback = nil
        output = response.encoded(for: profile, withBody: !omitsBody, now: WallClock.now().unixSeconds)
        phase = .writing
        flush()
    }

    /// Writes as much as the socket takes.
    func flush() {
        while phase == .writing {
            let progress = unsafe output.withUnsafeBytes { unsafe socket.write(UnsafeRawBufferPointer(rebasing: $0[written...])) }
            switch progress {
            case .done(let count):
                written += count
                if written < output.count { continue }
                output = []
                socket.finishWriting()
                phase = .lingering
                end = min(end, .now + Self.lingerTime)
            case .needsRead, .needsWrite: return
            case .closed, .failed: close()
            }
        }
    }

    func close() { phase = .closed }
}

/// One open connection, as far as it matters for the choice of the one that makes room for a new connection.
struct ConnectionShare {
    var client: IPAddress?
    /// Whether its request is complete and the response not yet written.
    var isBusy: Bool

    /// The place of the connection to close: of the client with the most connections, so that no client can keep others out; the
    /// oldest idle one, or the oldest if all are busy. `nil` without connections.
    ///
    /// - Parameter shares: oldest first.
    static func victim(of shares: [ConnectionShare]) -> Int? {
        var counts: [IPAddress?: Int] = [:]
        for share in shares { counts[share.client, default: 0] += 1 }
        let most = counts.values.max()
        let candidates = shares.indices.filter { counts[shares[$0].client] == most }
        return candidates.first { !shares[$0].isBusy } ?? candidates.first
    }
}

extension ConnectionShare {
    init(_ connection: HTTPConnection) {
        self.init(client: connection.client, isBusy: connection.phase == .waiting || connection.phase == .writing)
    }
}
