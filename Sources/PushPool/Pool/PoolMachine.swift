import Clocks

/// Which sessions a pool dials, keeps and lets go. Knows no thread, no socket and no clock.
///
/// Apple takes many connections opened and closed in a row for an attack ("Establishing a connection to APNs"), so there
/// are two brakes: after a failure one dial at a time with growing waits, and a budget for dials that nothing else slows.
struct PoolMachine {
    enum Effect: Equatable {
        case dial(SessionID, startsSlowly: Bool)
        /// It takes no more and hears out what is in flight; while it dials, it gives up.
        case drain(SessionID)
        /// Whatever is in flight.
        case end(SessionID)
        case tell(PoolEvent)
    }

    private enum Phase { case dialing, open, draining }

    private struct Session {
        var phase = Phase.dialing
        var generation: Int
        /// In which round of dials it began: those of one round meet the same outage, which is one failure.
        var round: Int
        var openedAt: Instant?
        /// Its early end has been counted.
        var isCounted = false
    }

    /// A session that ends sooner, without one answer, is as good as a failed dial.
    static let shortLife: Duration = .seconds(10)
    /// Dials a second that a pool may go on with, and those it may do at once beside two for each session.
    static let dialsPerSecond = 4.0
    static let spareDials = 8.0
    /// After a session that broke with requests in flight, those that are dialled within so long start slowly: the next may
    /// break as well, and everything that is in flight then goes out again.
    static let wariness: Duration = .seconds(60)

    private(set) var target: Int
    private var backoff: Backoff
    private var sessions: [SessionID: Session] = [:]
    /// Settings and credential change with it; sessions of older ones only drain.
    private var generation = 0
    /// Sessions of older generations that stay until new ones are open.
    private var isReplacing = false
    private var isClosing = false

    /// Rounds of dials that failed, or whose sessions died young, in a row.
    private var failures = 0
    /// Ends with the first failure of a dial that belongs to it.
    private var round = 0
    private var nextDial: Instant
    private var brokeAt: Instant?
    private var budget: Double
    private var budgetAt: Instant

    init(target: Int, backoff: Backoff, now: Instant) {
        self.target = target
        self.backoff = backoff
        nextDial = now
        budget = Double(2 * target) + PoolMachine.spareDials
        budgetAt = now
    }

    /// Closed, and no session is left.
    var isDone: Bool { isClosing && sessions.isEmpty }

    // MARK: What sessions say

    mutating func opened(_ id: SessionID, address: String, streams: Int, now: Instant) -> [Effect] {
        guard let session = sessions[id] else { return [] }
        let isWanted = session.phase == .dialing && session.generation == generation
        sessions[id]?.phase = isWanted ? .open : .draining
        sessions[id]?.openedAt = now
        let effects = [Effect.tell(.opened(id, address: address, streams: streams))]
        if isClosing { return effects + [.end(id)] }
        return effects + (isWanted ? drainReplaced() : [.drain(id)])
    }

    /// It takes no more and hears out what is in flight.
    mutating func retired(
        _ id: SessionID, hasServed: Bool, now: Instant, random: Double
    ) -> [Effect] {
        guard let session = sessions[id] else { return [] }
        judge(id, hasServed: hasServed, isOurWish: session.phase == .draining, now: now, random: random)
        sessions[id]?.phase = .draining
        return [.tell(.capacityChanged)]
    }

    mutating func ended(
        _ id: SessionID, address: String, _ fault: SessionError, hasServed: Bool, unanswered: Int = 0,
        now: Instant, random: Double
    ) -> [Effect] {
        guard let session = sessions[id] else { return [] }
        if unanswered > 0 { brokeAt = now }
        judge(id, hasServed: hasServed, isOurWish: session.phase == .draining, now: now, random: random)
        sessions[id] = nil
        return [.tell(.closed(id, address: address, fault))]
    }

    mutating func dialFailed(
        _ id: SessionID, address: String, _ fault: SessionError, now: Instant, random: Double
    ) -> [Effect] {
        guard let session = sessions.removeValue(forKey: id) else { return [] }
        if isClosing || session.generation != generation { return [] }
        fail(session, now: now, random: random)
        return [.tell(.dialFailed(id, address: address, fault, retryIn: nextDial - now))]
    }

    mutating func dialAbandoned(_ id: SessionID) {
        sessions[id] = nil
    }

    /// A session was told to calm down (RFC 9113, 7): it goes, and however well it served, its end counts as a failed dial.
    mutating func mustSlowDown(_ id: SessionID, now: Instant, random: Double) {
        guard let session = sessions[id], !session.isCounted, session.generation == generation else { return }
        sessions[id]?.isCounted = true
        fail(session, now: now, random: random)
    }

