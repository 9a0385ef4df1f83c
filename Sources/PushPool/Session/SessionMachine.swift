import Platform

/// Decides what one session does, from the peer's first SETTINGS to its end. Knows no socket, no clock and no C.
///
/// A session starts open: it accepts attempts while it has free streams. Once it drains, it accepts no more, and it disconnects
/// when the last attempt is reported. When the connection has closed, all remaining attempts are reported at once. Every attempt
/// is reported exactly once. A slot identifies an attempt's bytes in HTTP/2; it is freed only when HTTP/2 has closed the stream.
///
/// The effects of each fact on a session with two requests in flight, and its next phase. `SessionTableTests` compares this table
/// with the code.
///
/// | fact | open | draining | closed |
/// |---|---|---|---|
/// | `answered` | report | report | - |
/// | `answered`, the last one | report | report, disconnect | - |
/// | `answered`, 503 Shutdown | report, retire → draining | report | - |
/// | `answered`, a third 500 | report, retire → draining | report | - |
/// | `streamReset` | report | report | - |
/// | `notOpened` | report, retire → draining | | |
/// | `cancelled` | cancel | cancel | - |
/// | `limitChanged` | capacityChanged | - | - |
/// | `receivedGoAway` with one stream above the last id | report, retire → draining | report | - |
/// | `retire` | retire → draining | - | - |
/// | `retire`, none in flight | retire, disconnect → draining | - | - |
/// | `tick`, a request past its limit | ping | ping | - |
/// | `tick`, silence past its limit, none in flight | ping | | - |
/// | `tick`, no window past the limit of a request, none in flight | retire, disconnect → draining | | - |
/// | `tick`, PING without response | disconnect | disconnect | - |
/// | `pingAnswered`, requests past their limit | report, cancel, retire, disconnect → draining | report, cancel, disconnect | - |
/// | `connectionLost` | disconnect | disconnect | - |
/// | `endedByOwner` | disconnect | disconnect | - |
/// | `closed` | report → closed | report → closed | - |
///
/// An empty cell cannot occur: `accepted` traps unless the session is open and has a free stream.
struct SessionMachine {
    enum Phase: Equatable { case open, draining, closed }

    enum Effect: Equatable {
        /// The outcome of the attempt with this notification id. Each attempt gets exactly one.
        ///
        /// - Parameter sent: with `Limits.recordsTimes`, when the request was submitted.
        case report(UInt64, Outcome, sent: Instant? = nil)
        /// Send RST_STREAM with CANCEL: the response is no longer wanted.
        case cancel(StreamID)
        /// Send a PING with this number as its opaque data.
        case ping(UInt64)
        /// This session accepts no more work: the pool opens another, while this one waits for its open streams.
        case retire
        /// The number of usable streams has changed.
        case capacityChanged
        /// Close the connection, then call `closed(because:isWritten:)`.
        case disconnect(SessionError)
    }

    struct Limits: Equatable {
        var requestTimeout: Duration = .seconds(15)
        var keepAlive: Duration = .seconds(60)
        var busyKeepAlive: Duration = .seconds(15)
        var pingTimeout: Duration = .seconds(10)
        /// Our own limit on open streams; the peer's SETTINGS may be lower.
        var maxConcurrentStreams = 1000
        /// The most requests in the lifetime of a session (`PoolSettings.requestsPerSession`).
        var maxRequests = (1 << 30) - 2000
        /// Whether the session starts with few streams and gets more with each response: after a session that broke.
        var startsSlowly = false
        /// Whether reports carry the time of the request.
        var recordsTimes = false

        init() {}

        init(_ configuration: PoolConfiguration, startsSlowly: Bool) {
            let settings = configuration.settings
            requestTimeout = settings.requestTimeout
            keepAlive = settings.keepAlive
            busyKeepAlive = settings.busyKeepAlive
            pingTimeout = settings.pingTimeout
            maxConcurrentStreams = configuration.streams
            maxRequests = settings.requestsPerSession
            recordsTimes = settings.recordsTimes
            self.startsSlowly = startsSlowly
        }
    }

    /// The streams of a slow start, and the responses that add one more. A server that cuts every connection at its 150th
    /// request then wastes 30 requests instead of 1,000, so that no job exhausts its uncounted resends. Reaching 1,000 streams
    /// takes 30 round trips.
    static let firstWindow = 10
    static let answersPerStream = 6

