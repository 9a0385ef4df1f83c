internal import Platform
internal import Synchronization

/// The body of a pool's own thread: starts and joins the sessions' threads as the machine decides, and reports to the owner.
///
/// No notification passes through this thread.
struct PoolLoop: ~Copyable {
    /// A session's thread and its mailbox for orders.
    private final class Handle {
        let orders: Mailbox<SessionOrder>
        private var thread: OwnedThread?

        init(_ orders: Mailbox<SessionOrder>, _ thread: consuming OwnedThread) {
            self.orders = orders
            self.thread = consume thread
        }

        func join() { thread.take()?.join() }
    }

    private let shared: PoolShared
    private let events: Mailbox<PoolEvent>
    private var configuration: PoolConfiguration
    /// While the present configuration is on trial, the one before.
    private var previous: PoolConfiguration?
    /// The configuration that APNs refused, and the time of its next trial.
    private var refused: (configuration: PoolConfiguration, retryAt: Instant)?
    private var machine: PoolMachine
    private var governor: Governor
    /// Replaces the governor if the settings ask for it.
    private var autoSize: AutoSize?
    private var advice = AdviceSchedule()
    private var calmLimiter: CalmLimiter
    private var handles: [SessionID: Handle] = [:]
    private var poller = Poller()

    init(_ configuration: PoolConfiguration, _ shared: PoolShared, events: Mailbox<PoolEvent>) {
        self.configuration = configuration
        self.shared = shared
        self.events = events
        let settings = configuration.settings
        machine = PoolMachine(target: settings.sessions, backoff: settings.dialBackoff, now: .now)
        governor = Governor(settings)
        autoSize = settings.isAutomatic ? AutoSize(most: settings.mostSessions, target: machine.target) : nil
        calmLimiter = CalmLimiter(quietTime: settings.quietTime)
    }

    /// The time after which a refused configuration is tried again: the longest wait between two probes of a held app.
    private static let retryInterval = Duration.seconds(60)

    /// Returns when the pool is closed and every thread is joined.
    mutating func run() {
        while !machine.isDone {
            resize()
            advise()
            if calmLimiter.tick(now: .now) { applyCalmLimit() }
            tryAgain()
            perform(machine.plan(now: .now, newID: SessionNumbers.next))
            poller.reset()
            poller.add(shared.messages.wakeDescriptor, for: .read)
            poller.wait(until: nextDeadline)
            for message in shared.messages.drain() { perform(handle(message)) }
        }
    }

    private var nextDeadline: Instant? {
        let sizing = autoSize == nil ? governor.deadline : autoSize?.deadline
        return [machine.deadline, sizing, advice.deadline, calmLimiter.deadline, refused?.retryAt].compactMap { $0 }.min()
    }

    /// Tries the refused configuration again. While no session is open, for example without a network, it waits: without a
    /// session to return to, the pool would give up a credential that works.
    private mutating func tryAgain() {
        guard let refused, refused.retryAt <= .now else { return }
        if machine.mayTryAgain {
            perform(replace(refused.configuration))
        } else {
            self.refused?.retryAt = .now + PoolLoop.retryInterval
        }
    }

    private mutating func resize() {
        if autoSize == nil { govern() } else { chooseSize() }
    }

    private mutating func chooseSize() {
        guard var size = autoSize else { return }
        defer { autoSize = size }
        let now = Instant.now
        if let deadline = size.deadline, deadline <= now {
            let load = shared.queue.look()
            let seen = AutoSize.Load(
                wasBlocked: load.wasBlocked, isComplete: machine.isComplete, rate: Double(shared.queue.rate(now: now)),
                waiting: load.waiting, reach: reach(shared.queue.figures()))
            let before = size.target
            if size.look(seen, now: now) {
                events.send(.resized(from: before, to: size.target))
                perform(machine.resize(to: size.target))
            }
        }
        if size.deadline == nil && shared.queue.wasBlocked { size.woke(now: now) }
    }

    private func reach(_ figures: PoolFigures) -> Reach? {
        figures.reach(streams: shared.capacity.value / max(1, figures.sessions))
    }

