import Glibc
internal import Platform
internal import Synchronization

/// The body of a session's thread: dials, then sleeps, reads, decides and writes until the session is closed.
func runSession(_ context: SessionContext) {
    switch Dial(context).run() {
    case .failed(let address, let fault):
        context.shared.messages.send(.dialFailed(context.id, address: address, fault))
    case .abandoned:
        context.shared.messages.send(.dialAbandoned(context.id))
    case .open(let wire, let codec, let address, let streams):
        var loop = SessionLoop(context, wire, codec, address, streams: streams)
        loop.run()
    }
}

/// Owns one open session until its end. Everything it uses is made and freed on its thread.
struct SessionLoop: ~Copyable {
    /// The payload bytes that a session takes before it passes them to TLS. TLS may take only a part, and until it takes the
    /// rest the session takes no more: another session's socket may be faster.
    private static let mostBytes = 64 << 10
    /// A withdrawal stops requests that were taken this long before their write. Younger ones leave in the turn in which they
    /// were taken: to stop them would end a session with all its requests in flight.
    private static let longestTurn = Duration.milliseconds(100)

    private let context: SessionContext
    private let address: SocketAddress
    private var codec: HTTP2Codec
    private var wire: Wire
    private var machine: SessionMachine
    private var now: Instant
    private var roundTrip: RoundTrip
    private var poller = Poller()

    private var effects: [SessionMachine.Effect] = []
    private var events: [HTTP2Event] = []
    private let batch = Ring<Notification>()
    private var outbox: [Delivery] = []

    /// The streams that this session has added to the pool's capacity.
    private var announced = 0
    private var hasServed = false
    /// The last news about the credential of the session.
    private var credential = CredentialUse.News.none
    private var wasToldToCalmDown = false
    private var token: ProviderToken?
    /// Whether TLS has not taken the whole output: the timers of these requests have not started.
    private var hasUnwritten = false
    /// Whether the session took no work because of that.
    private var isHeldBack = false
    /// Before the session took the requests that are unwritten: `WorkQueue.fenceNumber`, and the time.
    private var taken: (fenceNumber: Int, at: Instant)
    /// The time to ask the queue again, if this session waits for the rate limits on behalf of all.
    private var asksAgain: Instant?
    /// The reason to close the connection at the end of this turn.
    private var ending: SessionError?

    init(
        _ context: SessionContext, _ wire: consuming Wire, _ codec: consuming HTTP2Codec, _ address: SocketAddress,
        streams: Int
    ) {
        self.context = context
        self.wire = wire
        self.codec = codec
        self.address = address
        now = .now
        taken = (0, now)
        roundTrip = RoundTrip(now: now)
        let limits = SessionMachine.Limits(context.configuration, startsSlowly: context.startsSlowly)
        machine = SessionMachine(limits: limits, peerLimit: streams, now: now)
    }

    mutating func run() {
        announceCapacity()
        context.shared.orders.withLock { $0[context.id] = context.orders }
        context.shared.work.queue.withLock { $0.join(context.id, wakeUp: context.wakeUp) }
        context.shared.messages.send(.opened(context.id, address: context.name(of: address), streams: machine.capacity))
        takeWork()
        while ending == nil {
            measure()
            write()
            handleEvents()
            deliver()
            if ending != nil { break }
            let isRung = sleep()
            now = .now
            if isRung { takeOrders() }
            read()
            machine.tick(now: now, &effects)
            perform()
            // A stream that was cancelled is free for the work that waits.
            handleEvents()
            // Outcomes are delivered before new requests start, because those reuse their slots.
            deliver()
            takeWork()
        }
        close(because: ending ?? .closedByUs)
    }

    // MARK: One turn

