import Platform

/// Decides which sessions a pool dials, keeps and ends. Knows no thread, no socket and no clock.
///
/// The pool keeps `target` sessions of the current generation. New settings or a credential start a new generation, whose
/// sessions replace the older ones. If APNs has accepted the older generation, the new one is on trial: the older sessions
/// stay until APNs has accepted the new generation. If it refuses that one, the pool returns to the older generation.
///
/// Apple treats connections that open and close in quick succession as an attack ("Establishing a connection to APNs"), so
/// dials are limited twice: after a failure there is one dial at a time with growing backoff, and a budget limits all other
/// dials.
///
/// The effects of each message on one session, and its next phase. `PoolTableTests` compares this table with the code.
///
/// | message | dialing | open | draining |
/// |---|---|---|---|
/// | `opened` | opened → open | | opened, drain |
/// | `opened`, the pool closes | opened, end → open | | opened, end |
/// | `dialFailed` | dialFailed → gone | | |
/// | `dialAbandoned` | → gone | | → gone |
/// | `retired` | | capacityChanged → draining | capacityChanged |
/// | `ended` | | closed → gone | closed → gone |
/// | `proved`, on trial | | adopt, drain the older one | |
/// | `refused`, on trial | | revert, drain → draining | |
/// | `refused`, of an older generation | | drain → draining | - |
/// | `retire`, on trial | | revert, drain → draining | |
/// | `retire`, of an older generation | | drain → draining | - |
/// | `reconnect` | drain | drain → draining | - |
/// | `replace` | drain | - | - |
/// | `resize` to 0 | drain → draining | drain → draining | - |
/// | `finish` | drain → draining | drain → draining | - |
/// | `close` | end | end | end |
///
/// An empty cell cannot occur. A failed dial, `mustSlowDown`, and a short life without a response count as one failure per round.
struct PoolMachine {
    enum Effect: Equatable {
        case dial(SessionID, startsSlowly: Bool)
        /// Stop accepting work, wait for the open streams, then close. A session that is still dialling gives up.
        case drain(SessionID)
        /// Close immediately, whatever is in flight.
        case end(SessionID)
        case tell(PoolEvent)
        /// The trial has ended: the new settings and the new credential are in use.
        case adopt
        /// APNs refuses the credential on trial, with this text: return to the previous settings and credential.
        case revert(String)
    }

    enum Phase { case dialing, open, draining }

    private struct Session {
        var phase = Phase.dialing
        var generation: Int
        /// The round of dials in which it began. All failures of one round have the same cause and count once.
        var round: Int
        var openedAt: Instant?
        /// Whether its early end has been counted.
        var isCounted = false
    }

    /// A session that ends sooner without a response counts as a failed dial.
    static let shortLife: Duration = .seconds(10)
    /// Dials per second that a pool may sustain, and those allowed at once in addition to two per session.
    static let dialsPerSecond = 4.0
    static let spareDials = 8.0
    /// After a session broke with requests in flight, sessions dialled within this time start slowly: the next one may break
    /// as well, and then everything in flight is resent.
    static let wariness: Duration = .seconds(60)
    /// The time after which a refused configuration is tried again: the longest wait between two probes of a held app.
    static let retryInterval = Duration.seconds(60)

    private(set) var target: Int
    private var pauses: DialPauses
    private var sessions: [SessionID: Session] = [:]
    /// Changed by new settings and credentials; sessions of other generations only drain, except on trial.
    private var generation = 0
    private var lastGeneration = 0
    /// Whether APNs has accepted the credential of this generation and not refused it since.
    private var isProven = false
    /// The generation that stays while the present one is on trial.
    private var base: Int?
    /// The time of the next trial of settings and a credential that APNs refused.
    private var retryAt: Instant?
    /// Sessions of older generations stay until new ones are open.
    private var isReplacing = false
    private var isClosing = false
    /// The sessions wait for their streams and end, and no other follows.
    private(set) var isFinishing = false
    /// The time at which a trial ends without a session that could prove the new settings, and the last failed dial.
    private var trialEnd: Instant?
    private var trialFault = ""

    private var brokeAt: Instant?
    private var budget: Double
    private var budgetAt: Instant

