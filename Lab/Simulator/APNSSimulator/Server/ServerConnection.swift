import Glibc
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
    /// Accepted by the listener of the channel management API, which takes no pushes.
    private let isManagement: Bool
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

    init(number: Int, _ tls: consuming TLSStream, environment: PushEnvironment, isManagement: Bool = false) {
        (self.number, self.isManagement) = (number, isManagement)
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

/// Answers to requests, and timed actions.
extension ServerConnection {
    func answer(_ slot: Int, _ http: HTTP2Server, _ context: ServerContext) {
        if http[slot].isAboutChannels {
            lastRequest = context.now
            return perform(context.managementAnswer(), slot, http, context)
        }
        if isManagement { return http.reply(slot: slot, context.refusal(.badPath)) }
        requestCount += 1
        let interval = context.behaviour.goAwayEvery
        let isLast = interval > 0 && requestCount % interval == 0
        let planned = context.answer(&http[slot], of: &peer, on: number)
        let idle = idleAnswer(context)
        perform(idle ?? planned, slot, http, context)
        guard phase == .open, !isDeaf else { return }
        if isLast { goAway(GoAway(), answering: nil, context) }
        if idle == .reason(.idleTimeout) { goAway(.reason(.idleTimeout), answering: nil, context) }
    }

    /// Performs a timed action.
    func perform(_ due: ServerContext.Due, _ context: ServerContext) {
        switch due {
        case .answer(let answer, let stream): answerDelayed(answer, stream, context)
        case .goAway(let frame): goAway(frame, answering: nil, context)
        case .endOfLinger: phase = .over
        case .idleCheck: checkIdleness(context)
        case .newLimit: changeLimit(context)
        case .newWindow: changeWindow(context)
        }
    }

    /// Performs a delayed answer, unless the client has reset the stream.
    private func answerDelayed(_ answer: Answer, _ stream: Int32, _ context: ServerContext) {
        guard let http, !isDeaf, phase == .open || phase == .closing, let slot = http.slot(of: stream) else { return }
        perform(answer, slot, http, context)
    }

    private func perform(_ answer: Answer, _ slot: Int, _ http: HTTP2Server, _ context: ServerContext) {
        let isPush = !http[slot].isAboutChannels
        switch answer {
        case .accept where !isPush:
            http.reply(slot: slot, context.manage(&http[slot], of: &peer))
            if !isTrusted { restoreLimit(http, context) }
        case .accept:
            record(.accepted(isAnswered: true), slot, http, context)
            http.accept(slot: slot, uniqueID: context.uniqueID())
            if !isTrusted || http.streamLimit == 1 { restoreLimit(http, context) }
        case .status(let status, let reason, let timestamp, let retryAfter):
            record(.refused(status: status, reason: reason), slot, http, context)
            let body = context.body(status: status, reason: reason, timestamp: timestamp)
            let uniqueID = isPush ? context.uniqueID() : nil
            http.refuse(slot: slot, status: status, body: body, uniqueID: uniqueID, retryAfter: retryAfter)
            let counts = isPush && (400..<500).contains(status) && status != 410
            if counts && context.behaviour.dropsLimitAfterRejection { http.submitSettings(streams: 1, isFirst: false) }
        case .silent:
            record(.silent, slot, http, context)
        case .delay(let duration, let then):
            // Not the turn's time: the request may have arrived after the start of the turn.
            context.due.add((number, .answer(then, stream: http[slot].stream)), at: .now + duration)
        case .resetStream(let code):
            record(.streamReset(code: code), slot, http, context)
            http.reset(stream: http[slot].stream, code: code)
        case .closeConnection(let isRecorded):
            record(isRecorded ? .accepted(isAnswered: false) : .connectionCut, slot, http, context)
            finish(isReset: true)
        case .halfOpen(let isRecorded):
            record(isRecorded ? .accepted(isAnswered: false) : .halfOpen, slot, http, context)
            goDeaf(context)
        case .goAway(let frame, let next):
            goAway(frame, answering: isPush ? slot : nil, context)
            if let next { follow(frame, by: next, context) }
        }
    }

    /// Records the verdict of a push. A channel management request has none; an accepted one is executed.
    private func record(_ verdict: Verdict, _ slot: Int, _ http: HTTP2Server, _ context: ServerContext) {
        if http[slot].isAboutChannels {
            if verdict.isAccepted { _ = context.manage(&http[slot], of: &peer) }
            return
        }
        if verdict.isAccepted { highestAccepted = max(highestAccepted, http[slot].stream) }
        context.writer.record(verdict, http[slot], connection: number, time: context.now)
    }

    // MARK: Limits

    private func restoreLimit(_ http: HTTP2Server, _ context: ServerContext) {
        isTrusted = true
        let limit = currentLimit(context.behaviour)
        if http.streamLimit != Int(limit) { http.submitSettings(streams: limit, isFirst: false) }
    }

    /// Schedules the next check of the idle time and of the stream limit.
    func scheduleChecks(_ behaviour: Behaviour, _ context: ServerContext) {
        if let limit = behaviour.idleLimit, !hasIdleCheck {
            hasIdleCheck = true
            context.due.add((number, .idleCheck), at: lastRequest + limit)
        }
        if behaviour.limitWalk == nil { walkingLimit = nil }
        if let walk = behaviour.limitWalk, !hasLimitCheck {
            hasLimitCheck = true
            context.due.add((number, .newLimit), at: context.now + walk.interval)
        }
        if let walk = behaviour.windowWalk, !hasWindowCheck {
            hasWindowCheck = true
            context.due.add((number, .newWindow), at: context.now + walk.interval)
        }
    }

    private func changeLimit(_ context: ServerContext) {
        hasLimitCheck = false
        guard let walk = context.behaviour.limitWalk, http != nil, !isDeaf, phase == .open else { return }
        walkingLimit = context.limit(of: walk)
        adopt(context.behaviour, context)
    }

    private func changeWindow(_ context: ServerContext) {
        hasWindowCheck = false
        guard let http, !isDeaf, phase == .open else { return }
        let behaviour = context.behaviour
        // RFC 9113, 6.5.2: the initial value is 65,535.
        http.submitWindow(behaviour.windowWalk.map { context.limit(of: $0) } ?? behaviour.initialWindow ?? 65535)
        if behaviour.windowWalk != nil { scheduleChecks(behaviour, context) }
    }

    // MARK: Idleness

    private func idleAnswer(_ context: ServerContext) -> Answer? {
        defer { lastRequest = context.now }
        guard let limit = context.behaviour.idleLimit else { return nil }
        if context.now - lastRequest >= limit { isStale = true }
        switch context.behaviour.idleFault {
        case .badRequest where isStale: return .reason(.idleTimeout)
        case .internalError where isStale: return .reason(.internalServerError)
        default: return nil
        }
    }

    private func checkIdleness(_ context: ServerContext) {
        hasIdleCheck = false
        let behaviour = context.behaviour
        guard let limit = behaviour.idleLimit, behaviour.idleFault == .goAway, let http, !isDeaf, phase == .open else { return }
        if http.openStreams > 0 { lastRequest = context.now }
        if context.now - lastRequest >= limit { return goAway(.reason(.idleTimeout), answering: nil, context) }
        hasIdleCheck = true
        context.due.add((number, .idleCheck), at: lastRequest + limit)
    }

    // MARK: GOAWAY

    /// Sends GOAWAY before `stream`: later streams were not processed.
    func sendGoAway(_ frame: GoAway, before stream: Int32, _ context: ServerContext) {
        guard let http else { return }
        announce(frame, last: max(stream - 2, highestAccepted, 0), http, context)
    }

    /// Sends the second of two frames: immediately, or after a delay if the first is the graceful notice.
    func follow(_ frame: GoAway, by next: GoAway, _ context: ServerContext) {
        if frame.last == .notice {
            context.due.add((number, .goAway(next)), at: .now + GoAway.followUp)
        } else {
            goAway(next, answering: nil, context)
        }
    }

    func goAway(_ frame: GoAway, answering slot: Int?, _ context: ServerContext) {
        guard let http, !isDeaf, phase == .open || phase == .closing else { return }
        let stream = slot.map { http[$0].stream } ?? http.highestStream + 2
        let last: Int32 =
            switch frame.last {
            case .all, .notice: http.highestStream
            case .belowThis: max(stream - 2, highestAccepted, 0)
            case .middle: middle(below: stream)
            case .zero: 0
            }
        if let slot {
            if frame.isAbrupt {
                record(.goneAway, slot, http, context)
            } else if frame.last == .all || frame.last == .notice {
                record(.accepted(isAnswered: true), slot, http, context)
                http.accept(slot: slot, uniqueID: context.uniqueID())
            } else {
                record(.goneAway, slot, http, context)
                // A later stream was accepted, so the GOAWAY covers this one: reset it as refused.
                if stream <= last { http.reset(stream: stream, code: 7) }
            }
        }
        announce(frame, last: last, http, context)
    }

    /// Returns a stream id halfway between the highest accepted stream and the stream before this one, or 0.
    private func middle(below stream: Int32) -> Int32 {
        let first = highestAccepted > 0 ? highestAccepted : -1
        return max(first + max(0, stream - 2 - first) / 4 * 2, 0)
    }

    private func announce(_ frame: GoAway, last: Int32, _ http: HTTP2Server, _ context: ServerContext) {
        context.writer.totals.goAways += 1
        if frame.last == .notice { return http.giveNotice() }
        http.goAway(last: last, code: frame.code, debugData: Array(frame.debugData.utf8))
        phase = .closing
        endsAbruptly = endsAbruptly || frame.isAbrupt
        // Closes the streams above `last` now: their received requests must not be accepted.
        http.pump(into: &output)
    }
}

extension Request {
    /// Compares one byte first, because every request passes here.
    var isAboutChannels: Bool {
        guard let path = range(of: .path), path.count > Request.channelPath.count else { return false }
        return bytes[path.lowerBound + 1] == Request.channelPath[1] && bytes[path].starts(with: Request.channelPath)
    }
}

enum SocketClosing {
    /// Sends FIN. Reading continues.
    static func endWriting(_ descriptor: CInt) { shutdown(descriptor, CInt(SHUT_WR)) }

    /// Makes the next close of the socket send RST instead of FIN.
    static func resetOnClose(_ descriptor: CInt) {
        var option = linger(l_onoff: 1, l_linger: 0)
        unsafe setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
    }
}
