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

    /// One TLS record holds so many bytes.
    private static let recordBytes = 16384
    /// Records read in one turn before the others have theirs.
    private static let recordsPerTurn = 16
    /// A client that does not read its answers is not read either, beyond so many bytes.
    private static let outputLimit = 4 << 20
    /// A client that does not hang up is left all the same.
    static let lingerLimit = Duration.seconds(5)

    let number: Int
    private var tls: TLSStream
    private(set) var phase = Phase.handshaking
    private var http: HTTP2Server?
    private var peer: Peer
    private var output: [UInt8] = []
    private var written = 0
    private var events: [HTTP2Server.Event] = []
    private var requestCount = 0
    private var highestAccepted: Int32 = 0
    /// The limit was raised after the first accepted push (or needs no raising).
    private var isTrusted = false
    private var isMute = false
    private(set) var wantsWrite = false
    /// Stands in the loop's list of connections to flush.
    var isTouched = false
    /// What the loop last told epoll.
    var interest: EventQueue.Interest = .read

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
        if isHandshaking { shakeHands(desk) }
        guard !isHandshaking, !isOver, wantsRead else { return }
        for _ in 0..<ServerConnection.recordsPerTurn {
            switch tls.read(into: buffer) {
            case .done(let count):
                if phase == .lingering { continue }
                receive(UnsafeRawBufferPointer(rebasing: buffer[..<count]), desk)
                if isOver { return }
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
        guard let http, !isMute, phase == .open || phase == .closing else { return }
        http.pump(into: &output)
        wantsWrite = false
        while written < output.count {
            let status = output.withUnsafeBytes { bytes in
                tls.write(UnsafeRawBufferPointer(rebasing: bytes[written...].prefix(ServerConnection.recordBytes)))
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
        if http.isOver || (phase == .closing && http.openStreams == 0) { linger(desk) }
    }

    /// Ends it in good order, as far as TLS lets itself be told.
    func finish(isReset: Bool) {
        if isOver { return }
        if isReset { resetOnClose(tls.descriptor) } else if !isHandshaking { tls.shutdown() }
        phase = .over
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
        desk.writer.totals.connections += 1
        desk.writer.totals.openConnections += 1
        http.streamLimit = Int(currentLimit(behaviour))
        switch behaviour.greeting {
        case .settings: http.submitSettings(streams: currentLimit(behaviour), isFirst: true)
        case .nothing: isMute = true
        case .goAway(let frame): goAway(frame, answering: nil, desk)
        }
    }

    private func currentLimit(_ behaviour: Behaviour) -> UInt32 {
        isTrusted ? behaviour.streamLimit : behaviour.tokenStreamLimit
    }

    // MARK: Requests

    private func receive(_ bytes: UnsafeRawBufferPointer, _ desk: AnswerDesk) {
        guard let http else { return }
        events.removeAll(keepingCapacity: true)
        let isHTTP2 = http.receive(bytes, &events)
        for event in events {
            switch event {
            case .request(let slot, let stream):
                if http.isOpen(slot: slot, stream: stream) { answer(slot, http, desk) }
            case .overLimit(let stream):
                desk.writer.totals.refusedStreams += 1
                http.reset(stream: stream, code: 7)  // REFUSED_STREAM
            case .ping(let opaque):
                if !desk.behaviour.ignoresPings { http.acknowledgePing(opaque) }
            case .violation:
                desk.writer.totals.violations += 1
                desk.writer.totals.goAways += 1
                http.terminate()
            }
            if isOver { return }
        }
        if !isHTTP2 { finish(isReset: false) }
    }

    private func answer(_ slot: Int, _ http: HTTP2Server, _ desk: AnswerDesk) {
        requestCount += 1
        let interval = desk.behaviour.goAwayEvery
        let isLast = interval > 0 && requestCount % interval == 0
        perform(desk.answer(&http[slot], of: &peer), slot, http, desk)
        if isLast && phase == .open { goAway(GoAway(), answering: nil, desk) }
    }

    /// Something whose time has come.
    func perform(_ due: AnswerDesk.Due, _ desk: AnswerDesk) {
        switch due {
        case .answer(let answer, let stream): answerDelayed(answer, stream, desk)
        case .endOfLinger: phase = .over
        }
    }

    /// The client may have given up the stream.
    private func answerDelayed(_ answer: Answer, _ stream: Int32, _ desk: AnswerDesk) {
        guard let http, phase == .open || phase == .closing, let slot = http.slot(of: stream) else { return }
        perform(answer, slot, http, desk)
    }

    private func perform(_ answer: Answer, _ slot: Int, _ http: HTTP2Server, _ desk: AnswerDesk) {
        switch answer {
        case .accept:
            record(.accepted(isAnswered: true), slot, http, desk)
            http.accept(slot: slot, uniqueID: desk.uniqueID())
            if !isTrusted || http.streamLimit == 1 { restoreLimit(http, desk) }
        case .status(let status, let reason, let timestamp, let retryAfter):
            record(.refused(status: status, reason: reason), slot, http, desk)
            let body = desk.body(status: status, reason: reason, timestamp: timestamp)
            http.refuse(slot: slot, status: status, body: body, uniqueID: desk.uniqueID(), retryAfter: retryAfter)
            let counts = (400..<500).contains(status) && status != 410
            if counts && desk.behaviour.dropsLimitAfterRejection { http.submitSettings(streams: 1, isFirst: false) }
        case .silent:
            record(.silent, slot, http, desk)
        case .delay(let duration, let then):
            // Not the turn's clock: the request may have come in after it was read.
            desk.due.add((number, .answer(then, stream: http[slot].stream)), at: .now + duration)
        case .resetStream(let code):
            record(.streamReset(code: code), slot, http, desk)
            http.reset(stream: http[slot].stream, code: code)
        case .closeConnection(let isRecorded):
            record(isRecorded ? .accepted(isAnswered: false) : .connectionCut, slot, http, desk)
            finish(isReset: true)
        case .goAway(let frame):
            goAway(frame, answering: slot, desk)
        }
    }

    private func record(_ verdict: Verdict, _ slot: Int, _ http: HTTP2Server, _ desk: AnswerDesk) {
        if case .accepted = verdict { highestAccepted = max(highestAccepted, http[slot].stream) }
        desk.writer.record(verdict, http[slot], connection: number, time: desk.now)
    }

    private func restoreLimit(_ http: HTTP2Server, _ desk: AnswerDesk) {
        isTrusted = true
        let limit = desk.behaviour.streamLimit
        if http.streamLimit != Int(limit) { http.submitSettings(streams: limit, isFirst: false) }
    }

    // MARK: Orders from outside

    /// Tells the client a limit that has changed.
    func adopt(_ behaviour: Behaviour) {
        guard let http, phase == .open else { return }
        let limit = currentLimit(behaviour)
        if http.streamLimit != Int(limit) { http.submitSettings(streams: limit, isFirst: false) }
    }

    func sendGoAway(_ frame: GoAway, _ desk: AnswerDesk) { goAway(frame, answering: nil, desk) }

    private func goAway(_ frame: GoAway, answering slot: Int?, _ desk: AnswerDesk) {
        guard let http, phase == .open || phase == .closing else { return }
        let stream = slot.map { http[$0].stream } ?? http.highestStream + 2
        let last: Int32 =
            switch frame.last {
            case .all, .notice: http.highestStream
            case .belowThis: max(stream - 2, highestAccepted, 0)
            case .zero: 0
            }
        desk.writer.totals.goAways += 1
        if let slot {
            if frame.last == .all || frame.last == .notice {
                record(.accepted(isAnswered: true), slot, http, desk)
                http.accept(slot: slot, uniqueID: desk.uniqueID())
            } else {
                record(.goneAway, slot, http, desk)
                // Something above it was accepted, so that the GOAWAY cannot say that this was not.
                if stream <= last { http.reset(stream: stream, code: 7) }
            }
        }
        if frame.last == .notice { return http.giveNotice() }
        http.goAway(last: last, code: frame.code, debugData: Array(frame.debugData.utf8))
        phase = .closing
        // From now on the streams above are closed: requests on them that are here already must not be accepted.
        http.pump(into: &output)
    }
}