    /// Sleeps until the socket, an order, work or a deadline needs the session. It looks for orders and work in every turn,
    /// whatever the peer sends. Returns whether the wake-up was rung.
    private mutating func sleep() -> Bool {
        poller.reset()
        poller.add(wire.descriptor, for: wire.interestInWriting ? [.read, .write] : .read)
        poller.add(context.wakeUp.descriptor, for: .read)
        let isReady = wire.hasPending || isHeldBack && !hasUnwritten
        var deadline = Earliest(isReady ? now : machine.deadline)
        deadline.consider(asksAgain)
        poller.wait(until: deadline.instant)
        if !poller.readiness(at: 0).isEmpty { wire.becameReady() }
        return poller.readiness(at: 1).contains(.read)
    }

    /// Sends a PING if the next measurement of the round trip is due. An idle session sleeps on and is not measured.
    private mutating func measure() {
        if let number = roundTrip.due(now: now) { codec.ping(number) }
    }

    private mutating func takeOrders() {
        for order in context.orders.drain() {
            switch order {
            case .drain: machine.retire(because: .closedByUs, &effects)
            case .end: machine.endedByOwner(&effects)
            case .cancel(let ids): machine.cancelled(ids, &effects)
            }
        }
    }

    private mutating func read() {
        var hasRead = false
        let flow = wire.read(into: &codec, hasRead: &hasRead)
        if hasRead { machine.heard(now: now) }
        handleEvents()
        if flow != .open { end(flow.text) }
    }

    private mutating func write() {
        pass(least: 1)
        let hadUnwritten = hasUnwritten
        hasUnwritten = codec.out.count > 0
        if hadUnwritten || hasUnwritten { machine.wrote(now: now, isWritten: { codec.isWritten(slot: $0) }) }
        if codec.isOver { end(codec.fault) }
    }

    /// Passes the output to TLS. Once the time for sending has ended, no request leaves: other workers may have its job. This
    /// also holds after the owner has set a new time, because it withdraws only what no session has taken.
    ///
    /// - Parameter least: a remainder of fewer bytes stays in the codec.
    private mutating func pass(least: Int) {
        if ending != nil { return }
        if isFenced() { return end(because: .retired(.sendingEnded)) }
        let flow = wire.write(from: &codec, least: least)
        if flow != .open { end(because: .connectionLost(flow.text)) }
    }

    private mutating func isFenced() -> Bool {
        let work = context.shared.work
        if !codec.hasUnwrittenRequests() { return false }
        return work.isSendingOver
            || work.fenceNumber != taken.fenceNumber && work.clock() - taken.at >= SessionLoop.longestTurn
    }

    /// Before a connection broke, the peer may have sent responses and the reason of its end.
    private mutating func end(because fault: SessionError) {
        wire.readRest(into: &codec)
        handleEvents()
        machine.connectionLost(fault, &effects)
        perform()
    }

    private mutating func end(_ fault: String) {
        machine.connectionLost(.connectionLost(fault), &effects)
        perform()
    }

    private mutating func handleEvents() {
        codec.takeEvents(into: &events)
        for index in events.indices { handle(events[index]) }
        perform()
    }

    private mutating func handle(_ event: HTTP2Event) {
        switch event {
        case .delivered(let slot, let stream, let acceptance):
            if credential != .accepted { proved(.accepted) }
            machine.answered(.delivered(acceptance), stream: stream, at: slot, &effects)
        case .rejected(let slot, let stream, let response):
            // A server that only fails must not be dialled again and again without backoff.
            let rejection = response.rejection
            if rejection.status < 500 { hasServed = true }
            judgeCredential(rejection)
            machine.answered(.rejected(rejection), stream: stream, at: slot, &effects)
        case .reset(let slot, let stream, let code, let wasSent):
            if code == SessionMachine.enhanceYourCalm {
                mustSlowDown()
                machine.retire(because: .streamReset(code: code), &effects)
            }
            machine.streamReset(code: code, wasSent: wasSent, stream: stream, at: slot, now: now, &effects)
        case .settings(let limit):
            machine.limitChanged(to: limit, &effects)
        case .goAway(let last, let code, let debugData):
            if code == SessionMachine.enhanceYourCalm { mustSlowDown() }
            machine.receivedGoAway(last: last, code: code, reason: ResponseBody(debugData).reason, &effects)
        case .pingAnswered(let number):
            if roundTrip.answered(number, now: .now), let smoothed = roundTrip.smoothed, let shortest = roundTrip.shortest {
                context.shared.work.queue.withLock { $0.measured(smoothed: smoothed, shortest: shortest, of: context.id) }
            }
            machine.pingAnswered(number, now: now, &effects)
        }
    }

