import Platform

@testable import PushPool

/// The shells around a real `PoolMachine` and a real `WorkQueue`: what `SessionPool` and `PoolLoop` do.
final class SimulatedPool {
    let worker: Int
    let queue: WorkQueue
    let ledger: Ledger
    private let world: World
    private let apns: SimulatedAPNs
    private var machine: PoolMachine
    private let settings: PoolSettings
    let ticker: Ticker
    private var inbox: [PoolMessage] = []
    /// In the order of their ids. A session that dials is not open yet.
    private(set) var sessions: [SimulatedSession] = []
    private var dialing: [SessionID: Bool] = [:]
    private var lastID: UInt64
    var capacity = 0
    private var credentials = CredentialUse()
    private var renewedAt = SessionID(0)
    let onDeliveries: ([Delivery]) -> Void
    private let onEvent: (PoolEvent) -> Void
    private var isClosed = false

    init(
        _ world: World, _ apns: SimulatedAPNs, worker: Int, settings: PoolSettings,
        onDeliveries: @escaping ([Delivery]) -> Void, onEvent: @escaping (PoolEvent) -> Void
    ) {
        (self.world, self.apns, self.worker, self.settings) = (world, apns, worker, settings)
        (self.onDeliveries, self.onEvent) = (onDeliveries, onEvent)
        ledger = apns.ledger
        lastID = UInt64(worker) << 20 + UInt64(apns.app) << 18
        let clock = world.clock
        queue = WorkQueue(clock: { clock.now })
        machine = PoolMachine(target: settings.sessions, backoff: settings.dialBackoff, now: world.now)
        ticker = Ticker(world)
        ticker.onTurn { [unowned self] in turn() }
        ticker.wake(at: world.time)
    }

    // MARK: The owner

    func push(_ batch: inout [Notification]) {
        queue.push(&batch)
        wakeRungSessions()
    }

    func allowSending(until deadline: Instant?) {
        queue.allowSending(until: deadline)
        wakeRungSessions()
    }

    func usesPresentCredential(_ session: SessionID) -> Bool { credentials.isPresent(session) }

    func reconnect() { send(.reconnect) }

    func replace() {
        credentials.request()
        replacements += 1
        ticker.wake(at: world.time + world.time(in: 5 * .microsecond...500 * .microsecond))
    }

    /// A message of its own: a `PoolMessage` would need a configuration with TLS.
    private var replacements = 0

    func renewToken(refusedOn session: SessionID) -> SessionPool.TokenRenewal {
        if session <= renewedAt { return .alreadyRenewed }
        renewedAt = SessionID(lastID)
        reconnect()
        return .renewed
    }

    /// Ends every session, and returns the notifications that waited.
    func close() -> [UInt64] {
        isClosed = true
        ticker.stop()
        for session in sessions {
            if ledger.isFaulty(worker) { for attempt in session.link.unanswered { ledger.isInDoubt(attempt) } }
            session.endNow()
        }
        sessions = []
        return queue.withdraw()
    }

    func abandon() {
        isClosed = true
        ticker.stop()
        for session in sessions { session.abandon() }
        sessions = []
    }

    func stopped(until end: Int64, _ jitter: () -> Int64) {
        ticker.notBefore = end + jitter()
        for session in sessions { session.ticker.notBefore = end + jitter() }
    }

    // MARK: Sessions

    func proved(_ session: SessionID, isAcceptance: Bool) {
        credentials.prove(session)
        send(.proved(session, isAcceptance: isAcceptance))
    }

    func send(_ message: PoolMessage) {
        if isClosed { return }
        inbox.append(message)
        ticker.wake(at: world.time + world.time(in: 5 * .microsecond...60 * .microsecond))
    }

    func wakeRungSessions() { for session in sessions { session.wakeIfRung() } }

    // MARK: One turn

    private func turn() {
        world.note(.poolTurn, worker, sessions.count)
        let now = world.now
        let messages = inbox
        inbox = []
        for message in messages { perform(handle(message, now: now)) }
        for _ in 0..<replacements {
            let effects = machine.replace(target: settings.sessions, backoff: settings.dialBackoff, now: now)
            credentials.begin(after: SessionID(lastID), isOnTrial: machine.isOnTrial)
            credentials.apply()
            perform(effects)
        }
        replacements = 0
        perform(machine.endTrial(now: now))
        perform(
            machine.plan(
                now: now,
                newID: {
                    lastID += 1
                    return SessionID(lastID)
                }))
        ticker.notBefore = max(ticker.notBefore, world.time + 5 * .microsecond)
        ticker.wake(at: machine.deadline)
    }

