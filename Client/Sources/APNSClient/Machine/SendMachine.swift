internal import Platform
internal import PushPool

/// Decides what happens to each push between `send` and its result: takes facts and returns effects. It knows no thread, no pool
/// and no clock. Every send gets exactly one result.
///
///     send           fact                                         next
///     reserved       submitted                                    waiting, then pooled as far as the pool has room
///     waiting        room in the pool                             pooled
///     waiting        cancelled, deadline, held, time to stop      settled: not sent
///     pooled         200                                          settled: receipt
///     pooled         another outcome                              as `RetryPolicy` or the caller's rule decides
///     pooled         cancelled, deadline, time to stop            ending: taken back, or its stream is reset
///     ending         withdrawn, or an outcome                     settled
///     resting        end of the rest                              waiting
///     resting        cancelled, deadline, time to stop            settled
///     renewing       another token                                waiting
///
/// The circuit breaker decides how many may be pooled. While it is open, single pushes are probes, and all others fail.
struct SendMachine {
    struct Options {
        /// The topic of pushes that name none.
        var topic: PushTopic?
        var policy: RetryPolicy
        var resendsMaybeSent: Bool
        var holdsAfterSuspectTokens: Bool
        var deadline: Duration?
    }

    /// Longer times count as this one.
    private static let longestTime = Duration.seconds(10 * 366 * 86_400)

    private var options: Options
    private var sends = OpenSends()
    private var pool = PoolState()
    /// Decides how many sends may be in the pool. While it is open, single sends are probes, and all others fail with its error.
    private var breaker = CircuitBreaker()
    private var shutdown = Shutdown()
    private var cache = SharedHeadersCache()

    init(_ options: Options) { self.options = options }

    // MARK: Questions

    /// The number of sends without a result.
    var count: Int { sends.count }
    /// Records about sends, also about some that have a result.
    var records: Int { sends.records }
    /// Their numbers, without those that are only reserved. Visits all slots.
    var ids: [SendID] { sends.ids }
    var isClosed: Bool { shutdown.isComplete }
    var isHeld: Bool { breaker.isHeld }
    var holdReason: HoldReason? { breaker.holdReason }

    /// The earliest pending timer.
    var deadline: Instant? {
        var next = Earliest(sends.deadline)
        next.consider(breaker.deadline)
        next.consider(shutdown.deadline)
        return next.instant
    }

    /// Moves the notifications that may go out to `batch`, which is empty.
    mutating func takeOutgoing(into batch: inout [Notification]) { pool.takeOutgoing(into: &batch) }

    // MARK: Facts from callers

    mutating func reserve() -> SendID { sends.reserve() }

    /// - Parameter time: Unix seconds.
    mutating func submitted(_ id: SendID, _ push: Push, now: Instant, time: Int64, _ effects: inout [SendEffect]) {
        do throws(APNSError) {
            if shutdown.isOrdered { throw APNSError(.shutDown, .notSent, "the client is shutting down") }
            if breaker.isHeld && !hasRoom(now: now) { throw heldError(now: now) }
            let request = try PushRequest(push, topic: options.topic, cache: &cache, time: time)
            let deadline = (push.deadline ?? options.deadline).map { now + min($0, Self.longestTime) }
            sends.add(PendingSend(request, deadline: deadline), as: id)
            pump(now: now, &effects)
        } catch {
            fail(id, with: error, &effects)
        }
    }

    /// The caller's task was cancelled. Unknown and settled numbers have no effect.
    mutating func cancelled(_ id: SendID, now: Instant, _ effects: inout [SendEffect]) { end(id, .cancelled, &effects) }

    /// Accepts no more sends, and ends those that have no result at this time.
    mutating func stopped(until limit: Instant, now: Instant, _ effects: inout [SendEffect]) {
        shutdown.order(until: min(limit, now + Self.longestTime))
    }

    /// Another credential is in use from now on. It may be accepted where the earlier one was not.
    mutating func replacedCredential(topic: PushTopic?) {
        options.topic = topic
        breaker = CircuitBreaker()
    }

    // MARK: Facts from the pool

    /// The streams that the open sessions may have open in total.
    mutating func observed(capacity: Int) { pool.observed(capacity: capacity) }

    /// The pool has given this back: APNs has not seen it.
    mutating func withdrew(_ id: SendID, now: Instant, _ effects: inout [SendEffect]) {
        guard sends[id]?.leavePool() == true, let send = sends[id] else { return }
        pool.removed()
        if let cause = send.ending { return settle(id, ended: cause, .notSent, &effects) }
        if breaker.isHeld { return fail(id, with: heldError(send, now: now), &effects) }
        sends.requeue(id)
    }

