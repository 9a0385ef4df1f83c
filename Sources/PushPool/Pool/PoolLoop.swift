import Clocks
internal import Synchronization
internal import Threads

/// The body of a pool's own thread: starts sessions' threads as its machine says, joins them, and tells the owner.
///
/// No push passes through here.
struct PoolLoop: ~Copyable {
    /// A session's thread and the way to give it orders.
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
    private var machine: PoolMachine
    private var governor: Governor
    private var brake: CalmLimiter
    private var handles: [SessionID: Handle] = [:]
    private var poller = Poller()

    init(_ configuration: PoolConfiguration, _ shared: PoolShared, events: Mailbox<PoolEvent>) {
        self.configuration = configuration
        self.shared = shared
        self.events = events
        let settings = configuration.settings
        machine = PoolMachine(target: settings.sessions, backoff: settings.dialBackoff, now: .now)
        governor = Governor(settings)
        brake = CalmLimiter(quietTime: settings.quietTime)
    }

    /// Returns when the pool was closed and every thread is joined.
    mutating func run() {
        while !machine.isDone {
            govern()
            if brake.tick(now: .now) { obeyBrake() }
            perform(machine.plan(now: .now, newID: SessionNumbers.next))
            poller.reset()
            poller.add(shared.messages.wakeDescriptor, for: .read)
            poller.wait(until: [machine.deadline, governor.deadline, brake.deadline].compactMap { $0 }.min())
            for message in shared.messages.drain() { perform(handle(message)) }
        }
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
        // The queue rings when this comes true.
        if governor.deadline == nil && shared.queue.wasBlocked { governor.woke(now: now) }
    }

    private mutating func calmDown() {
        let now = Instant.now
        guard brake.told(rate: shared.queue.rate(now: now), now: now), let limit = brake.limit else { return }
        obeyBrake()
        events.send(.braked(pushesPerSecond: limit))
    }

    private func obeyBrake() {
        shared.queue.limit(to: brake.limit)
        shared.brake.store(brake.limit ?? 0, ordering: .relaxed)
        if brake.limit == nil { events.send(.brakeLifted) }
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
        case .reconnect:
            return machine.reconnect(now: .now)
        case .replace(let configuration):
            self.configuration = configuration
            shared.replacement.withLock { $0 = ($0.pending - 1, SessionNumbers.latest) }
            let settings = configuration.settings
            governor.change(Governor.Plan(settings), now: .now)
            return machine.replace(target: governor.target, backoff: settings.dialBackoff, now: .now)
        case .close:
            return machine.close()
        }
    }

    private mutating func perform(_ effects: [PoolMachine.Effect]) {
        for effect in effects {
            switch effect {
            case .dial(let id, let startsSlowly): start(id, startsSlowly: startsSlowly)
            case .drain(let id): handles[id]?.orders.send(.drain)
            case .end(let id): handles[id]?.orders.send(.end)
            case .tell(let event): events.send(event)
            }
        }
    }

    /// Descriptors that no session takes: its owner needs some to get back to where its pushes come from.
    private static let spareDescriptors = 8

    private mutating func start(_ id: SessionID, startsSlowly: Bool) {
        // Each dial under way is yet to open its socket.
        guard let wakeUp = WakeUp.ifAvailable(sparing: PoolLoop.spareDescriptors + machine.dials) else {
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

    /// The machine hears of it as of any dial that fails, and tries again later.
    private func cannotDial(_ id: SessionID, _ why: String) {
        let fault = SessionError.dial(why, isCredential: false)
        shared.messages.send(.dialFailed(id, address: configuration.settings.host, fault))
    }

    /// The thread has said its last word, so this waits for no more than its way out.
    private mutating func join(_ id: SessionID) {
        handles.removeValue(forKey: id)?.join()
    }
}