    /// The owner receives the outcome later: it knows then that this credential is in use.
    private mutating func proved(_ news: CredentialUse.News) {
        hasServed = true
        credential = news
        context.shared.credentials.withLock { $0.prove(context.id) }
        context.shared.messages.send(.proved(context.id, isAcceptance: news == .accepted))
    }

    private mutating func judgeCredential(_ rejection: Rejection) {
        if credential == .accepted && rejection.status != 403 && rejection.status != 429 { return }
        let news = CredentialUse.News(rejection)
        if news == credential { return }
        switch news {
        case .accepted: proved(.accepted)
        case .answered: if credential != .accepted { proved(.answered) }
        case .refused:
            credential = .refused
            context.shared.messages.send(.refused(context.id, rejection.text))
        case .none: break
        }
    }

    /// Reports ENHANCE_YOUR_CALM once per session, although many streams may carry it.
    private mutating func mustSlowDown() {
        if wasToldToCalmDown { return }
        wasToldToCalmDown = true
        context.shared.messages.send(.mustSlowDown(context.id))
    }

    private mutating func perform() {
        if effects.isEmpty { return }
        for effect in effects {
            switch effect {
            case .report(let id, let outcome, let sent):
                let times = sent.map { AttemptTimes(sent: $0, ended: now) }
                outbox.append(Delivery(id: id, session: context.id, outcome: outcome, times: times))
            case .cancel(let stream): codec.cancel(stream)
            case .ping(let number): codec.ping(number)
            case .retire: stopTaking()
            case .capacityChanged:
                announceCapacity()
                context.shared.messages.send(.capacityChanged)
            case .disconnect(let fault): ending = fault
            }
        }
        effects.removeAll(keepingCapacity: true)
    }

    private mutating func deliver() {
        // The owner may claim new jobs for the freed streams as soon as it receives these outcomes.
        announceCapacity()
        context.shared.deliveries.send(contentsOf: &outbox)
    }

    private mutating func takeWork() {
        (asksAgain, isHeldBack) = (nil, false)
        machine.observed(hasWindow: codec.sendWindow.left > 0, now: now)
        while machine.phase == .open && ending == nil && !codec.isOver {
            isHeldBack = hasUnwritten || wire.isBlocked
            let bytes = isHeldBack ? 0 : min(codec.windowRoom, SessionLoop.mostBytes)
            let room = Room(
                streams: machine.free, bytes: bytes, limit: isHeldBack ? .socket : .streams, window: codec.sendWindow.size,
                bytesInFlight: codec.sendWindow.inFlight)
            if !codec.hasUnwrittenRequests() { taken = (context.shared.work.fenceNumber, now) }
            asksAgain = context.shared.work.take(into: batch, room: room, for: context.id, now: now)
            // The windows may admit more than one portion.
            if batch.isEmpty || submitBatch() < SessionLoop.mostBytes { return }
        }
    }

    /// Returns the bytes of payload.
    private mutating func submitBatch() -> Int {
        refreshToken()
        let time = Int64(time(nil))
        var bytes = 0
        while let notification = batch.popFirst() {
            bytes += notification.payload.count
            submit(notification, at: time)
            // Full records leave at once, while they are in the processor's cache.
            if codec.out.count >= Wire.recordBytes { pass(least: Wire.recordBytes) }
        }
        perform()
        return bytes
    }