    /// The number of consecutive 500 responses that retires a session.
    static let mostServerErrors = 3
    /// REFUSED_STREAM: the peer did not process the stream (RFC 9113, 7).
    static let refusedStream: UInt32 = 7
    /// The pause after a refused stream, which doubles with each further refusal without a response in between: a peer that
    /// refuses everything must not be asked again at full speed. Each refused stream also takes one away from the session, and a
    /// second pause without a response all but one.
    static let firstPause = Duration.milliseconds(10)
    static let mostPause = Duration.seconds(1)
    /// ENHANCE_YOUR_CALM: the peer considers the load excessive (RFC 9113, 7).
    static let enhanceYourCalm: UInt32 = 11

    let limits: Limits
    private(set) var phase = Phase.open
    private var peerLimit: Int
    private var attempts = AttemptTable()
    private let byAddress = ByAddress()
    private var requests = 0
    /// The streams of a session that may not use all, times `answersPerStream`: after a slow start or refused streams. `nil`
    /// once it has all. The peer's limit does not change it: requests that cross a lower limit on the way may be refused.
    private var allowance: Int?
    /// Requests that the end of the session or a GOAWAY left without a response although the peer may have received them.
    private(set) var unanswered = 0
    private var serverErrors = 0
    /// Pauses after refused streams without a response in between.
    private var refusals = 0
    private var pausedUntil: Instant?
    /// The start of the last pause: refusals of requests that left before it say nothing new.
    private var pausedAt: Instant?
    private var lastHeard: Instant
    /// The time at which an idle session got its first open stream.
    private var busySince: Instant
    /// The start of the time in which no request is open and the peer's window admits no byte of another: neither a response nor
    /// a timeout can follow.
    private var windowlessSince: Instant?
    private var pingSentAt: Instant?
    private var pingNumber: UInt64 = 0
    /// The reason for draining.
    private var retirement = SessionError.closedByUs
    private var isDisconnecting = false

    /// - Parameter peerLimit: MAX_CONCURRENT_STREAMS of the peer's first SETTINGS.
    init(limits: Limits, peerLimit: Int, now: Instant) {
        self.limits = limits
        self.peerLimit = peerLimit
        allowance = limits.startsSlowly ? SessionMachine.firstWindow * SessionMachine.answersPerStream : nil
        lastHeard = now
        busySince = now
    }

    var inFlight: Int { attempts.count }

    /// The streams that this session may have open in total.
    var capacity: Int { phase == .open ? usableLimit : 0 }

    /// The streams that it may open now.
    var free: Int {
        phase == .open && pausedUntil == nil ? max(0, min(usableLimit - attempts.count, limits.maxRequests - requests)) : 0
    }

    private var usableLimit: Int {
        let limit = max(0, min(peerLimit, limits.maxConcurrentStreams))
        guard let allowance else { return limit }
        return min(limit, allowance / SessionMachine.answersPerStream)
    }

    // MARK: Attempts

    private func report(_ slot: Int, _ outcome: Outcome) -> Effect {
        let attempt = attempts[slot]
        let isTimed = limits.recordsTimes && !attempt.isUnsent
        return .report(attempt.id, outcome, sent: isTimed ? attempt.deadline - limits.requestTimeout : nil)
    }

    /// Starts an attempt. Returns its slot, which it holds until its stream is closed. Call only while `free` is above 0.
    mutating func accepted(_ id: UInt64, now: Instant) -> Int {
        precondition(free > 0, "a session in phase \(phase) with \(attempts.count) of \(usableLimit) streams took one more")
        if attempts.count == 0 { busySince = now }
        requests += 1
        return attempts.add(id, deadline: now + limits.requestTimeout)
    }

    mutating func opened(_ stream: StreamID, at slot: Int) {
        attempts.setStream(stream, at: slot)
    }

    /// TLS took a part of the requests, after or before others that wait: their timers start when they leave.
    ///
    /// - Parameter isWritten: whether any byte of this slot's HEADERS has left for TLS.
    mutating func wrote(now: Instant, isWritten: (Int) -> Bool) {
        attempts.restart(deadline: now + limits.requestTimeout, isSent: isWritten)
    }

    /// HTTP/2 has not accepted the request: nothing of it was sent.
    mutating func notOpened(at slot: Int, _ effects: inout [Effect]) {
        effects.append(.report(attempts[slot].id, .notProcessed(.connectionLost("no stream could be opened"))))
        attempts.release(slot: slot)
        retire(because: .retired(.usedUp), &effects)
    }

