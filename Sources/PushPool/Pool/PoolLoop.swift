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
    private let report: @Sendable (PoolEvent) -> Void
    private var configuration: PoolConfiguration
    /// While the present configuration is on trial, the one before.
    private var previous: PoolConfiguration?
    /// The configuration that APNs refused, which the machine tries again.
    private var refused: PoolConfiguration?
    /// The last session before settings with another topic that are tried again.
    private var parkedOnceOpen: SessionID?
    private var machine: PoolMachine
    private var sizer: PoolSizer
    private var calmLimiter: CalmLimiter
    private var handles: [SessionID: Handle] = [:]
    private var poller = Poller()

    init(_ configuration: PoolConfiguration, _ shared: PoolShared, report: @escaping @Sendable (PoolEvent) -> Void) {
        self.configuration = configuration
        self.shared = shared
        self.report = report
        let settings = configuration.settings
        sizer = PoolSizer(PoolSizer.Plan(settings), sessions: settings.sessions, now: .now)
        machine = PoolMachine(target: settings.sessions, backoff: settings.dialBackoff, now: .now)
        calmLimiter = CalmLimiter(quietTime: settings.quietTime)
    }

    /// Returns when the pool is closed and every thread is joined.
    mutating func run() {
        while !machine.isDone {
            let now = Instant.now
            let news = shared.work.queue.withLock { queue in
                sizer.tick(&queue, capacity: shared.capacity.load(ordering: .relaxed), isComplete: machine.isComplete, now: now)
            }
            for event in news { report(event) }
            if sizer.target != machine.target && !machine.isFinishing { perform(machine.resize(to: sizer.target)) }
            if calmLimiter.tick(now: now) { applyCalmLimit() }
            if machine.mustTryAgain(now: now), let refused {
                // The present sessions go on until one on trial is open.
                if refused.settings.topic != configuration.settings.topic { parkedOnceOpen = SessionNumbers.latest }
                perform(replace(refused))
            }
            perform(machine.endTrial(now: now))
            perform(machine.plan(now: .now, newID: SessionNumbers.next))
            poller.reset()
            poller.add(shared.messages.wakeDescriptor, for: .read)
            poller.wait(until: [machine.deadline, sizer.nextTick, calmLimiter.deadline].compactMap(\.self).min())
            for message in shared.messages.drain() { perform(handle(message)) }
        }
    }

    private mutating func calmDown() {
        let now = Instant.now
        let rate = shared.work.queue.withLock { $0.tally.rate(now: now) }
        guard calmLimiter.slowDown(rate: rate, now: now), let limit = calmLimiter.limit else { return }
        applyCalmLimit()
        report(.slowed(pushesPerSecond: limit))
    }

    private func applyCalmLimit() {
        shared.work.limit(to: calmLimiter.limit)
        shared.calmLimit.store(calmLimiter.limit ?? 0, ordering: .relaxed)
        if calmLimiter.limit == nil { report(.slowdownEnded) }
    }

    private mutating func handle(_ message: PoolMessage) -> [PoolMachine.Effect] {
        let random = Double.random(in: 0..<1)
        switch message {
        case .opened(let id, let address, let streams):
            if let last = parkedOnceOpen, last < id {
                parkedOnceOpen = nil
                shared.topic.withLock { $0 = configuration.settings.topic }
                if machine.isOnTrial { shared.work.park(upTo: last) }
            }
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
            parkedOnceOpen = nil
            return replace(configuration)
        case .finish:
            return machine.finish()
        case .close:
            return machine.close()
        }
    }

    private mutating func replace(_ new: PoolConfiguration) -> [PoolMachine.Effect] {
        let old = previous ?? configuration
        (configuration, refused) = (new, nil)
        sizer.adopt(PoolSizer.Plan(new.settings), now: .now)
        let effects = machine.replace(target: sizer.target, backoff: new.settings.dialBackoff, now: .now)
        previous = machine.isOnTrial ? old : nil
        shared.tokens.withLock { $0.source = new.tokens }
        shared.credentials.withLock { $0.begin(after: SessionNumbers.latest, isOnTrial: machine.isOnTrial) }
        return effects
    }

    /// APNs has refused the configuration on trial.
    private mutating func revert(because reason: String) {
        guard let previous else { return }
        (refused, configuration, self.previous) = (configuration, previous, nil)
        shared.topic.withLock { $0 = previous.settings.topic }
        shared.work.park(upTo: nil)
        machine.tryAgainLater(now: .now)
        shared.tokens.withLock { $0.source = previous.tokens }
        shared.credentials.withLock { $0.revert(after: SessionNumbers.latest) }
        sizer.adopt(PoolSizer.Plan(previous.settings), now: .now)
        perform(machine.resize(to: sizer.target))
        report(.credentialRefused(reason, retryIn: PoolMachine.retryInterval))
    }

    private mutating func perform(_ effects: [PoolMachine.Effect]) {
        for effect in effects {
            switch effect {
            case .dial(let id, let startsSlowly): start(id, startsSlowly: startsSlowly)
            case .drain(let id): handles[id]?.orders.send(.drain)
            case .end(let id): handles[id]?.orders.send(.end)
            case .tell(let event): report(event)
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