    /// With a shorter round trip, no larger pool is suggested: distance is not the limit.
    private static let shortestDistance = Duration.milliseconds(5)
    private static let mostSuggested = 100

    private mutating func advise() {
        let now = Instant.now
        let isDue = advice.deadline.map { $0 <= now } ?? shared.queue.wasBlocked
        if !isDue { return }
        let figures = shared.queue.figures()
        let blocked = figures.blocked(by: .window) + figures.blocked(by: .streams)
        guard advice.deadline != nil else { return advice.woke(blocked: blocked, now: now) }
        let isLimited = advice.look(blocked: blocked, now: now)
        // Without a governor nothing else resets it, and the queue rings only when it becomes true again.
        if advice.deadline == nil && autoSize == nil && governor.deadline == nil { _ = shared.queue.look() }
        // The queue does not ring for what has stayed blocked.
        if advice.deadline == nil && shared.queue.wasBlocked { advice.woke(blocked: blocked, now: now) }
        let settings = configuration.settings
        let most = settings.isAutomatic || governor.plan.isGoverning ? settings.mostSessions : settings.sessions
        guard isLimited, let distance = figures.shortestRoundTrip, distance >= PoolLoop.shortestDistance,
            figures.sessions >= most, most < PoolLoop.mostSuggested
        else { return }
        let suggestion = min(PoolLoop.mostSuggested, 4 * figures.sessions)
        let rate = shared.queue.rate(now: now)
        events.send(
            .limited(
                PoolAdvice(
                    sessions: figures.sessions, roundTrip: distance, payload: figures.payload, pushesPerSecond: rate,
                    suggestion: suggestion, suggestedPushesPerSecond: rate * suggestion / figures.sessions,
                    isMaximum: most > settings.sessions)))
    }

    private mutating func govern() {
        let now = Instant.now
        if let deadline = governor.deadline, deadline <= now {
            let (load, capacity) = (shared.queue.look(), shared.capacity.value)
            let before = governor.target
            let seen = Governor.Load(
                wasBlocked: load.wasBlocked, busy: max(0, capacity - load.free) + load.waiting, capacity: capacity,
                isComplete: machine.isComplete)
            if governor.look(seen, now: now) {
                events.send(.resized(from: before, to: governor.target))
                perform(machine.resize(to: governor.target))
            }
        }
        // The queue rings this thread when this becomes true.
        if governor.deadline == nil && shared.queue.wasBlocked { governor.woke(now: now) }
    }

    private mutating func calmDown() {
        let now = Instant.now
        guard calmLimiter.slowDown(rate: shared.queue.rate(now: now), now: now), let limit = calmLimiter.limit else { return }
        applyCalmLimit()
        events.send(.slowed(pushesPerSecond: limit))
    }

    private func applyCalmLimit() {
        shared.queue.limit(to: calmLimiter.limit)
        shared.calmLimit.store(calmLimiter.limit ?? 0, ordering: .relaxed)
        if calmLimiter.limit == nil { events.send(.slowdownEnded) }
    }

    private mutating func handle(_ message: PoolMessage) -> [PoolMachine.Effect] {
        let random = Double.random(in: 0..<1)
        switch message {
        case .opened(let id, let address, let streams):
            return machine.opened(id, address: address, streams: streams, now: .now)
        case .retired(let id, let hasServed):
            return machine.retired(id, hasServed: hasServed, now: .now, random: random)
        case .capacityChanged:
            return [.tell(.capacityChanged)]
        case .mustSlowDown(let id):
            calmDown()
            machine.mustSlowDown(id, now: .now, random: random)
            return []
        case .tokens(let news):
            return [.tell(.tokens(news))]
        case .ended(let id, let address, let fault, let hasServed, let unanswered):
            join(id)
            return machine.ended(
                id, address: address, fault, hasServed: hasServed, unanswered: unanswered, now: .now, random: random)
        case .dialFailed(let id, let address, let fault):
            join(id)
            return machine.dialFailed(id, address: address, fault, now: .now, random: random)
        case .dialAbandoned(let id):
            join(id)
            machine.dialAbandoned(id)
            return []
        case .proved(let id, let isAcceptance):
            return machine.proved(id, isAcceptance: isAcceptance)
        case .refused(let id, let reason):
            return machine.refused(id, because: reason)
        case .reconnect:
            return machine.reconnect(now: .now)
        case .retire(let id):
            return machine.retire(id)
        case .replace(let configuration):
            defer { shared.credentials.withLock { $0.apply() } }
            return replace(configuration)
        case .close:
            return machine.close()
        }
    }

