import Clocks
import Sockets

/// One client: its TLS stream, its HTTP/2 session and what it has shown of itself. Made, used and freed by the loop.
final class ServerConnection {
    enum Phase {
        case handshaking, open
        /// Closes once the streams that are left and the output are done.
        case closing
        /// Everything is said. Reads on until the client hangs up: a close with bytes unread would send RST, which takes
        /// back what the client has not read yet, GOAWAY and answers.
        case lingering
        /// To be closed now.
        case over
    }

    /// Records read in one turn before the others have theirs.
    private static let recordsPerTurn = 16
    /// A client that does not read its answers is not read either, beyond so many bytes.
    private static let outputLimit = 4 << 20
    /// A client that does not hang up is left all the same.
    static let lingerLimit = Duration.seconds(5)
    /// One that is deaf keeps its descriptor for so long: nobody hears the client hang up.
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
    /// When something was last asked.
    var lastRequest = Instant.now
    /// It was idle for too long, and every answer says so.
    var isStale = false
    var hasIdleCheck = false
    var highestAccepted: Int32 = 0
    /// The limit was raised after the first accepted push (or needs no raising).
    var isTrusted = false
    /// What a limit that wanders has come to.
    var wanderingLimit: UInt32?
    var hasLimitCheck = false
    private var isMute = false
    /// A GOAWAY said so: what is unanswered stays so.
    var endsAbruptly = false
    /// Neither read nor written any more, and out of epoll.
    private(set) var isDeaf = false
    private(set) var wantsWrite = false
    /// Stands in the loop's list of connections to flush.
    var isTouched = false
    /// What the loop last told epoll; `nil` once it has left.
    var interest: EventQueue.Interest? = .read

    init(number: Int, _ tls: consuming TLSStream, environment: PushEnvironment) {
        self.number = number
        self.tls = tls
        peer = Peer(certificate: nil, tokens: ProviderTokenGate(environment: environment))
    }

    var descriptor: CInt { tls.descriptor }
    var isOver: Bool { phase == .over }
    private var isHandshaking: Bool { phase == .handshaking }
    /// Its handshake was completed, whatever came after.
    var wasOpen: Bool { http != nil }
    var wantsRead: Bool { output.count - written < ServerConnection.outputLimit }