    /// The error of a failed request and the standard decision, for the caller's rule; `nil` if that is not asked.
    func failure(_ id: SendID, _ outcome: Outcome, on session: SessionID, random: Double) -> RetryRule.Failure? {
        guard var send = sends[id], send.ending == nil else { return nil }
        let error = send.failed(outcome, on: session)
        return NextStep.standard(options.policy.decide(outcome, send.standing, random: random)).map {
            RetryRule.Failure(push: send.request.push, error: error, standard: $0)
        }
    }

    /// A request has ended.
    ///
    /// - Parameters:
    ///   - isCurrent: whether the session presents the credential that is in use now.
    ///   - random: from 0 to 1, for jitter.
    ///   - decision: of the caller's rule; `nil` applies the standard rule.
    mutating func ended(
        _ id: SendID, _ outcome: Outcome, on session: SessionID, isCurrent: Bool, now: Instant, random: Double,
        decision: RetryRule.Decision? = nil, _ effects: inout [SendEffect]
    ) {
        switch outcome {
        case .begun: return
        case .delivered(let acceptance): return accepted(id, acceptance, isCurrent: isCurrent, now: now, &effects)
        default: break
        }
        guard sends[id]?.leavePool() == true, let error = sends[id]?.failed(outcome, on: session), let send = sends[id] else {
            return
        }
        pool.removed()
        if let cause = send.ending {
            if isCurrent { judge(outcome, nil, now: now, &effects) }
            if case .rejected = outcome { return fail(id, with: error, &effects) }
            return settle(id, ended: cause, error.fate, &effects)
        }
        let standard = options.policy.decide(outcome, send.standing, random: random)
        if isCurrent { judge(outcome, standard, now: now, &effects) }
        let mayDuplicate = outcome.isInDoubt
        let mayResend = !mayDuplicate || options.resendsMaybeSent
        switch NextStep(standard, own: decision, mayDuplicate: mayDuplicate, mayResend: mayResend, isCurrent: isCurrent) {
        case .fail: fail(id, with: error, &effects)
        case .resend(let delay, let isCounted, let mayDuplicate):
            sends[id]?.standing.resent(isCounted: isCounted, mayDuplicate: mayDuplicate)
            resend(id, after: min(delay, Self.longestTime), unless: error, now: now, &effects)
        case .hold(let reason):
            if reason == .tokenUpdates { effects.append(.keepToken) }
            fail(id, with: error.response == nil ? send.error(.held, error.fate, reason.sentences.client) : error, &effects)
            perform(breaker.faulted(reason, now: now), now: now, &effects)
        case .renewToken:
            sends[id]?.phase = .renewingToken
            effects.append(.renewToken(id, refusedOn: session))
        }
    }

    private mutating func accepted(
        _ id: SendID, _ acceptance: Acceptance?, isCurrent: Bool, now: Instant, _ effects: inout [SendEffect]
    ) {
        guard let receipt = sends[id]?.receipt(acceptance) else { return }
        pool.removed()
        if (isCurrent || !breaker.isHeld) && !breaker.isAtRest { perform(breaker.accepted(), now: now, &effects) }
        settle(id, .success(receipt), &effects)
    }

    /// The result of `renewToken`.
    mutating func renewed(_ id: SendID, _ renewal: SessionPool.TokenRenewal, now: Instant, _ effects: inout [SendEffect]) {
        guard let send = sends[id], send.phase == .renewingToken else { return }
        switch renewal {
        case .renewed, .alreadyRenewed: sends.requeue(id)
        case .tooYoung, .noSigningKey:
            fail(id, with: send.lastError ?? heldError(send, now: now), &effects)
            perform(breaker.faulted(.credential("ExpiredProviderToken"), now: now), now: now, &effects)
        }
    }

    /// - Parameter isCurrent: for a dial or a session that failed, whether it used the credential that is in use now.
    mutating func happened(_ event: PoolEvent, isCurrent: Bool, now: Instant, _ effects: inout [SendEffect]) {
        switch event {
        case .opened: pool.opened()
        case .dialFailed(_, let address, let error, _):
            pool.dialFailed("\(address): \(error.text)")
            if isCurrent { sessionFailed(error, now: now, &effects) }
        case .closed(_, _, let error): if isCurrent { sessionFailed(error, now: now, &effects) }
        case .capacityChanged, .resized, .slowed, .slowdownEnded, .credentialRefused, .tokens, .limited: break
        }
    }

