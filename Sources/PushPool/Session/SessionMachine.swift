import Clocks

/// What one session does next, from the peer's first SETTINGS to its end. Knows no socket, no clock and no C.
///
/// A slot is where HTTP/2 keeps an attempt's bytes: this machine hands slots out, and takes one back only when HTTP/2 is
/// through with the stream in it.
struct SessionMachine {
    enum Phase: Equatable { case open, draining, closed }

    enum Effect: Equatable {
        /// The attempt's end, by the notification's id: exactly one for each attempt.
        case report(UInt64, Outcome)
        /// RST_STREAM with CANCEL: nobody waits for this answer any more.
        case cancel(StreamID)
        /// A PING with this number as its opaque data.
        case ping(UInt64)
        /// This session takes no more: the pool opens another, while this one hears out what it has in flight.
        case retire
        /// The usable limit has changed.
        case capacityChanged
        /// The connection is to be closed; `closed(because:isWritten:)` follows.
        case disconnect(SessionError)
    }

    struct Limits: Equatable {
        var requestTimeout: Duration = .seconds(15)
        var keepAlive: Duration = .seconds(60)
        var busyKeepAlive: Duration = .seconds(15)
        var pingTimeout: Duration = .seconds(10)
        /// Our own ceiling under the peer's SETTINGS.
        var maxConcurrentStreams = 1000
        /// Requests of one session in all (`PoolSettings.requestsPerSession`).
        var maxRequests = (1 << 30) - 2000
        /// Few streams at first, more with the answers: for a session that comes after one that broke.
        var startsSlowly = false

        init() {}

        init(_ configuration: PoolConfiguration, startsSlowly: Bool) {
            let settings = configuration.settings
            requestTimeout = settings.requestTimeout
            keepAlive = settings.keepAlive
            busyKeepAlive = settings.busyKeepAlive
            pingTimeout = settings.pingTimeout
            maxConcurrentStreams = configuration.streams
            maxRequests = settings.requestsPerSession
            self.startsSlowly = startsSlowly
        }
    }

    /// Streams of a slow start, and how many answers make it one more. A server that cuts every connection at its 150th request
    /// then wastes 30 of them and not a thousand, so that no job runs out of its uncounted resends; and a thousand streams are
    /// 30 round trips away.
    static let firstWindow = 10
    static let answersPerStream = 6

    /// Answers of 500 in a row that retire a session.
    static let mostServerErrors = 3
    /// RFC 9113, 7: the peer did nothing with the stream.
    static let refusedStream: UInt32 = 7
    /// The same: the peer thinks that we ask too much.
    static let enhanceYourCalm: UInt32 = 11

    let limits: Limits
    private(set) var phase = Phase.open
    private var peerLimit: Int
    private var attempts = AttemptTable()
    private var requests = 0
    /// Those of a session that starts slowly, while they count.
    private var answers: Int?
    /// Requests that its end or GOAWAY left without an answer though the peer may have had them.
    private(set) var unanswered = 0
    private var serverErrors = 0
    private var lastHeard: Instant
    /// When the first of the streams that are open now came onto an idle session.
    private var busySince: Instant
    private var pingSentAt: Instant?
    private var pingNumber: UInt64 = 0
    /// Why the session drains.
    private var retirement = SessionError.closedByUs
    private var isDisconnecting = false

    /// - Parameter peerLimit: MAX_CONCURRENT_STREAMS of the peer's first SETTINGS.
    init(limits: Limits, peerLimit: Int, now: Instant) {
        self.limits = limits
        self.peerLimit = peerLimit
        answers = limits.startsSlowly ? 0 : nil
        lastHeard = now
        busySince = now
    }

    var inFlight: Int { attempts.count }

    /// Streams this session may have open in all.
    var capacity: Int { phase == .open ? usableLimit : 0 }

    /// Streams it may open now.
    var free: Int {
        phase == .open ? max(0, min(usableLimit - attempts.count, limits.maxRequests - requests)) : 0
    }

    private var usableLimit: Int {
        let limit = max(0, min(peerLimit, limits.maxConcurrentStreams))
        guard let answers else { return limit }
        return min(limit, SessionMachine.firstWindow + answers / SessionMachine.answersPerStream)
    }