    init(target: Int, backoff: Backoff, now: Instant) {
        self.target = target
        pauses = DialPauses(backoff, now: now)
        budget = Double(2 * target) + PoolMachine.spareDials
        budgetAt = now
    }

    var isOnTrial: Bool { base != nil }

    /// `nil` once the session is gone.
    func phase(of id: SessionID) -> Phase? { sessions[id]?.phase }

    /// Whether the pool is closed and has no sessions.
    var isDone: Bool { (isClosing || isFinishing) && sessions.isEmpty }

    // MARK: Messages from sessions

    mutating func opened(_ id: SessionID, address: String, streams: Int, now: Instant) -> [Effect] {
        guard let session = sessions[id] else { return [] }
        let isWanted = session.phase == .dialing && session.generation == generation
        sessions[id]?.phase = isWanted ? .open : .draining
        sessions[id]?.openedAt = now
        let effects = [Effect.tell(.opened(id, address: address, streams: streams))]
        if isClosing { return effects + [.end(id)] }
        return effects + (isWanted ? drainReplaced() : [.drain(id)])
    }

    /// The session accepts no more work and waits for its open streams.
    mutating func retired(_ id: SessionID, hasServed: Bool, now: Instant, random: Double) -> [Effect] {
        guard let session = sessions[id] else { return [] }
        judge(id, hasServed: hasServed, isOurWish: session.phase == .draining, now: now, random: random)
        sessions[id]?.phase = .draining
        return [.tell(.capacityChanged)] + endTrialIfAlone()
    }

    mutating func ended(
        _ id: SessionID, address: String, _ fault: SessionError, hasServed: Bool, unanswered: Int = 0,
        now: Instant, random: Double
    ) -> [Effect] {
        guard let session = sessions[id] else { return [] }
        if unanswered > 0 { brokeAt = now }
        judge(id, hasServed: hasServed, isOurWish: session.phase == .draining, now: now, random: random)
        sessions[id] = nil
        return [.tell(.closed(id, address: address, fault))] + (judgeCredential(of: session, fault) ?? endTrialIfAlone())
    }

    mutating func dialFailed(_ id: SessionID, address: String, _ fault: SessionError, now: Instant, random: Double) -> [Effect] {
        guard let session = sessions.removeValue(forKey: id) else { return [] }
        if isClosing || session.generation != generation { return [] }
        pauses.failed(inRound: session.round, now: now, random: random)
        if isOnTrial { trialFault = fault.text }
        let event = PoolEvent.dialFailed(id, address: address, fault, retryIn: pauses.nextDial - now)
        return [.tell(event)] + (judgeCredential(of: session, fault) ?? [])
    }

    mutating func dialAbandoned(_ id: SessionID) {
        sessions[id] = nil
    }

    /// A session received ENHANCE_YOUR_CALM (RFC 9113, 7): it drains, and counts as a failed dial even if it has served
    /// requests.
    mutating func mustSlowDown(_ id: SessionID, now: Instant, random: Double) {
        guard let session = sessions[id], !session.isCounted, session.generation == generation else { return }
        sessions[id]?.isCounted = true
        pauses.failed(inRound: session.round, now: now, random: random)
    }

    /// Counts a session that ends early without a response as a failure. A session that served or lived long resets the count.
    private mutating func judge(_ id: SessionID, hasServed: Bool, isOurWish: Bool, now: Instant, random: Double) {
        guard let session = sessions[id], let openedAt = session.openedAt, !session.isCounted, !isOurWish else { return }
        sessions[id]?.isCounted = true
        if hasServed || now - openedAt >= PoolMachine.shortLife {
            pauses.end(now: now)
        } else if session.generation == generation {
            pauses.failed(inRound: session.round, now: now, random: random)
        }
    }

    // MARK: The credential

    /// APNs has not refused the credential of a session.
    ///
    /// - Parameter isAcceptance: false if it has rejected a device token, which a wrong environment would explain: that ends a
    ///   trial, but does not justify the next one.
    mutating func proved(_ id: SessionID, isAcceptance: Bool = true) -> [Effect] {
        guard let session = sessions[id], session.generation == generation else { return [] }
        if isAcceptance { isProven = true }
        guard isOnTrial else { return [] }
        base = nil
        if isComplete { return [.adopt] + finishReplacing() }
        return [.adopt] + (0..<openCount).flatMap { _ in drainReplaced() }
    }