    /// The pool is closed, and all its outcomes have arrived.
    mutating func poolClosed(_ effects: inout [SendEffect]) {
        shutdown.poolClosed()
        for id in sends.ids { settle(id, ended: .shutDown, sends[id]?.phase == .pooled ? .maybeSent : .notSent, &effects) }
    }

    // MARK: Time

    mutating func tick(now: Instant, _ effects: inout [SendEffect]) {
        perform(breaker.tick(now: now, isAwaiting: !pool.isEmpty), now: now, &effects)
        while let (id, send) = sends.popDue(now: now) {
            if let deadline = send.deadline, deadline <= now {
                end(id, .deadlineExceeded, &effects)
            } else if case .resting(let until) = send.phase, until <= now {
                sends.requeue(id)
            }
        }
    }

    /// Puts waiting sends into the pool as far as it has room, and ends lost probes. Call it after the facts of a turn.
    mutating func turnEnded(now: Instant, _ effects: inout [SendEffect]) {
        if pool.isEmpty { perform(breaker.probesWereLost(now: now), now: now, &effects) }
        pump(now: now, &effects)
        sends.trim()
        guard shutdown.endDrain(isIdle: sends.count == 0, now: now) else { return }
        // The pool reports the sends in it when it closes.
        for id in sends.ids { end(id, .shutDown, &effects) }
        effects.append(.close)
    }

    // MARK: The end of a send

    /// Ends a send without another request.
    private mutating func end(_ id: SendID, _ cause: APNSError.Cause, _ effects: inout [SendEffect]) {
        guard let send = sends[id], send.ending == nil else { return }
        guard send.phase == .pooled else { return settle(id, ended: cause, .notSent, &effects) }
        sends[id]?.ending = cause
        effects.append(.cancel(id))
    }

    private mutating func settle(
        _ id: SendID, ended cause: APNSError.Cause, _ fate: APNSError.Fate, _ effects: inout [SendEffect]
    ) {
        guard let send = sends[id] else { return }
        if cause == .deadlineExceeded, send.requests == 0, let text = pool.unreachable {
            return fail(id, with: send.error(.unreachable, fate, text), &effects)
        }
        fail(id, with: send.error(ended: cause, fate), &effects)
    }

    private mutating func fail(_ id: SendID, with error: APNSError, _ effects: inout [SendEffect]) {
        settle(id, .failure(error), &effects)
    }

    private mutating func settle(_ id: SendID, _ result: Result<Receipt, APNSError>, _ effects: inout [SendEffect]) {
        if sends.remove(id) { effects.append(.settle(id, result)) }
    }

    // MARK: The way to the pool

    /// The caller learns the cause now instead of a passed deadline later.
    private mutating func resend(
        _ id: SendID, after delay: Duration, unless error: APNSError, now: Instant, _ effects: inout [SendEffect]
    ) {
        if delay <= .zero { return sends.requeue(id) }
        if let deadline = sends[id]?.deadline, deadline <= now + delay { return fail(id, with: error, &effects) }
        sends.rest(id, until: now + delay)
    }

    private func hasRoom(now: Instant) -> Bool { pool.hasRoom(allowance: breaker.allowance(now: now)) }

    private mutating func pump(now: Instant, _ effects: inout [SendEffect]) {
        while hasRoom(now: now), let notification = sends.nextNotification() {
            pool.add(notification)
            breaker.sent()
        }
        // Beside the probe, nothing waits for an open breaker.
        if breaker.isHeld { failWaiting(now: now, &effects) }
    }

    private mutating func failWaiting(now: Instant, _ effects: inout [SendEffect]) {
        while let (id, send) = sends.popWaiting() { fail(id, with: heldError(send, now: now), &effects) }
    }

    // MARK: The breaker

    /// The error of a send that the open breaker stops.
    private func heldError(_ send: PendingSend? = nil, now: Instant) -> APNSError {
        let text = breaker.holdReason?.sentences.client ?? "the client is held"
        var error = send?.error(.held, .notSent, text) ?? APNSError(.held, .notSent, text)
        error.retryAfter = breaker.nextProbe.map { max(.zero, $0 - now) }
        return error
    }