    /// The response is complete and the stream is closed.
    mutating func answered(_ outcome: Outcome, stream: StreamID, at slot: Int, _ effects: inout [Effect]) {
        guard attempts.holds(stream, at: slot) else { return }
        refusals = 0
        if !attempts[slot].isReported { effects.append(report(slot, outcome)) }
        count(outcome, &effects)
        widen()
        release(slot, &effects)
    }

    private mutating func widen() {
        guard let allowance else { return }
        let isOver = allowance / SessionMachine.answersPerStream >= limits.maxConcurrentStreams
        self.allowance = isOver ? nil : allowance + 1
    }

    private mutating func count(_ outcome: Outcome, _ effects: inout [Effect]) {
        guard case .rejected(let rejection) = outcome else {
            serverErrors = 0
            return
        }
        if Self.announcesShutdown(rejection) { retire(because: .retired(.shutdownAnnounced), &effects) }
        guard rejection.status == 500 else {
            serverErrors = 0
            return
        }
        serverErrors += 1
        if serverErrors == Self.mostServerErrors { retire(because: .retired(.serverErrors), &effects) }
    }

    /// Whether the server is about to close the connection ("Handling notification responses from APNs").
    private static func announcesShutdown(_ rejection: Rejection) -> Bool {
        (rejection.status, rejection.reason) == (400, "IdleTimeout") || (rejection.status, rejection.reason) == (503, "Shutdown")
    }

    /// The stream ended without a response.
    ///
    /// - Parameter wasSent: whether HTTP/2 has sent its HEADERS.
    mutating func streamReset(
        code: UInt32, wasSent: Bool, stream: StreamID, at slot: Int, now: Instant, _ effects: inout [Effect]
    ) {
        guard attempts.holds(stream, at: slot) else { return }
        if code == Self.refusedStream && wasSent { refused(slot, now: now) }
        if !attempts[slot].isReported {
            let fault = SessionError.streamReset(code: code)
            let isUntouched = code == Self.refusedStream || !wasSent
            effects.append(report(slot, isUntouched ? .notProcessed(fault) : .maybeProcessed(fault)))
        }
        release(slot, &effects)
    }

    private mutating func refused(_ slot: Int, now: Instant) {
        let before = allowance ?? limits.maxConcurrentStreams * Self.answersPerStream
        allowance = max(before - Self.answersPerStream, Self.answersPerStream)
        if let pausedAt, attempts[slot].deadline <= pausedAt + limits.requestTimeout { return }
        if refusals > 0 { allowance = Self.answersPerStream }
        (pausedAt, pausedUntil) = (now, now + min(Self.mostPause, Self.firstPause * (1 << min(refusals, 10))))
        refusals += 1
    }

    /// The owner no longer wants these notifications: their streams are reset and end with `streamReset`.
    func cancelled(_ ids: Set<UInt64>, _ effects: inout [Effect]) {
        for slot in attempts.unreportedSlots where ids.contains(attempts[slot].id) {
            effects.append(.cancel(attempts[slot].stream))
        }
    }

    private mutating func release(_ slot: Int, _ effects: inout [Effect]) {
        attempts.release(slot: slot)
        disconnectIfDrained(&effects)
    }

    // MARK: The connection

    /// Bytes arrived.
    mutating func heard(now: Instant) {
        lastHeard = now
    }

    /// SETTINGS arrived. A lower limit does not end open streams (RFC 9113, 5.1.2).
    mutating func limitChanged(to limit: Int, _ effects: inout [Effect]) {
        let before = capacity
        peerLimit = limit
        if capacity != before { effects.append(.capacityChanged) }
    }

    /// GOAWAY arrived (`HTTP2Codec.goAwayCame` has read it). The peer may still answer streams up to and including `last`; it has
    /// not processed those above (RFC 9113, 6.8).
    mutating func receivedGoAway(last: StreamID, code: UInt32, reason: String, _ effects: inout [Effect]) {
        if phase == .closed { return }
        let fault = SessionError.goAway(code: code, reason: reason)
        for slot in attempts.unreportedSlots where attempts[slot].stream > last {
            effects.append(report(slot, .notProcessed(fault)))
            attempts.markReported(at: slot)
        }
        if phase == .open { startDraining(&effects) }
        retirement = fault
        disconnectIfDrained(&effects)
    }

