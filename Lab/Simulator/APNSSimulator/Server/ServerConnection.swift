import Platform

/// A client: its TLS stream, HTTP/2 session and credentials. Owned by the loop.
final class ServerConnection {
    enum Phase {
        case handshaking, open
        /// Closes after the remaining streams and the output are done.
        case closing
        /// All output is sent. Reads until the client closes: a close with unread bytes sends RST, and the client may lose
        /// the GOAWAY and answers.
        case lingering
        /// Ready to be closed.
        case over
    }

    /// TLS records read per turn, so that other connections are served.
    private static let recordsPerTurn = 16
    /// Bytes of output above which the connection is not read.
    private static let outputLimit = 4 << 20
    /// The longest time in the phase `lingering`.
    static let lingerLimit = Duration.seconds(5)
    /// The time for which a deaf connection keeps its descriptor. Its hang-up is not reported.
    static let deafLimit = Duration.seconds(120)

    let number: Int
    private var tls: TLSStream
    var phase = Phase.handshaking
    private(set) var http: HTTP2Server?
    var peer: Peer
    var output: [UInt8] = []
    private var written = 0
    private var recordBytes = 16384
    private var events: [HTTP2Server.Event] = []
    var requestCount = 0
    /// The time of the last request.
    var lastRequest = Instant.now
    /// The connection was idle for too long; every answer reports it.
    var isStale = false
    var hasIdleCheck = false
    var highestAccepted: Int32 = 0
    /// The stream limit was raised after the first accepted push, or need not be raised.
    var isTrusted = false
    /// The current limit of a limit walk.
    var walkingLimit: UInt32?
    var hasLimitCheck = false
    /// The next window of a window walk is scheduled.
    var hasWindowCheck = false
    private var isMute = false
    /// Open requests stay unanswered after a GOAWAY.
    var endsAbruptly = false
    /// No longer read or written, and removed from epoll.
    private(set) var isDeaf = false
    private(set) var wantsWrite = false
    /// In the loop's list of connections to flush.
    var isTouched = false
    /// The interest in epoll; `nil` after removal.
    var interest: EventQueue.Interest? = .read

    init(number: Int, _ tls: consuming TLSStream, environment: PushEnvironment) {
        self.number = number
        self.tls = tls
        peer = Peer(certificate: nil, tokens: ProviderTokenGate(environment: environment))
    }

    var descriptor: CInt { tls.descriptor }
    var isOver: Bool { phase == .over }
    private var isHandshaking: Bool { phase == .handshaking }
    /// The handshake was completed.
    var wasOpen: Bool { http != nil }
    var wantsRead: Bool { output.count - written < ServerConnection.outputLimit }

    /// Reads the available bytes and appends the answers to the output.
    func advance(_ context: ServerContext, _ buffer: UnsafeMutableRawBufferPointer) {
        if isDeaf { return }
        if isHandshaking { shakeHands(context) }
        guard !isHandshaking, !isOver, wantsRead else { return }
        for _ in 0..<ServerConnection.recordsPerTurn {
            switch unsafe tls.read(into: buffer) {
            case .done(let count):
                if phase == .lingering { continue }
                unsafe receive(UnsafeRawBufferPointer(rebasing: buffer[..<count]), context)
                if isOver || isDeaf { return }
            case .needsRead: return
            case .needsWrite:
                wantsWrite = true
                return
            case .closed, .failed:
                finish(isReset: false)
                return
            }
        }
    }

    /// Writes as much as possible, in full records.
    func flush(_ context: ServerContext) {
        guard let http, !isMute, !isDeaf, phase == .open || phase == .closing else { return }
        http.pump(into: &output)
        wantsWrite = false
        while written < output.count {
            let status = unsafe output.withUnsafeBytes { bytes in
                unsafe tls.write(UnsafeRawBufferPointer(rebasing: bytes[written...].prefix(recordBytes)))
            }
            switch status {
            case .done(let count): written += count
            case .needsRead, .needsWrite:
                wantsWrite = true
                return
            case .closed, .failed: return finish(isReset: false)
            }
        }
        output.removeAll(keepingCapacity: true)
        written = 0
        let isDone = phase == .closing && (endsAbruptly || http.openStreams == 0)
        if http.isOver || isDone { linger(context) }
    }