    // MARK: Attempts

    /// An attempt begins; returns the slot it has until its stream is closed. Only while `free` is above 0.
    mutating func accepted(_ id: UInt64, now: Instant) -> Int {
        precondition(free > 0, "a session in phase \(phase) with \(attempts.count) of \(usableLimit) streams took one more")
        if attempts.count == 0 { busySince = now }
        requests += 1
        return attempts.add(id, deadline: now + limits.requestTimeout)
    }

    mutating func opened(_ stream: StreamID, at slot: Int) {
        attempts.setStream(stream, at: slot)
    }

    /// HTTP/2 did not take the request: nothing of it exists.
    mutating func notOpened(at slot: Int, _ effects: inout [Effect]) {
        effects.append(.report(attempts[slot].id, .notProcessed(.connectionLost("no stream could be opened"))))
        attempts.release(slot: slot)
        retire(because: .retired(.usedUp), &effects)
    }

    /// The answer is complete and the stream is closed.
    mutating func answered(_ outcome: Outcome, stream: StreamID, at slot: Int, _ effects: inout [Effect]) {
        guard attempts.holds(stream, at: slot) else { return }
        if !attempts[slot].isReported { effects.append(.report(attempts[slot].id, outcome)) }
        count(outcome, &effects)
        widen()
        release(slot, &effects)
    }

    private mutating func widen() {
        guard let answers else { return }
        let isOver = SessionMachine.firstWindow + answers / SessionMachine.answersPerStream >= limits.maxConcurrentStreams
        self.answers = isOver ? nil : answers + 1
    }

    private mutating func count(_ outcome: Outcome, _ effects: inout [Effect]) {
        guard case .rejected(let rejection) = outcome else {
            serverErrors = 0
            return
        }
        if Self.isFarewell(rejection) { retire(because: .retired(.farewell), &effects) }
        guard rejection.status == 500 else {
            serverErrors = 0
            return
        }
        serverErrors += 1
        if serverErrors == Self.mostServerErrors { retire(because: .retired(.serverErrors), &effects) }
    }

    /// The server is about to close the connection ("Handling notification responses from APNs").
    private static func isFarewell(_ rejection: Rejection) -> Bool {
        (rejection.status, rejection.reason) == (400, "IdleTimeout") || (rejection.status, rejection.reason) == (503, "Shutdown")
    }

    /// The stream ended without an answer.
    ///
    /// - Parameter wasSent: whether its HEADERS ever left HTTP/2.
    mutating func streamReset(
        code: UInt32, wasSent: Bool, stream: StreamID, at slot: Int, _ effects: inout [Effect]
    ) {
        guard attempts.holds(stream, at: slot) else { return }
        if !attempts[slot].isReported {
            let fault = SessionError.streamReset(code: code)
            let isUntouched = code == Self.refusedStream || !wasSent
            effects.append(.report(attempts[slot].id, isUntouched ? .notProcessed(fault) : .maybeProcessed(fault)))
        }
        release(slot, &effects)
    }

    private mutating func release(_ slot: Int, _ effects: inout [Effect]) {
        attempts.release(slot: slot)
        disconnectIfDrained(&effects)
    }

    // MARK: The connection

    /// Bytes came in.
    mutating func heard(now: Instant) {
        lastHeard = now
    }

    /// SETTINGS: a lowered limit does not end open streams (RFC 9113, 5.1.2).
    mutating func limitChanged(to limit: Int, _ effects: inout [Effect]) {
        let before = capacity
        peerLimit = limit
        if capacity != before { effects.append(.capacityChanged) }
    }

    /// The peer may still answer streams up to and including `last`; it took no action on those above (RFC 9113, 6.8).
    mutating func receivedGoAway(last: StreamID, code: UInt32, reason: String, _ effects: inout [Effect]) {
        if phase == .closed { return }
        let fault = SessionError.goAway(code: code, reason: reason)
        for slot in attempts.unreportedSlots where attempts[slot].stream > last {
            effects.append(.report(attempts[slot].id, .notProcessed(fault)))
            attempts.markReported(at: slot)
        }
        if phase == .open { startDraining(&effects) }
        retirement = fault
        disconnectIfDrained(&effects)
    }