    /// The response to the PING with this number arrived. A request past its time limit was then ignored by a live peer.
    mutating func pingAnswered(_ number: UInt64, now: Instant, _ effects: inout [Effect]) {
        guard phase != .closed, pingSentAt != nil, number == pingNumber else { return }
        pingSentAt = nil
        var isFirst = true
        while let deadline = attempts.deadline, deadline <= now, let slot = attempts.oldestSlot {
            effects.append(report(slot, .timedOut))
            effects.append(.cancel(attempts[slot].stream))
            attempts.markReported(at: slot)
            if isFirst { retire(because: .retired(.requestIgnored), &effects) }
            isFirst = false
        }
        disconnectIfDrained(&effects)
    }

    /// Stops accepting work, waits for the open streams, then closes.
    mutating func retire(because fault: SessionError, _ effects: inout [Effect]) {
        guard phase == .open else { return }
        retirement = fault
        startDraining(&effects)
        disconnectIfDrained(&effects)
    }

    /// - Parameter hasWindow: whether the peer admits bytes of further requests.
    mutating func observed(hasWindow: Bool, now: Instant) {
        windowlessSince = hasWindow || attempts.count > 0 ? nil : windowlessSince ?? now
    }

    /// The peer closed, or reading or writing failed. After a GOAWAY this is expected, and the GOAWAY is the reported reason.
    mutating func connectionLost(_ fault: SessionError, _ effects: inout [Effect]) {
        if case .goAway = retirement { disconnect(retirement, &effects) } else { disconnect(fault, &effects) }
    }

    /// The owner has ordered the session to end immediately.
    mutating func endedByOwner(_ effects: inout [Effect]) {
        disconnect(.closedByUs, &effects)
    }

    /// The connection is closed. An attempt that the peer cannot have seen is not processed; the others may be.
    ///
    /// - Parameter isWritten: whether any byte of this slot's HEADERS reached the socket.
    mutating func closed(because fault: SessionError, isWritten: (Int) -> Bool, _ effects: inout [Effect]) {
        phase = .closed
        pausedUntil = nil
        let isOurWish = fault == .closedByUs || fault == .retired(.sendingEnded)
        for slot in attempts.unreportedSlots {
            let outcome: Outcome = isWritten(slot) ? .maybeProcessed(fault) : .notProcessed(fault)
            if isWritten(slot) && !isOurWish { unanswered += 1 }
            effects.append(report(slot, outcome))
            attempts.markReported(at: slot)
        }
        attempts = AttemptTable()
    }

    private mutating func startDraining(_ effects: inout [Effect]) {
        phase = .draining
        effects.append(.retire)
    }

    /// Reported attempts do not keep a session open: their streams are cancelled or were never processed.
    private mutating func disconnectIfDrained(_ effects: inout [Effect]) {
        if phase == .draining && attempts.oldestSlot == nil { disconnect(retirement, &effects) }
    }

    private mutating func disconnect(_ fault: SessionError, _ effects: inout [Effect]) {
        if isDisconnecting || phase == .closed { return }
        isDisconnecting = true
        effects.append(.disconnect(fault))
    }

    // MARK: Time

    /// The next time at which `tick` has something to do.
    var deadline: Instant? {
        guard let checkDeadline else { return pausedUntil }
        var next = Earliest(checkDeadline)
        next.consider(pausedUntil)
        next.consider(windowDeadline)
        return next.instant
    }

    private var windowDeadline: Instant? { windowlessSince.map { $0 + limits.requestTimeout } }

    /// The time of the next PING, or of the end of the wait for one.
    private var checkDeadline: Instant? {
        if phase == .closed { return nil }
        if let pingSentAt { return pingSentAt + limits.pingTimeout }
        guard let deadline = attempts.deadline else { return silenceDeadline }
        return min(deadline, silenceDeadline)
    }

    private var silenceDeadline: Instant {
        if attempts.count == 0 { return lastHeard + limits.keepAlive }
        return max(lastHeard, busySince) + limits.busyKeepAlive
    }

