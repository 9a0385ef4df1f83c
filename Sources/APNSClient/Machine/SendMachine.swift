internal import DequeModule
internal import PushPool
internal import SystemTime

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
/// The circuit breaker decides how many may be pooled. While it is open, one push at a time is a probe, and all others fail.
struct SendMachine {
    struct Options {
        var topic: PushTopic?
        var policy: RetryPolicy
        var resendsMaybeSent: Bool
        var holdsAfterSuspectTokens: Bool
        var deadline: Duration?
    }

    private enum Phase {
        case running
        case draining(until: Instant)
        case closing, closed
    }

    /// Beyond the streams, so that sessions find work at once.
    private static let batch = 250

    /// Longer times count as this one.
    private static let longestTime = Duration.seconds(10 * 366 * 86_400)

    private let options: Options
    private var phase = Phase.running
    private var sends = SendTable()
    /// In the order of their submission. A settled send stays until its turn.
    private var backlog: Deque<SendID> = []
    /// Sends in the phase pooled.
    private var pooled = 0
    private var capacity = 0
    private var breaker = CircuitBreaker()
    private var cache = SharedHeadersCache()
    private var alarms = Alarms()
    private var outgoing: [Notification] = []
    /// Why the last dial failed; `nil` while a session is open.
    private var dialError: String?

    init(_ options: Options) { self.options = options }

    // MARK: Questions

    /// The number of sends without a result.
    var count: Int { sends.count }
    /// Alarms and places in the backlog, which may belong to sends that have a result.
    var records: Int { alarms.count + backlog.count }
    /// Their numbers, without those that are only reserved. Visits all slots.
    var ids: [SendID] { sends.ids }
    var isClosed: Bool { if case .closed = phase { true } else { false } }
    private var isRunning: Bool { if case .running = phase { true } else { false } }

    /// The earliest pending timer.
    var deadline: Instant? {
        var next = Earliest(alarms.next)
        next.consider(breaker.deadline)
        if case .draining(let until) = phase { next.consider(until) }
        return next.instant
    }

    /// Moves the notifications that may go out to `batch`, which is empty.
    mutating func takeOutgoing(into batch: inout [Notification]) { swap(&outgoing, &batch) }

    // MARK: Facts from callers

    mutating func reserve() -> SendID { sends.reserve() }

    /// - Parameter time: Unix seconds.
    mutating func submitted(_ id: SendID, _ push: Push, now: Instant, time: Int64, _ effects: inout [SendEffect]) {
        do throws(APNSError) {
            guard isRunning else { throw APNSError(.shutDown, .notSent, "the client is shutting down") }
            if breaker.isHeld && !mayProbe(now: now) { throw heldError(now: now) }
            let request = try PushRequest(push, topic: options.topic, cache: &cache, time: time)
            let deadline = (push.deadline ?? options.deadline).map { now + min($0, Self.longestTime) }
            if let deadline { alarms.set(id, at: deadline) }
            sends.fill(id, with: PendingSend(request, deadline: deadline))
            backlog.append(id)
            pump(now: now, &effects)
        } catch {
            settle(id, .failure(error), &effects)
        }
    }

    /// The caller's task was cancelled. Unknown and settled numbers have no effect.
    mutating func cancelled(_ id: SendID, now: Instant, _ effects: inout [SendEffect]) { end(id, .cancelled, &effects) }

    /// Accepts no more sends, and ends those that have no result at this time.
    mutating func stopped(until limit: Instant, now: Instant, _ effects: inout [SendEffect]) {
        switch phase {
        case .running: phase = .draining(until: min(limit, now + Self.longestTime))
        case .draining(let known): phase = .draining(until: min(known, limit))
        case .closing, .closed: break
        }
    }

    // MARK: Facts from the pool

    /// The streams that the open sessions may have open in total.
    mutating func observed(capacity: Int) { self.capacity = capacity }

    /// The pool has given this back: APNs has not seen it.
    mutating func withdrew(_ id: SendID, now: Instant, _ effects: inout [SendEffect]) {
        let wasPooled = sends.update(id) { send -> Bool in
            defer { send.phase = .waiting }
            return send.phase == .pooled
        }
        guard wasPooled == true else { return }
        pooled -= 1
        if let cause = sends[id]?.ending { return settle(id, ended: cause, .notSent, &effects) }
        if breaker.isHeld { return fail(id, with: heldError(now: now), &effects) }
        backlog.prepend(id)
    }