    /// APNs has refused the credential of a session, with this text.
    mutating func refused(_ id: SessionID, because reason: String) -> [Effect] {
        guard let session = sessions[id] else { return [] }
        if session.generation != generation { return retire(id) }
        isProven = false
        return revert(because: reason)
    }

    /// The sessions of the previous generation go on working, and those on trial drain.
    private mutating func revert(because reason: String) -> [Effect] {
        guard let base else { return [] }
        (generation, self.base) = (base, nil)
        (isProven, isReplacing) = (true, false)
        return [.revert(reason)] + letGo { _ in true }
    }

    /// A trial without an open session ends: the new server cannot be reached.
    mutating func endTrial(now: Instant) -> [Effect] {
        guard isOnTrial, let trialEnd, trialEnd <= now else { return [] }
        if openCount > 0 {
            // It waits for a push.
            self.trialEnd = now + Self.retryInterval
            return []
        }
        return revert(because: "no session within \(Self.retryInterval.components.seconds) s: \(trialFault)")
    }

    /// Reverts if the session was on trial and ended because of its credential.
    private mutating func judgeCredential(of session: Session, _ fault: SessionError) -> [Effect]? {
        guard session.generation == generation, let reason = HoldReason(fault) else { return nil }
        if isOnTrial { return revert(because: fault.text) }
        if case .credential = reason { isProven = false }
        return nil
    }

    /// The refused settings and credential will be tried again.
    mutating func tryAgainLater(now: Instant) { retryAt = now + Self.retryInterval }

    /// Whether to try them again now. While the pool has no session to return to, it would give up a credential that works.
    mutating func mustTryAgain(now: Instant) -> Bool {
        guard let retryAt, retryAt <= now else { return false }
        self.retryAt = mayTryAgain ? nil : now + Self.retryInterval
        return mayTryAgain
    }

    /// Whether the credential in use is refused as well, or has an open session, to which the pool can return.
    var mayTryAgain: Bool { !isProven || openCount > 0 }

    /// Ends a trial without result if the previous generation has no more session that works.
    private mutating func endTrialIfAlone() -> [Effect] {
        if base == nil || sessions.values.contains(where: { $0.generation == base && $0.phase == .open }) { return [] }
        base = nil
        return [.adopt]
    }

    // MARK: Orders from the owner

    mutating func reconnect(now: Instant) -> [Effect] {
        let wasOnTrial = isOnTrial
        beginGeneration(now: now)
        (isReplacing, base) = (false, nil)
        return (wasOnTrial ? [.adopt] : []) + letGo { _ in true }
    }

    /// Drains an old session whose credential is refused, although no new one has opened in its place. If it is on trial, the
    /// trial ends.
    mutating func retire(_ id: SessionID) -> [Effect] {
        guard let session = sessions[id] else { return [] }
        if session.generation == generation { return revert(because: "a topic of the settings") }
        guard session.phase == .open else { return [] }
        sessions[id]?.phase = .draining
        return [.drain(id)] + endTrialIfAlone()
    }

    mutating func replace(target: Int, backoff: Backoff, now: Instant) -> [Effect] {
        self.target = target
        pauses.backoff = backoff
        retryAt = nil
        let proven = base ?? (isProven ? generation : nil)
        beginGeneration(now: now)
        isReplacing = true
        base = sessions.values.contains { $0.generation == proven && $0.phase == .open } ? proven : nil
        (trialEnd, trialFault) = (isOnTrial ? now + Self.retryInterval : nil, "no response")
        return letGo { [base] in $0.phase == .dialing || base != nil && $0.generation != base }
    }