    /// - Parameter time: Unix seconds. time(2) may lag by 10 ms, which never makes a valid notification outdated.
    private mutating func submit(_ notification: consuming Notification, at time: Int64) {
        switch notification.timing(at: time) {
        case .asItIs: break
        case .tooLate: return outbox.append(Delivery(id: notification.id, session: context.id, outcome: .outdated))
        case .later(let expiration):
            notification.expiration = expiration
            outbox.append(Delivery(id: notification.id, session: context.id, outcome: .begun(expiration: expiration)))
        }
        guard machine.free > 0 else {
            let outcome = Outcome.notProcessed(.connectionLost("no stream could be opened"))
            outbox.append(Delivery(id: notification.id, session: context.id, outcome: outcome))
            return
        }
        let slot = machine.accepted(notification.id, now: now)
        if let stream = codec.submit(notification, slot: slot) {
            machine.opened(stream, at: slot)
        } else {
            machine.notOpened(at: slot, &effects)
        }
    }

    /// Refreshes the token only when it is old, even if a newer one exists: no session sees its token change within 20 minutes
    /// of its first push (docs/design.md, "Provider tokens").
    private mutating func refreshToken() {
        guard let tokens = context.configuration.tokens else { return }
        if let token, now - token.mintedAt < TokenSchedule.oldest { return }
        let newest = tokens.token(forNewSession: token == nil)
        context.report(tokens)
        guard let newest, newest.generation != token?.generation else { return }
        codec.setToken(newest.bytes)
        token = newest
        context.shared.sessionTokens.withLock { $0.uses(newest.generation, context.id) }
    }

    // MARK: The pool

    private mutating func announceCapacity() {
        if machine.capacity == announced { return }
        context.shared.capacity.add(machine.capacity - announced, ordering: .relaxed)
        announced = machine.capacity
    }

    private mutating func stopTaking() {
        context.shared.work.leave(context.id)
        announceCapacity()
        context.shared.messages.send(.retired(context.id, hasServed: hasServed))
    }

    private mutating func close(because fault: SessionError) {
        // Streams that were reset in this turn: the codec has forgotten that their requests were written.
        handleEvents()
        if machine.inFlight == 0 && !isFenced() {
            codec.sendGoAway()
            if wire.write(from: &codec) == .open { wire.shutdown() }
        }
        context.shared.work.leave(context.id)
        context.shared.orders.withLock { $0[context.id] = nil }
        machine.closed(because: fault, isWritten: { codec.isWritten(slot: $0) }, &effects)
        perform()
        announceCapacity()
        deliver()
        context.shared.addresses.withLock { $0.release(address) }
        context.shared.sessionTokens.withLock { $0.end(of: context.id) }
        context.shared.messages.send(
            .ended(
                context.id, address: context.name(of: address), fault, hasServed: hasServed,
                unanswered: machine.unanswered))
    }
}

/// Measures the round trip of one session with PINGs: one when it opens, and one every ten seconds while it is in service.
struct RoundTrip {
    static let interval = Duration.seconds(10)
    /// The numbers of these PINGs have the highest bit; those of `SessionMachine` do not.
    private static let firstNumber: UInt64 = 1 << 63

    private var number = RoundTrip.firstNumber
    private var sentAt: Instant?
    private var next: Instant
    /// The mean of the latest round trips; `nil` before the first one.
    private(set) var smoothed: Duration?
    private(set) var shortest: Duration?

    init(now: Instant) { next = now }

    /// Returns the number of the PING to send now, if one is due.
    mutating func due(now: Instant) -> UInt64? {
        guard next <= now else { return nil }
        number += 1
        (sentAt, next) = (now, now + Self.interval)
        return number
    }

    /// The response to a PING arrived. Returns whether it was the latest of these.
    mutating func answered(_ number: UInt64, now: Instant) -> Bool {
        guard number == self.number, let sentAt else { return false }
        self.sentAt = nil
        let sample = max(.zero, now - sentAt)
        smoothed = smoothed.map { $0 + (sample - $0) / 4 } ?? sample
        shortest = shortest.map { min($0, sample) } ?? sample
        return true
    }
}