    /// Time has passed.
    ///
    /// A request past its limit first causes a PING, whose response distinguishes a peer that ignores one request from a dead
    /// connection.
    mutating func tick(now: Instant, _ effects: inout [Effect]) {
        if phase == .closed { return }
        if phase == .open && requests >= limits.maxRequests { retire(because: .retired(.usedUp), &effects) }
        if let windowDeadline, windowDeadline <= now { retire(because: .retired(.noWindow), &effects) }
        if let pausedUntil, pausedUntil <= now { self.pausedUntil = nil }
        guard let checkDeadline, checkDeadline <= now else { return }
        if pingSentAt != nil { return disconnect(.pingUnanswered, &effects) }
        pingNumber += 1
        pingSentAt = now
        effects.append(.ping(pingNumber))
    }
}

/// The attempts of one session, by slot and in the order of their submission.
///
/// All attempts of a session have the same time limit, so this order is the order of their deadlines. A linked list through
/// the slots finds the oldest attempt at once, removes an answered one in constant time, and holds only what is in flight.
struct AttemptTable {
    struct Attempt {
        /// The notification's id.
        var id: UInt64
        var stream: StreamID = 0
        var deadline: Instant
        /// Whether its request waits for TLS: it has no deadline yet. All newer ones wait too.
        var isUnsent = false
        /// Its outcome has been reported; the slot is taken until HTTP/2 has closed the stream.
        var isReported = false
        fileprivate var older = AttemptTable.none
        fileprivate var newer = AttemptTable.none
    }

    private static let none: Int32 = -1

    private var attempts: [Attempt] = []
    private var freeSlots: [Int32] = []
    private var oldest = none
    private var newest = none

    /// Slots in use, including those of reported attempts: the number of streams that the peer counts.
    private(set) var count = 0

    subscript(slot: Int) -> Attempt { attempts[slot] }

    /// The slot of the oldest attempt that is not reported.
    var oldestSlot: Int? { oldest == Self.none ? nil : Int(oldest) }

    /// Whether the slot still holds this stream.
    func holds(_ stream: StreamID, at slot: Int) -> Bool {
        attempts.indices.contains(slot) && attempts[slot].stream == stream && stream != 0
    }

    mutating func add(_ id: UInt64, deadline: Instant) -> Int {
        let slot: Int32
        if let free = freeSlots.popLast() {
            slot = free
            attempts[Int(slot)] = Attempt(id: id, deadline: deadline)
        } else {
            slot = Int32(attempts.count)
            attempts.append(Attempt(id: id, deadline: deadline))
        }
        attempts[Int(slot)].older = newest
        if newest == Self.none { oldest = slot } else { attempts[Int(newest)].newer = slot }
        newest = slot
        count += 1
        return Int(slot)
    }

    /// The deadline of the oldest attempt that is not reported; `nil` if its request waits for TLS.
    var deadline: Instant? { oldestSlot.flatMap { attempts[$0].isUnsent ? nil : attempts[$0].deadline } }

    /// Gives the attempts whose requests have left since the last call a new deadline, and takes it from those that wait.
    ///
    /// - Parameter isSent: whether the request in this slot has left. Requests leave in the order of their submission.
    mutating func restart(deadline: Instant, isSent: (Int) -> Bool) {
        var next = newest
        while next != Self.none, attempts[Int(next)].isUnsent || !isSent(Int(next)) {
            attempts[Int(next)].isUnsent = !isSent(Int(next))
            attempts[Int(next)].deadline = deadline
            next = attempts[Int(next)].older
        }
    }

    mutating func setStream(_ stream: StreamID, at slot: Int) {
        attempts[slot].stream = stream
    }

    /// Removes the attempt from the order of deadlines; its slot stays taken.
    mutating func markReported(at slot: Int) {
        if attempts[slot].isReported { return }
        let (older, newer) = (attempts[slot].older, attempts[slot].newer)
        if older == Self.none { oldest = newer } else { attempts[Int(older)].newer = newer }
        if newer == Self.none { newest = older } else { attempts[Int(newer)].older = older }
        attempts[slot].isReported = true
    }

    /// Frees the slot for another attempt.
    mutating func release(slot: Int) {
        markReported(at: slot)
        attempts[slot].stream = 0
        freeSlots.append(Int32(slot))
        count -= 1
    }

    /// The slots of all attempts that are not reported, oldest first.
    var unreportedSlots: [Int] {
        var slots: [Int] = []
        var next = oldest
        while next != Self.none {
            slots.append(Int(next))
            next = attempts[Int(next)].newer
        }
        return slots
    }
}