    /// The answer to the PING with this number. A request past its time limit has now been ignored by a peer that lives.
    mutating func pingAnswered(_ number: UInt64, now: Instant, _ effects: inout [Effect]) {
        guard phase != .closed, pingSentAt != nil, number == pingNumber else { return }
        pingSentAt = nil
        var isFirst = true
        while let slot = attempts.oldestSlot, attempts[slot].deadline <= now {
            effects.append(.report(attempts[slot].id, .timedOut))
            effects.append(.cancel(attempts[slot].stream))
            attempts.markReported(at: slot)
            if isFirst { retire(because: .retired(.requestIgnored), &effects) }
            isFirst = false
        }
        disconnectIfDrained(&effects)
    }

    /// Takes no more, hears out what is in flight, then closes.
    mutating func retire(because fault: SessionError, _ effects: inout [Effect]) {
        guard phase == .open else { return }
        retirement = fault
        startDraining(&effects)
        disconnectIfDrained(&effects)
    }

    /// The peer closed, or reading or writing failed. After a GOAWAY that was to be expected, and the GOAWAY is the reason.
    mutating func connectionLost(_ fault: SessionError, _ effects: inout [Effect]) {
        if case .goAway = retirement { disconnect(retirement, &effects) } else { disconnect(fault, &effects) }
    }

    /// The owner wants it gone at once.
    mutating func endedByOwner(_ effects: inout [Effect]) {
        disconnect(.closedByUs, &effects)
    }

    /// The connection is closed. What the peer cannot have seen is not processed; the rest may be.
    ///
    /// - Parameter isWritten: whether any byte of the HEADERS of the request in this slot reached the socket.
    mutating func closed(because fault: SessionError, isWritten: (Int) -> Bool, _ effects: inout [Effect]) {
        phase = .closed
        for slot in attempts.unreportedSlots {
            let outcome: Outcome = isWritten(slot) ? .maybeProcessed(fault) : .notProcessed(fault)
            if isWritten(slot) && fault != .closedByUs { unanswered += 1 }
            effects.append(.report(attempts[slot].id, outcome))
            attempts.markReported(at: slot)
        }
        attempts = AttemptTable()
    }

    private mutating func startDraining(_ effects: inout [Effect]) {
        phase = .draining
        effects.append(.retire)
    }

    /// Reported attempts do not keep a session: their streams are cancelled or were never looked at.
    private mutating func disconnectIfDrained(_ effects: inout [Effect]) {
        if phase == .draining && attempts.oldestSlot == nil { disconnect(retirement, &effects) }
    }

    private mutating func disconnect(_ fault: SessionError, _ effects: inout [Effect]) {
        if isDisconnecting || phase == .closed { return }
        isDisconnecting = true
        effects.append(.disconnect(fault))
    }

    // MARK: Time

    /// When `tick` has something to do.
    var deadline: Instant? {
        if phase == .closed { return nil }
        if let pingSentAt { return pingSentAt + limits.pingTimeout }
        guard let slot = attempts.oldestSlot else { return silenceDeadline }
        return min(attempts[slot].deadline, silenceDeadline)
    }

    private var silenceDeadline: Instant {
        if attempts.count == 0 { return lastHeard + limits.keepAlive }
        return max(lastHeard, busySince) + limits.busyKeepAlive
    }

    /// Time has passed.
    ///
    /// A request past its limit asks for a PING first: its answer tells a peer that ignores one request from a connection
    /// that is dead for all of them.
    mutating func tick(now: Instant, _ effects: inout [Effect]) {
        if phase == .closed { return }
        if phase == .open && requests >= limits.maxRequests { retire(because: .retired(.usedUp), &effects) }
        guard let deadline, deadline <= now else { return }
        if pingSentAt != nil { return disconnect(.pingUnanswered, &effects) }
        pingNumber += 1
        pingSentAt = now
        effects.append(.ping(pingNumber))
    }
}