    private mutating func replace(_ new: PoolConfiguration) -> [PoolMachine.Effect] {
        let old = previous ?? configuration
        (configuration, refused) = (new, nil)
        let effects = machine.replace(target: size(by: new.settings), backoff: new.settings.dialBackoff, now: .now)
        previous = machine.isOnTrial ? old : nil
        shared.tokens.withLock { $0.source = new.tokens }
        shared.credentials.withLock { $0.begin(after: SessionNumbers.latest, isOnTrial: machine.isOnTrial) }
        return effects
    }

    /// APNs has refused the configuration on trial.
    private mutating func revert(because reason: String) {
        guard let previous else { return }
        refused = (configuration, .now + PoolLoop.retryInterval)
        (configuration, self.previous) = (previous, nil)
        shared.tokens.withLock { $0.source = previous.tokens }
        shared.credentials.withLock { $0.revert(after: SessionNumbers.latest) }
        perform(machine.resize(to: size(by: previous.settings)))
        events.send(.credentialRefused(reason, retryIn: PoolLoop.retryInterval))
    }

    /// Returns the number of sessions to keep with these settings.
    private mutating func size(by settings: PoolSettings) -> Int {
        governor.change(Governor.Plan(settings), sessions: machine.target, now: .now)
        if settings.isAutomatic, autoSize != nil {
            autoSize?.change(most: settings.mostSessions)
        } else {
            autoSize = settings.isAutomatic ? AutoSize(most: settings.mostSessions, target: machine.target) : nil
        }
        return autoSize?.target ?? governor.target
    }

    private mutating func perform(_ effects: [PoolMachine.Effect]) {
        for effect in effects {
            switch effect {
            case .dial(let id, let startsSlowly): start(id, startsSlowly: startsSlowly)
            case .drain(let id): handles[id]?.orders.send(.drain)
            case .end(let id): handles[id]?.orders.send(.end)
            case .tell(let event): events.send(event)
            case .adopt:
                previous = nil
                shared.credentials.withLock { $0.adopt() }
            case .revert(let reason): revert(because: reason)
            }
        }
    }

    /// Descriptors that sessions leave free: the owner needs some to reconnect to Redis. The only session leaves fewer, because
    /// without it nothing is sent.
    private var spareDescriptors: Int { handles.isEmpty ? 4 : 8 }

    private mutating func start(_ id: SessionID, startsSlowly: Bool) {
        // Each running dial has yet to open its socket.
        guard let wakeUp = WakeUp.ifAvailable(sparing: spareDescriptors + machine.dials) else {
            return cannotDial(id, "too many open files (ulimit -n)")
        }
        let orders = Mailbox<SessionOrder>(wakeUp: wakeUp)
        let context = SessionContext(
            id: id, startsSlowly: startsSlowly, configuration: configuration, shared: shared, orders: orders, wakeUp: wakeUp)
        do throws(ThreadError) {
            handles[id] = Handle(orders, try OwnedThread(name: "apns \(id.number)") { runSession(context) })
        } catch {
            cannotDial(id, error.description)
        }
    }

    /// Reports the failure as a failed dial, which the machine tries again later.
    private func cannotDial(_ id: SessionID, _ why: String) {
        let fault = SessionError.dial(why, isCredential: false)
        shared.messages.send(.dialFailed(id, address: configuration.settings.host, fault))
    }

    /// Joins a thread that has sent its last message and is about to return.
    private mutating func join(_ id: SessionID) {
        handles.removeValue(forKey: id)?.join()
    }
}
