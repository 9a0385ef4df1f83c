internal import Platform

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

    init(id: Int, _ socket: consuming Socket, _ limits: ServerLimits, _ profile: ServerProfile, now: Instant) {
        self.id = id
        (local, client) = socket.addresses
        self.socket = socket
        self.profile = profile
        end = now + limits.timeout
        parser = HTTPRequestParser(limit: limits.requestBytes)
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