    /// A request has failed.
    ///
    /// - Parameter decision: of the standard rule; `nil` if the send ends in any case.
    private mutating func judge(
        _ outcome: Outcome, _ decision: RetryPolicy.Decision?, now: Instant, _ effects: inout [SendEffect]
    ) {
        if let throttle = RetryPolicy.throttle(outcome) {
            perform(breaker.throttled(throttle.hold, for: throttle.pause, now: now), now: now, &effects)
        }
        switch decision {
        case .suspect:
            let changes = options.holdsAfterSuspectTokens ? breaker.suspected(now: now) : breaker.answered()
            perform(changes, now: now, &effects)
        case .deadLetter where RetryPolicy.isResponseAboutJob(outcome): perform(breaker.answered(), now: now, &effects)
        case .deadLetter, .expire, .retryLater, nil: perform(breaker.probeWasInconclusive(now: now), now: now, &effects)
        case .resend, .postpone, .hold, .renewToken: break
        }
    }

    /// A session or a dial has failed.
    private mutating func sessionFailed(_ error: SessionError, now: Instant, _ effects: inout [SendEffect]) {
        if let reason = HoldReason(error) { perform(breaker.faulted(reason, now: now), now: now, &effects) }
    }

    private mutating func perform(_ changes: [CircuitBreaker.Effect], now: Instant, _ effects: inout [SendEffect]) {
        for change in changes {
            switch change {
            case .hold:
                effects.append(.takeBack)
                failWaiting(now: now, &effects)
            case .reconnect: effects.append(.reconnect)
            case .resume, .settleSuspects: break
            }
        }
    }
}

/// The actions that the shell performs for the machine. Notifications go to the pool after all effects.
enum SendEffect: Equatable {
    /// The only result of this send.
    case settle(SendID, Result<Receipt, APNSError>)
    /// Take it back from the pool, or reset its stream.
    case cancel(SendID)
    /// Take back all that no session has taken.
    case takeBack
    /// Replace every session.
    case reconnect
    case renewToken(SendID, refusedOn: SessionID)
    case keepToken
    /// Close the pool and report what it still had.
    case close
}

/// The pool as the machine sees it: its streams, the number of sends in it, and the notifications that follow.
struct PoolState {
    /// Beyond the streams, so that sessions find work at once.
    private static let batch = 250

    private var capacity = 0
    private var count = 0
    private var outgoing: [Notification] = []
    /// The reason why the last dial failed; `nil` while a session is open.
    private var dialError: String?

    var isEmpty: Bool { count == 0 }

    /// The error text of a send that no session could take; `nil` if there are sessions.
    var unreachable: String? {
        capacity > 0 ? nil : "no session to APNs is open" + (dialError.map { " (\($0))" } ?? "")
    }

    /// - Parameter capacity: the streams that the open sessions may have open in total.
    mutating func observed(capacity: Int) { self.capacity = capacity }
    mutating func opened() { dialError = nil }
    mutating func dialFailed(_ text: String) { dialError = text }

    /// - Parameter allowance: of the circuit breaker.
    func hasRoom(allowance: Int) -> Bool { count < min(capacity + min(capacity, Self.batch), allowance) }

    mutating func add(_ notification: Notification) {
        count += 1
        outgoing.append(notification)
    }

    /// A send has left the pool.
    mutating func removed() { count -= 1 }

    /// Moves the notifications that may go out to `batch`, which is empty.
    mutating func takeOutgoing(into batch: inout [Notification]) { swap(&outgoing, &batch) }
}

/// The progress of a client's shutdown.
///
///     phase      fact                            next
///     running    order                           draining
///     draining   order with an earlier limit     draining until then
///     draining   no send is left, or the limit   closing
///     any        the pool is closed              closed
struct Shutdown {
    private enum Phase {
        case running
        case draining(until: Instant)
        case closing, closed
    }

    private var phase = Phase.running

    /// Whether no send is accepted any more.
    var isOrdered: Bool { if case .running = phase { false } else { true } }
    /// Whether the pool is closed.
    var isComplete: Bool { if case .closed = phase { true } else { false } }
    /// The limit of the drain.
    var deadline: Instant? { if case .draining(let limit) = phase { limit } else { nil } }

    mutating func order(until limit: Instant) {
        switch phase {
        case .running: phase = .draining(until: limit)
        case .draining(let known): phase = .draining(until: min(known, limit))
        case .closing, .closed: break
        }
    }

    /// Begins to close the pool if the drain is over. Returns true once.
    mutating func endDrain(isIdle: Bool, now: Instant) -> Bool {
        guard case .draining(let limit) = phase, isIdle || limit <= now else { return false }
        phase = .closing
        return true
    }

    mutating func poolClosed() { phase = .closed }
}