    /// Ends the connection, cleanly or with RST.
    func finish(isReset: Bool) {
        if isOver { return }
        if isReset { SocketClosing.resetOnClose(tls.descriptor) } else if !isHandshaking && !isDeaf { tls.shutdown() }
        phase = .over
    }

    /// Stops reading and writing, as after a pulled cable.
    func goDeaf(_ context: ServerContext) {
        isDeaf = true
        context.due.add((number, .endOfLinger), at: context.now + ServerConnection.deafLimit)
    }

    private func linger(_ context: ServerContext) {
        context.due.add((number, .endOfLinger), at: context.now + ServerConnection.lingerLimit)
        tls.shutdown()
        SocketClosing.endWriting(tls.descriptor)
        phase = .lingering
    }

    // MARK: The handshake

    private func shakeHands(_ context: ServerContext) {
        wantsWrite = false
        switch tls.handshake() {
        case .done: open(context)
        case .needsRead: break
        case .needsWrite: wantsWrite = true
        case .closed, .failed:
            context.writer.totals.failedHandshakes += 1
            phase = .over
        }
    }

    private func open(_ context: ServerContext) {
        let behaviour = context.behaviour
        peer.certificate = tls.peerCertificateDER.map { ClientCertificate(der: $0, environment: context.environment) }
        isTrusted = peer.certificate != nil || behaviour.tokenStreamLimit == behaviour.streamLimit
        let http = HTTP2Server(withholdsWindowUpdates: behaviour.withholdsWindowUpdates)
        self.http = http
        phase = .open
        lastRequest = context.now
        context.writer.totals.connections += 1
        context.writer.totals.openConnections += 1
        http.streamLimit = Int(currentLimit(behaviour))
        adopt(behaviour, context)
        switch context.draws(behaviour.greetingShare) ? behaviour.greeting : .settings {
        case .settings:
            http.submitSettings(streams: currentLimit(behaviour), isFirst: true, initialWindow: behaviour.initialWindow)
        // The tarpit was enabled during this handshake.
        case .nothing, .tarpit: isMute = true
        case .goAway(let frame): goAway(frame, answering: nil, context)
        }
    }

    func currentLimit(_ behaviour: Behaviour) -> UInt32 {
        isTrusted ? walkingLimit ?? behaviour.streamLimit : behaviour.tokenStreamLimit
    }

    /// Applies a behaviour to an open connection, and announces a changed limit.
    func adopt(_ behaviour: Behaviour, _ context: ServerContext) {
        guard let http, phase == .open else { return }
        http.splitsFrames = behaviour.splitsFrames
        recordBytes = max(1, min(behaviour.recordBytes, 16384))
        scheduleChecks(behaviour, context)
        let limit = currentLimit(behaviour)
        if http.streamLimit != Int(limit) { http.submitSettings(streams: limit, isFirst: false) }
    }

    // MARK: Input

    private func receive(_ bytes: UnsafeRawBufferPointer, _ context: ServerContext) {
        guard let http else { return }
        events.removeAll(keepingCapacity: true)
        let isHTTP2 = unsafe http.receive(bytes, &events)
        let counts = http.takeCounts()
        context.writer.totals.headerBytes += counts.headerBytes
        context.writer.totals.priorityFrames += counts.priorityFrames
        context.writer.totals.limitViolations += counts.limitViolations
        for event in events {
            switch event {
            case .request(let slot, let stream):
                if http.isOpen(slot: slot, stream: stream) { answer(slot, http, context) }
            case .overLimit(let stream): refuse(stream, http, context)
            case .ping(let opaque):
                if !context.behaviour.ignoresPings { http.acknowledgePing(opaque) }
            case .violation:
                context.writer.totals.violations += 1
                context.writer.totals.goAways += 1
                http.terminate()
            }
            if isOver || isDeaf { return }
        }
        if !isHTTP2 { finish(isReset: false) }
    }

    private func refuse(_ stream: Int32, _ http: HTTP2Server, _ context: ServerContext) {
        context.writer.totals.refusedStreams += 1
        switch context.behaviour.overLimit {
        case .refuse: http.reset(stream: stream, code: 7)  // REFUSED_STREAM
        case .refuseTwice:
            http.reset(stream: stream, code: 7)
            http.resetAgain(stream: stream, code: 5)  // STREAM_CLOSED
        case .goAway:
            // Earlier streams are answered. This one and later ones were not processed.
            if phase == .open { sendGoAway(.tooManyStreams, before: stream, context) }
        }
    }
}