    /// The error of a failed request and the standard decision, for the caller's rule; `nil` if that is not asked.
    func failure(_ id: SendID, _ outcome: Outcome, random: Double) -> RetryRule.Failure? {
        guard let send = sends[id], send.ending == nil else { return nil }
        let error = self.error(of: outcome, send)
        let standard: RetryRule.Decision
        switch decide(outcome, send, random: random) {
        case .hold, .renewToken, .expire: return nil
        case .resend: standard = .resend(after: .zero)
        case .postpone(let delay), .retryLater(let delay, _): standard = .resend(after: delay)
        case .deadLetter, .suspect: standard = .giveUp
        }
        return RetryRule.Failure(push: send.request.push, error: error, standard: standard)
    }

    /// A request has ended.
    ///
    /// - Parameters:
    ///   - random: from 0 to 1, for jitter.
    ///   - decision: of the caller's rule; `nil` applies the standard rule.
    mutating func ended(
        _ id: SendID, _ outcome: Outcome, on session: SessionID, now: Instant, random: Double,
        decision: RetryRule.Decision? = nil, _ effects: inout [SendEffect]
    ) {
        switch outcome {
        case .begun: return
        case .delivered(let apnsID): return accepted(id, apnsID, now: now, &effects)
        default: break
        }
        let wasPooled = sends.update(id) { send -> Bool in
            guard send.phase == .pooled else { return false }
            send.phase = .waiting
            if outcome != .outdated { send.requests += 1 }
            return true
        }
        guard wasPooled == true, let send = sends[id] else { return }
        pooled -= 1
        failed(id, send, outcome, on: session, now: now, random: random, decision: decision, &effects)
    }

    private mutating func accepted(_ id: SendID, _ apnsID: String?, now: Instant, _ effects: inout [SendEffect]) {
        let receipt = sends.update(id) { send -> Receipt? in
            guard send.phase == .pooled else { return nil }
            return Receipt(
                apnsID: apnsID ?? send.request.push.apnsID, attempts: send.requests + 1, mayBeDuplicate: send.mayBeSent)
        }
        guard case let receipt?? = receipt else { return }
        pooled -= 1
        if !breaker.isAtRest { perform(breaker.accepted(), now: now, &effects) }
        settle(id, .success(receipt), &effects)
    }

    /// Puts waiting sends into the pool as far as it has room, and ends lost probes. Call it after the facts of a turn.
    mutating func turnEnded(now: Instant, _ effects: inout [SendEffect]) {
        if breaker.isProbing && pooled == 0 { perform(breaker.probeWasInconclusive(now: now), now: now, &effects) }
        pump(now: now, &effects)
        alarms.trim(live: sends.count) { [sends] in sends.holds($0) }
        if backlog.count > 2 * sends.count + Self.batch { backlog.removeAll { sends[$0] == nil } }
        closeIfDrained(now: now, &effects)
    }

    /// The result of `renewToken`.
    mutating func renewed(_ id: SendID, _ renewal: SessionPool.TokenRenewal, now: Instant, _ effects: inout [SendEffect]) {
        guard sends[id]?.phase == .renewingToken else { return }
        switch renewal {
        case .renewed, .alreadyRenewed: requeue(id, &effects)
        case .tooYoung, .noSigningKey:
            let error = sends[id]?.lastError ?? heldError(now: now)
            fail(id, with: error, &effects)
            perform(breaker.faulted(.credential("ExpiredProviderToken"), now: now), now: now, &effects)
        }
    }

    mutating func happened(_ event: PoolEvent, now: Instant, _ effects: inout [SendEffect]) {
        switch event {
        case .opened: dialError = nil
        case .dialFailed(_, let address, let error, _):
            dialError = "\(address): \(error.text)"
            fault(error, now: now, &effects)
        case .closed(_, _, let error): fault(error, now: now, &effects)
        case .capacityChanged, .resized, .slowed, .slowdownEnded, .tokens, .limited: break
        }
    }

    /// The pool is closed, and all its outcomes have arrived.
    mutating func poolClosed(_ effects: inout [SendEffect]) {
        phase = .closed
        for id in sends.ids { settle(id, ended: .shutDown, sends[id]?.phase == .pooled ? .maybeSent : .notSent, &effects) }
    }

    // MARK: Time

    mutating func tick(now: Instant, _ effects: inout [SendEffect]) {
        perform(breaker.tick(now: now), now: now, &effects)
        while let id = alarms.popDue(now: now) {
            guard let send = sends[id] else { continue }
            if let deadline = send.deadline, deadline <= now {
                end(id, .deadlineExceeded, &effects)
            } else if case .resting(let until) = send.phase, until <= now {
                requeue(id, &effects)
            }
        }
    }