    /// Changes the number of sessions. Surplus sessions drain: first those that are dialling, then the youngest.
    mutating func resize(to target: Int) -> [Effect] {
        self.target = target
        let own = sessions.filter { $0.value.generation == generation && $0.value.phase != .draining }
        let youngest = own.keys.sorted { left, right in
            let (leftIsOpen, rightIsOpen) = (own[left]?.phase == .open, own[right]?.phase == .open)
            return leftIsOpen == rightIsOpen ? left > right : rightIsOpen
        }
        let surplus = youngest.prefix(max(0, own.count - target)).map { id in
            sessions[id]?.phase = .draining
            return Effect.drain(id)
        }
        return surplus + finishReplacing()
    }

    /// Drains every session, of any generation, and dials no other.
    mutating func finish() -> [Effect] {
        (isFinishing, target, base, retryAt) = (true, 0, nil, nil)
        return sessions.keys.sorted().compactMap { id in
            if sessions[id]?.phase == .draining { return nil }
            sessions[id]?.phase = .draining
            return .drain(id)
        }
    }

    mutating func close() -> [Effect] {
        isClosing = true
        return sessions.keys.sorted().map { .end($0) }
    }

    private mutating func beginGeneration(now: Instant) {
        lastGeneration += 1
        generation = lastGeneration
        isProven = false
        pauses.end(now: now)
    }

    /// Drains sessions of other generations, including those that are dialling: they may have opened and taken work before
    /// this machine receives the message.
    private mutating func letGo(where isWanted: (borrowing Session) -> Bool) -> [Effect] {
        var effects: [Effect] = []
        for id in sessions.keys.sorted() {
            guard let session = sessions[id], session.generation != generation, isWanted(session) else { continue }
            switch session.phase {
            case .dialing: effects.append(.drain(id))
            case .open:
                sessions[id]?.phase = .draining
                effects.append(.drain(id))
            case .draining: break
            }
        }
        return effects
    }

    /// For each new session that opens, drains an old one; with the last new one, all remaining old ones.
    private mutating func drainReplaced() -> [Effect] {
        guard isReplacing, !isOnTrial else { return [] }
        if isComplete { return finishReplacing() }
        let old = sessions.filter { $0.value.generation != generation && $0.value.phase == .open }.keys.min()
        guard let old else { return [] }
        sessions[old]?.phase = .draining
        return [.drain(old)]
    }

    /// Drains all remaining old sessions if enough new ones are open, and ends the replacement.
    private mutating func finishReplacing() -> [Effect] {
        guard isReplacing, !isOnTrial, isComplete else { return [] }
        isReplacing = false
        return letGo { $0.phase == .open }
    }

    // MARK: Dials

    private var missing: Int {
        if isClosing || isFinishing { return 0 }
        return target - sessions.values.count { $0.generation == generation && $0.phase != .draining }
    }

    /// Whether as many sessions are open as wanted.
    var isComplete: Bool { openCount >= target }

    /// The open sessions of the current generation.
    private var openCount: Int { sessions.values.count { $0.generation == generation && $0.phase == .open } }

    /// The number of running dials.
    var dials: Int { sessions.values.count { $0.phase == .dialing } }

    private var isDialing: Bool {
        sessions.values.contains { $0.generation == generation && $0.phase == .dialing }
    }

    /// The next time at which `plan` or `mustTryAgain` has something to do without a message.
    var deadline: Instant? {
        var next = Earliest(retryAt)
        if isOnTrial { next.consider(trialEnd) }
        if missing <= 0 || (pauses.isFailing && isDialing) { return next.instant }
        let paid = budgetAt + .seconds(max(0, 1 - budget) / PoolMachine.dialsPerSecond)
        next.consider(max(pauses.nextDial, paid))
        return next.instant
    }

    /// Returns the dials that are due.
    mutating func plan(now: Instant, newID: () -> SessionID) -> [Effect] {
        let seconds = (now - budgetAt) / .seconds(1)
        budget = min(Double(2 * target) + PoolMachine.spareDials, budget + seconds * PoolMachine.dialsPerSecond)
        budgetAt = now
        var effects: [Effect] = []
        while missing > 0, now >= pauses.nextDial, budget >= 0.999, !pauses.isFailing || !isDialing {
            budget -= 1
            let id = newID()
            sessions[id] = Session(generation: generation, round: pauses.round)
            effects.append(.dial(id, startsSlowly: brokeAt.map { now - $0 < PoolMachine.wariness } ?? false))
        }
        return effects
    }
}