    /// A session that dies young without an answer counts as a failure; one that served, or lived, ends the row of them.
    private mutating func judge(
        _ id: SessionID, hasServed: Bool, isOurWish: Bool, now: Instant, random: Double
    ) {
        guard let session = sessions[id], let openedAt = session.openedAt, !session.isCounted, !isOurWish else { return }
        sessions[id]?.isCounted = true
        if hasServed || now - openedAt >= PoolMachine.shortLife {
            failures = 0
            nextDial = now
        } else if session.generation == generation {
            fail(session, now: now, random: random)
        }
    }

    private mutating func fail(_ session: Session, now: Instant, random: Double) {
        let isCounted = session.round < round && failures > 0
        // What the others of its round have said holds for it, too.
        if isCounted && now < nextDial { return }
        if !isCounted {
            round += 1
            failures = min(failures + 1, 1000)
        }
        nextDial = now + backoff.wait(afterFailures: failures, random: random)
    }

    // MARK: What the owner says

    mutating func reconnect(now: Instant) -> [Effect] {
        beginGeneration(now: now)
        isReplacing = false
        return letGo { _ in true }
    }

    mutating func replace(target: Int, backoff: Backoff, now: Instant) -> [Effect] {
        self.target = target
        self.backoff = backoff
        beginGeneration(now: now)
        isReplacing = true
        return letGo { $0.phase == .dialing }
    }

    /// Another number of sessions. Those too many go: first what is being dialled, then the youngest.
    mutating func resize(to target: Int) -> [Effect] {
        self.target = target
        let own = sessions.filter { $0.value.generation == generation && $0.value.phase != .draining }
        let youngest = own.keys.sorted { left, right in
            let (leftIsOpen, rightIsOpen) = (own[left]?.phase == .open, own[right]?.phase == .open)
            return leftIsOpen == rightIsOpen ? left > right : rightIsOpen
        }
        return youngest.prefix(max(0, own.count - target)).map { id in
            sessions[id]?.phase = .draining
            return .drain(id)
        }
    }

    mutating func close() -> [Effect] {
        isClosing = true
        return sessions.keys.sorted().map { .end($0) }
    }

    private mutating func beginGeneration(now: Instant) {
        generation += 1
        failures = 0
        nextDial = now
    }

    /// Drains sessions of older generations, also those that are being dialled: they may have opened and have pushes in flight
    /// before this machine hears of it.
    private mutating func letGo(where isWanted: (borrowing Session) -> Bool) -> [Effect] {
        var effects: [Effect] = []
        for id in sessions.keys.sorted() {
            guard let session = sessions[id], session.generation < generation, isWanted(session) else { continue }
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

    /// One new session up, one old one drains; with the last new one, all that are left.
    private mutating func drainReplaced() -> [Effect] {
        guard isReplacing else { return [] }
        let effects = letGo { $0.phase == .open }
        let open = sessions.values.count { $0.generation == generation && $0.phase == .open }
        if open >= target {
            isReplacing = false
            return effects
        }
        for effect in effects.dropFirst() {
            if case .drain(let id) = effect { sessions[id]?.phase = .open }
        }
        return Array(effects.prefix(1))
    }

    // MARK: Dials

    private var missing: Int {
        if isClosing { return 0 }
        return target - sessions.values.count { $0.generation == generation && $0.phase != .draining }
    }

    /// Whether as many sessions are open as there should be.
    var isComplete: Bool {
        sessions.values.count { $0.generation == generation && $0.phase == .open } >= target
    }

    /// How many are being dialled.
    var dials: Int { sessions.values.count { $0.phase == .dialing } }

    private var isDialing: Bool {
        sessions.values.contains { $0.generation == generation && $0.phase == .dialing }
    }

    /// When `plan` has something to do that no message announces.
    var deadline: Instant? {
        if missing <= 0 || (failures > 0 && isDialing) { return nil }
        let paid = budgetAt + .seconds(max(0, 1 - budget) / PoolMachine.dialsPerSecond)
        return max(nextDial, paid)
    }

    /// The dials that are due now.
    mutating func plan(now: Instant, newID: () -> SessionID) -> [Effect] {
        let seconds = (now - budgetAt) / .seconds(1)
        budget = min(Double(2 * target) + PoolMachine.spareDials, budget + seconds * PoolMachine.dialsPerSecond)
        budgetAt = now
        var effects: [Effect] = []
        while missing > 0, now >= nextDial, budget >= 0.999, failures == 0 || !isDialing {
            budget -= 1
            let id = newID()
            sessions[id] = Session(generation: generation, round: round)
            effects.append(.dial(id, startsSlowly: brokeAt.map { now - $0 < PoolMachine.wariness } ?? false))
        }
        return effects
    }
}