/// Moves bytes between a TLS stream and a codec without blocking.
struct Wire: ~Copyable {
    /// The result of reading or writing.
    enum Flow: Equatable {
        case open
        /// The connection has ended.
        case ended(SocketError?)
        /// A sentence for the log.
        var text: String {
            switch self {
            case .open: "open"
            case .ended(nil): "the peer closed the connection"
            case .ended(let error?): error.description
            }
        }
    }

    /// The size of a full record in TLS 1.2 and 1.3 (RFC 8446, 5.1). Writing only full records is faster: 1.55 instead of 1.80
    /// us a push (measured).
    static let recordBytes = 16384
    /// Bytes read in one turn before other work.
    private static let mostReadPerTurn = 256 << 10
    /// Turns of reading after a failed write: 8 MiB, more than Linux lets a socket buffer by default (tcp_rmem, 6 MiB).
    private static let mostLastTurns = 32

    private var stream: TLSStream
    private var input = [UInt8](repeating: 0, count: Wire.recordBytes)
    /// TLS cannot write and waits for the socket.
    private(set) var isBlocked = false
    private var readWaitsForWrite = false
    /// Everything that arrived has been read: until the socket is ready again, another read is a wasted system call.
    private var isDrained = false

    init(_ stream: consuming TLSStream) { self.stream = stream }

    var descriptor: CInt { stream.descriptor }

    /// Whether decrypted bytes are pending: the session must not sleep.
    var hasPending: Bool { stream.hasPending }

    var interestInWriting: Bool { isBlocked || readWaitsForWrite }

    /// The socket is ready again.
    mutating func becameReady() {
        isDrained = false
        isBlocked = false
        readWaitsForWrite = false
    }

    /// Continues the TLS handshake.
    mutating func handshake() -> Progress { stream.handshake() }

    /// Reads the available bytes into the codec and sets `hasRead` if there were any.
    mutating func read(into codec: inout HTTP2Codec, hasRead: inout Bool) -> Flow {
        if isDrained && !hasPending { return .open }
        var total = 0
        while total < Wire.mostReadPerTurn {
            switch unsafe input.withUnsafeMutableBytes({ unsafe stream.read(into: $0) }) {
            case .done(let count):
                hasRead = true
                total += count
                codec.receive(input.span.extracting(0..<count))
                // No response is outstanding. More bytes are unlikely, and poll(2) reports them: OpenSSL reads no record ahead.
                if codec.streams.openCount == 0 && !hasPending {
                    isDrained = true
                    return .open
                }
            case .needsRead:
                isDrained = true
                return .open
            case .needsWrite:
                readWaitsForWrite = true
                return .open
            case .closed: return .ended(nil)
            case .failed(let error): return .ended(error)
            }
        }
        return .open
    }

    /// Reads into the codec what arrived before a write failed.
    mutating func readRest(into codec: inout HTTP2Codec) {
        for _ in 0..<Wire.mostLastTurns {
            becameReady()
            var hasRead = false
            guard read(into: &codec, hasRead: &hasRead) == .open, hasRead else { return }
        }
    }

    /// Writes the codec's output in full records, and the remainder at the end.
    ///
    /// Bytes that TLS has accepted count as written: the peer cannot read a record until its end is sent.
    ///
    /// - Parameter least: a remainder of fewer bytes stays in the codec.
    mutating func write(from codec: inout HTTP2Codec, least: Int = 1) -> Flow {
        while !isBlocked && codec.out.count >= least {
            let progress = unsafe codec.out.withFirst(Wire.recordBytes) { unsafe stream.write($0) }
            switch progress {
            case .done(let count): codec.out.consume(count)
            case .needsRead, .needsWrite: isBlocked = true
            case .closed: return .ended(nil)
            case .failed(let error): return .ended(error)
            }
        }
        return .open
    }

    /// Sends close_notify as far as the socket accepts it.
    mutating func shutdown() { stream.shutdown() }
}