    private mutating func closeIfDrained(now: Instant, _ effects: inout [SendEffect]) {
        guard case .draining(let limit) = phase, sends.count == 0 || limit <= now else { return }
        phase = .closing
        // The pool reports the pooled ones when it closes.
        for id in sends.ids { end(id, .shutDown, &effects) }
        effects.append(.close)
    }

    // MARK: The end of a send

    /// Ends a send without another request.
    private mutating func end(_ id: SendID, _ cause: APNSError.Cause, _ effects: inout [SendEffect]) {
        guard let send = sends[id], send.ending == nil else { return }
        guard send.phase == .pooled else { return settle(id, ended: cause, .notSent, &effects) }
        sends.update(id) { $0.ending = cause }
        effects.append(.cancel(id))
    }

    private mutating func settle(
        _ id: SendID, ended cause: APNSError.Cause, _ fate: APNSError.Fate, _ effects: inout [SendEffect]
    ) {
        guard let send = sends[id] else { return }
        if cause == .deadlineExceeded, capacity == 0, send.requests == 0 {
            let reason = dialError.map { " (\($0))" } ?? ""
            return fail(id, with: send.error(.unreachable, fate, "no session to APNs is open\(reason)"), &effects)
        }
        let last = send.lastError.map { ", after: \($0.message)" } ?? ""
        let text =
            switch cause {
            case .cancelled: "the task was cancelled"
            case .deadlineExceeded: "the deadline has passed"
            default: "the client is shutting down"
            }
        fail(id, with: send.error(cause, fate, text + last), &effects)
    }

    private mutating func fail(_ id: SendID, with error: APNSError, _ effects: inout [SendEffect]) {
        settle(id, .failure(error), &effects)
    }

    private mutating func settle(_ id: SendID, _ result: Result<Receipt, APNSError>, _ effects: inout [SendEffect]) {
        if sends.remove(id) { effects.append(.settle(id, result)) }
    }

    // MARK: Failed requests

    private func decide(_ outcome: Outcome, _ send: PendingSend, random: Double) -> RetryPolicy.Decision {
        options.policy.decide(outcome, send.standing, random: random)
    }

    private mutating func failed(
        _ id: SendID, _ send: PendingSend, _ outcome: Outcome, on session: SessionID, now: Instant, random: Double,
        decision: RetryRule.Decision?, _ effects: inout [SendEffect]
    ) {
        let error = error(of: outcome, send)
        sends.update(id) { send in
            send.avoiding = session
            send.lastError = error
            if outcome.isInDoubt { send.mayBeSent = true }
        }
        if let throttle = RetryPolicy.throttle(outcome) {
            perform(breaker.throttled(throttle.hold, for: throttle.pause, now: now), now: now, &effects)
        }
        if let cause = send.ending {
            perform(breaker.probeWasInconclusive(now: now), now: now, &effects)
            if case .rejected = outcome { return fail(id, with: error, &effects) }
            return settle(id, ended: cause, outcome.isInDoubt ? .maybeSent : .notSent, &effects)
        }
        let standard = decide(outcome, send, random: random)
        count(standard, outcome, now: now, &effects)
        switch (standard, decision) {
        case (.hold(let reason), _):
            if reason == .tokenUpdates { effects.append(.keepToken) }
            fail(id, with: error.response == nil ? send.error(.held, error.fate, HeldText(reason).text) : error, &effects)
            perform(breaker.faulted(reason, now: now), now: now, &effects)
        case (.renewToken, _):
            sends.update(id) { $0.phase = .renewingToken }
            effects.append(.renewToken(id, refusedOn: session))
        case (.expire, _), (_, .giveUp): fail(id, with: error, &effects)
        case (_, .resend(let delay)):
            resend(id, after: delay, isCounted: true, mayDuplicate: outcome.isInDoubt, now: now, &effects)
        case (.resend(let mayDuplicate), nil):
            if mayDuplicate && !options.resendsMaybeSent { return fail(id, with: error, &effects) }
            resend(id, after: .zero, isCounted: false, mayDuplicate: mayDuplicate, now: now, &effects)
        case (.postpone(let delay), nil):
            resend(id, after: delay, isCounted: false, mayDuplicate: false, now: now, &effects)
        case (.retryLater(let delay, _), nil):
            if outcome.isInDoubt && !options.resendsMaybeSent { return fail(id, with: error, &effects) }
            resend(id, after: delay, isCounted: true, mayDuplicate: false, now: now, &effects)
        case (.deadLetter, nil), (.suspect, nil): fail(id, with: error, &effects)
        }
    }