    private func handle(_ message: PoolMessage, now: Instant) -> [PoolMachine.Effect] {
        let random = world.fraction()
        switch message {
        case .opened(let id, let address, let streams): return machine.opened(id, address: address, streams: streams, now: now)
        case .retired(let id, let hasServed): return machine.retired(id, hasServed: hasServed, now: now, random: random)
        case .capacityChanged: return [.tell(.capacityChanged)]
        case .mustSlowDown(let id):
            machine.mustSlowDown(id, now: now, random: random)
            return []
        case .ended(let id, let address, let fault, let hasServed, let unanswered):
            sessions.removeAll { $0.id == id }
            return machine.ended(
                id, address: address, fault, hasServed: hasServed, unanswered: unanswered, now: now, random: random)
        case .dialFailed(let id, let address, let fault):
            return machine.dialFailed(id, address: address, fault, now: now, random: random)
        case .dialAbandoned(let id):
            machine.dialAbandoned(id)
            return []
        case .proved(let id, let isAcceptance): return machine.proved(id, isAcceptance: isAcceptance)
        case .refused(let id, let reason): return machine.refused(id, because: reason)
        case .reconnect: return machine.reconnect(now: now)
        case .retire(let id): return machine.retire(id)
        case .finish: return machine.finish()
        case .close: return machine.close()
        case .tokens, .replace: return []
        }
    }

    private func perform(_ effects: [PoolMachine.Effect]) {
        for effect in effects {
            switch effect {
            case .dial(let id, let startsSlowly): dial(id, startsSlowly: startsSlowly)
            case .drain(let id): order(.drain, id)
            case .end(let id): order(.end, id)
            case .tell(let event): onEvent(event)
            case .adopt: credentials.adopt()
            case .revert: credentials.revert(after: SessionID(lastID))
            }
        }
    }

    private func order(_ order: SessionOrder, _ id: SessionID) {
        if dialing[id] != nil {
            dialing[id] = false
        } else if let session = sessions.first(where: { $0.id == id }) {
            session.orders.append(order)
            session.wakeUp.ring()
            session.wakeIfRung()
        }
    }

    /// TCP, TLS and the SETTINGS of the server.
    private func dial(_ id: SessionID, startsSlowly: Bool) {
        dialing[id] = true
        let isRefused = apns.refusesDials
        let time = 6 * world.time(in: apns.profile.latency) + world.skewed(upTo: 20 * .millisecond)
        world.after(time) { [weak self] in self?.dialed(id, isRefused: isRefused, startsSlowly: startsSlowly) }
    }

    private func dialed(_ id: SessionID, isRefused: Bool, startsSlowly: Bool) {
        guard !isClosed, let isWanted = dialing.removeValue(forKey: id) else { return }
        if ticker.notBefore > world.time {
            dialing[id] = isWanted
            return world.at(ticker.notBefore) { [weak self] in self?.dialed(id, isRefused: isRefused, startsSlowly: startsSlowly)
            }
        }
        if !isWanted { return send(.dialAbandoned(id)) }
        if isRefused {
            world.note(.dialFailed, worker, Int(id.number))
            return send(.dialFailed(id, address: "apns", .dial("refused", isCredential: false)))
        }
        var limits = SessionMachine.Limits()
        limits.startsSlowly = startsSlowly
        limits.maxConcurrentStreams = settings.maxConcurrentStreams
        let ticker = Ticker(world)
        let link = PushLink(world, apns, session: Int(id.number)) { [world] in
            ticker.wake(at: world.time + world.time(in: 5 * .microsecond...60 * .microsecond))
        }
        let session = SimulatedSession(
            id, world, self, link, limits: limits, streams: apns.profile.streams, ticker: ticker)
        sessions.append(session)
        world.note(.opened, worker, Int(id.number))
        session.begin()
    }
}