    /// Reads what is there and answers it into the output.
    func advance(_ desk: AnswerDesk, _ buffer: UnsafeMutableRawBufferPointer) {
        if isDeaf { return }
        if isHandshaking { shakeHands(desk) }
        guard !isHandshaking, !isOver, wantsRead else { return }
        for _ in 0..<ServerConnection.recordsPerTurn {
            switch tls.read(into: buffer) {
            case .done(let count):
                if phase == .lingering { continue }
                receive(UnsafeRawBufferPointer(rebasing: buffer[..<count]), desk)
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

    /// Writes what it can, in whole records while there is more than one.
    func flush(_ desk: AnswerDesk) {
        guard let http, !isMute, !isDeaf, phase == .open || phase == .closing else { return }
        http.pump(into: &output)
        wantsWrite = false
        while written < output.count {
            let status = output.withUnsafeBytes { bytes in
                tls.write(UnsafeRawBufferPointer(rebasing: bytes[written...].prefix(recordBytes)))
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
        if http.isOver || isDone { linger(desk) }
    }

    /// Ends it in good order, as far as TLS lets itself be told.
    func finish(isReset: Bool) {
        if isOver { return }
        if isReset { resetOnClose(tls.descriptor) } else if !isHandshaking && !isDeaf { tls.shutdown() }
        phase = .over
    }

    /// From here on it is as if the cable were pulled.
    func goDeaf(_ desk: AnswerDesk) {
        isDeaf = true
        desk.due.add((number, .endOfLinger), at: desk.now + ServerConnection.deafLimit)
    }

    private func linger(_ desk: AnswerDesk) {
        desk.due.add((number, .endOfLinger), at: desk.now + ServerConnection.lingerLimit)
        tls.shutdown()
        endWriting(tls.descriptor)
        phase = .lingering
    }

    // MARK: The handshake

    private func shakeHands(_ desk: AnswerDesk) {
        wantsWrite = false
        switch tls.handshake() {
        case .done: open(desk)
        case .needsRead: break
        case .needsWrite: wantsWrite = true
        case .closed, .failed:
            desk.writer.totals.failedHandshakes += 1
            phase = .over
        }
    }

    private func open(_ desk: AnswerDesk) {
        let behaviour = desk.behaviour
        peer.certificate = tls.peerCertificateDER.map { ClientCertificate(der: $0, environment: desk.environment) }
        isTrusted = peer.certificate != nil || behaviour.tokenStreamLimit == behaviour.streamLimit
        let http = HTTP2Server(withholdsWindowUpdates: behaviour.withholdsWindowUpdates)
        self.http = http
        phase = .open
        lastRequest = desk.now
        desk.writer.totals.connections += 1
        desk.writer.totals.openConnections += 1
        http.streamLimit = Int(currentLimit(behaviour))
        adopt(behaviour, desk)
        switch desk.draws(behaviour.greetingShare) ? behaviour.greeting : .settings {
        case .settings:
            http.submitSettings(streams: currentLimit(behaviour), isFirst: true, initialWindow: behaviour.initialWindow)
        // A tarpit opened while this one was shaking hands: the best it can do is to say nothing.
        case .nothing, .tarpit: isMute = true
        case .goAway(let frame): goAway(frame, answering: nil, desk)
        }
    }

    func currentLimit(_ behaviour: Behaviour) -> UInt32 {
        isTrusted ? wanderingLimit ?? behaviour.streamLimit : behaviour.tokenStreamLimit
    }

    /// Takes over what concerns an open connection, and tells the client a limit that has changed.
    func adopt(_ behaviour: Behaviour, _ desk: AnswerDesk) {
        guard let http, phase == .open else { return }
        http.splitsFrames = behaviour.splitsFrames
        recordBytes = max(1, min(behaviour.recordBytes, 16384))
        scheduleChecks(behaviour, desk)
        let limit = currentLimit(behaviour)
        if http.streamLimit != Int(limit) { http.submitSettings(streams: limit, isFirst: false) }
    }

    // MARK: What comes in

    private func receive(_ bytes: UnsafeRawBufferPointer, _ desk: AnswerDesk) {
        guard let http else { return }
        events.removeAll(keepingCapacity: true)
        let isHTTP2 = http.receive(bytes, &events)
        let counts = http.takeCounts()
        desk.writer.totals.headerBytes += counts.headerBytes
        desk.writer.totals.priorityFrames += counts.priorityFrames
        desk.writer.totals.limitViolations += counts.limitViolations
        for event in events {
            switch event {
            case .request(let slot, let stream):
                if http.isOpen(slot: slot, stream: stream) { answer(slot, http, desk) }
            case .overLimit(let stream): refuse(stream, http, desk)
            case .ping(let opaque):
                if !desk.behaviour.ignoresPings { http.acknowledgePing(opaque) }
            case .violation:
                desk.writer.totals.violations += 1
                desk.writer.totals.goAways += 1
                http.terminate()
            }
            if isOver || isDeaf { return }
        }
        if !isHTTP2 { finish(isReset: false) }
    }

    private func refuse(_ stream: Int32, _ http: HTTP2Server, _ desk: AnswerDesk) {
        desk.writer.totals.refusedStreams += 1
        switch desk.behaviour.overLimit {
        case .refuse: http.reset(stream: stream, code: 7)  // REFUSED_STREAM
        case .refuseTwice:
            http.reset(stream: stream, code: 7)
            http.resetAgain(stream: stream, code: 5)  // STREAM_CLOSED
        case .goAway:
            // Those begun before this one are answered; this one and what follows were never looked at.
            if phase == .open { sendGoAway(.tooManyStreams, before: stream, desk) }
        }
    }
}