    /// Tells the circuit breaker.
    private mutating func count(
        _ standard: RetryPolicy.Decision, _ outcome: Outcome, now: Instant, _ effects: inout [SendEffect]
    ) {
        switch standard {
        case .suspect where options.holdsAfterSuspectTokens: perform(breaker.suspected(now: now), now: now, &effects)
        case .suspect: perform(breaker.answered(), now: now, &effects)
        case .deadLetter where RetryPolicy.isResponseAboutJob(outcome): perform(breaker.answered(), now: now, &effects)
        case .deadLetter, .expire, .retryLater: perform(breaker.probeWasInconclusive(now: now), now: now, &effects)
        case .resend, .postpone, .hold, .renewToken: break
        }
    }

    private mutating func resend(
        _ id: SendID, after delay: Duration, isCounted: Bool, mayDuplicate: Bool, now: Instant,
        _ effects: inout [SendEffect]
    ) {
        guard let send = sends[id] else { return }
        sends.update(id) { send in
            send.attempts += isCounted ? 1 : 0
            send.resends += isCounted ? 0 : 1
            send.doubtful += mayDuplicate ? 1 : 0
        }
        let delay = min(delay, Self.longestTime)
        if delay <= .zero { return requeue(id, &effects) }
        // The caller learns the cause now instead of a passed deadline later.
        if let deadline = send.deadline, let error = sends[id]?.lastError, deadline <= now + delay {
            return fail(id, with: error, &effects)
        }
        sends.update(id) { $0.phase = .resting(until: now + delay) }
        alarms.set(id, at: now + delay)
    }

    private mutating func requeue(_ id: SendID, _ effects: inout [SendEffect]) {
        sends.update(id) { $0.phase = .waiting }
        backlog.prepend(id)
    }

    /// - Parameter send: as it was before the outcome, apart from the number of requests.
    private func error(of outcome: Outcome, _ send: PendingSend) -> APNSError {
        switch outcome {
        case .rejected(let rejection):
            var error = send.error(.rejected, .rejected, rejection.text)
            error.response = APNSError.Response(
                status: rejection.status, reason: rejection.reason, apnsID: rejection.apnsID, timestamp: rejection.timestamp)
            error.retryAfter = rejection.retryAfter
            error.token =
                switch RetryTable.meaning(of: rejection.status, rejection.reason) {
                case .deadToken: .dead
                case .suspectToken: .suspect
                default: .none
                }
            return error
        case .notProcessed(let error): return send.error(.connectionLost, .notSent, error.text)
        case .maybeProcessed(let error): return send.error(.connectionLost, .maybeSent, error.text)
        case .timedOut: return send.error(.noResponse, .maybeSent, "no response within the request timeout")
        case .outdated: return send.error(.expired, .notSent, "the expiration passed before the push could be sent")
        case .delivered, .begun: preconditionFailure("\(outcome) is not a failed request")
        }
    }

    // MARK: The circuit breaker

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

    private mutating func failWaiting(now: Instant, _ effects: inout [SendEffect]) {
        while let id = backlog.popFirst() {
            if let send = sends[id], send.phase == .waiting { fail(id, with: heldError(now: now, send), &effects) }
        }
    }

    private mutating func fault(_ error: SessionError, now: Instant, _ effects: inout [SendEffect]) {
        guard let reason = HoldReason(error) else { return }
        perform(breaker.faulted(reason, now: now), now: now, &effects)
    }

    /// Whether the next send is the probe of the open breaker.
    private func mayProbe(now: Instant) -> Bool { capacity > 0 && pooled < breaker.allowance(now: now) }

    private func heldError(now: Instant, _ send: PendingSend? = nil) -> APNSError {
        let text = breaker.holdReason.map(HeldText.init)?.text ?? "the client is held"
        var error = send?.error(.held, .notSent, text) ?? APNSError(.held, .notSent, text)
        error.retryAfter = breaker.nextProbe.map { max(.zero, $0 - now) }
        return error
    }

    // MARK: The pool

    private func limit(now: Instant) -> Int {
        min(capacity + min(capacity, Self.batch), breaker.allowance(now: now))
    }

    private mutating func pump(now: Instant, _ effects: inout [SendEffect]) {
        while !backlog.isEmpty && pooled < limit(now: now) {
            guard let id = backlog.popFirst() else { return }
            let notification = sends.update(id) { send -> Notification? in
                guard send.phase == .waiting else { return nil }
                send.phase = .pooled
                return send.request.notification(id: id.rawValue, avoiding: send.avoiding)
            }
            guard case let notification?? = notification else { continue }
            pooled += 1
            breaker.sent()
            outgoing.append(notification)
        }
        // Beside the probe, nothing waits for an open breaker.
        if breaker.isHeld { failWaiting(now: now, &effects) }
    }
}
