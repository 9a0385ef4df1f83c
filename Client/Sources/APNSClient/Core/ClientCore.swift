internal import Platform
internal import PushPool

/// The machine of a client under a lock, with its pool and the receivers of results.
///
/// Callers and the client's thread pass facts to the machine. The pool is called under the lock, so that its orders have the
/// order of the facts. Results are passed on afterwards.
final class ClientCore: Sendable {
    private struct State {
        var machine: SendMachine
        var setup: SessionPool.Setup
        /// By the slots of the sends.
        var completions: [Completion?] = []
        var pool: SessionPool?
        var isStarted = false
        /// Whether a session has ever opened, or why the first dial failed.
        var start: Result<Void, APNSError>?
        var starters: [CheckedContinuation<Result<Void, APNSError>, Never>] = []
        var closers: [CheckedContinuation<Void, Never>] = []
        /// Whether the client's thread is to close the pool.
        var isClosing = false
        /// The time until which the client's thread sleeps.
        var sleepsUntil: Instant?
        var effects: [SendEffect] = []
        var batch: [Notification] = []
    }

    /// Work for outside of the lock.
    private struct Aftermath {
        var results: [(Completion, Result<Receipt, APNSError>)] = []
        var renewals: [(SendID, SessionID)] = []
        var mustWake = false
    }

    private let configuration: APNSConfiguration
    private let judge: (@Sendable (RetryRule.Failure) -> RetryRule.Decision)?
    private let rateLimits: SharedRateLimits
    private let observer: ClientObserver
    private let state: Locked<State>
    private let wakeUp = WakeUp()
    private let deliveries = Mailbox<Delivery>()
    private let events = Mailbox<PoolEvent>()

    /// Outcomes under one lock: more would delay the callers that submit meanwhile.
    private static let mostOutcomes = 64

    init(_ configuration: APNSConfiguration) throws(APNSError) {
        self.configuration = configuration
        observer = ClientObserver(configuration)
        let (setup, topic) = try Self.setup(configuration)
        let retries = configuration.retries
        judge = retries.judge
        rateLimits = SharedRateLimits(pushesPerSecond: configuration.pushesPerSecond ?? 0)
        let options = SendMachine.Options(
            topic: topic, policy: RetryPolicy(limit: retries.limit, delays: retries.delays),
            resendsMaybeSent: retries.resendsMaybeSent, holdsAfterSuspectTokens: configuration.holdsAfterSuspectTokens,
            deadline: configuration.deadline)
        state = Locked(State(machine: SendMachine(options), setup: setup))
    }

    /// Returns the setup of the pool, and the topic of pushes that name none.
    private static func setup(_ configuration: APNSConfiguration) throws(APNSError) -> (SessionPool.Setup, topic: PushTopic?) {
        let settings = try configuration.settings()
        let credential = try configuration.authentication.credential(tokenFolder: configuration.tokenFolder)
        let topic = configuration.topic ?? credential.certificate?.defaultTopic
        do throws(CredentialError) {
            return (try SessionPool.Setup(settings: settings, credential: credential), topic.map(PushTopic.init))
        } catch { throw .invalid(error.description) }
    }

    // MARK: Callers

    func reserve() -> SendID { state.withLock { reserve(&$0) } }

    private func reserve(_ state: inout State) -> SendID {
        let id = state.machine.reserve()
        while state.completions.count <= id.slot { state.completions.append(nil) }
        return id
    }

    func submit(_ id: SendID, _ push: Push, _ completion: Completion) {
        run { state, now in
            start(&state)
            state.completions[id.slot] = completion
            state.machine.submitted(id, push, now: now, time: WallClock.now().unixSeconds, &state.effects)
        }
    }

    /// Submits several pushes under one lock.
    func submit(_ pushes: [(index: Int, push: Push)], to inbox: ResultInbox) {
        run { state, now in
            start(&state)
            let time = WallClock.now().unixSeconds
            // All numbers first: the slot of a send that fails at once must keep its completion until the effects are performed.
            let ids = pushes.map { _ in reserve(&state) }
            for (id, (index, push)) in zip(ids, pushes) {
                state.completions[id.slot] = .sequence(inbox, index: index, push)
                state.machine.submitted(id, push, now: now, time: time, &state.effects)
            }
        }
    }

    func cancel(_ id: SendID) {
        run { state, now in state.machine.cancelled(id, now: now, &state.effects) }
    }

    /// Cancels all sends of a sequence that have no result.
    func cancel(_ inbox: ResultInbox) {
        run { state, now in
            for id in state.machine.ids {
                guard case .sequence(let other, _, _) = state.completions[id.slot], other === inbox else { continue }
                state.machine.cancelled(id, now: now, &state.effects)
            }
        }
    }

    /// Opens sessions with another credential; those with the earlier one drain when APNs has accepted the new one.
    func replaceAuthentication(with authentication: APNSAuthentication) throws(APNSError) {
        var configuration = configuration
        configuration.authentication = authentication
        let (setup, topic) = try Self.setup(configuration)
        run { state, _ in
            state.setup = setup
            state.pool?.replace(with: setup)
            state.machine.replacedCredential(topic: topic)
            // The next dial decides again.
            if case .failure = state.start, !state.machine.isClosed { state.start = nil }
        }
    }

    /// Starts to dial, and waits until the first session is open or the first dial has failed.
    func start() async throws(APNSError) {
        try await withCheckedContinuation { continuation in
            let known: Result<Void, APNSError>? = state.withLock { state in
                start(&state)
                if state.start == nil { state.starters.append(continuation) }
                return state.start
            }
            if let known { continuation.resume(returning: known) }
        }.get()
    }

    /// Ends the sends that have no result after `limit`, closes the pool, and waits until both are done.
    func shutDown(within limit: Duration) async {
        await withCheckedContinuation { continuation in
            let isOver = state.withLock { state in
                if state.machine.isClosed { return true }
                if !state.isStarted && state.machine.count == 0 {
                    state.machine.poolClosed(&state.effects)
                    state.start = .failure(APNSError(.shutDown, .notSent, "the client is shut down"))
                    return true
                }
                state.closers.append(continuation)
                return false
            }
            if isOver { return continuation.resume() }
            stop(within: limit)
        }
    }

    /// Orders the end without waiting for it.
    func stop(within limit: Duration) {
        run { state, now in state.machine.stopped(until: now + limit, now: now, &state.effects) }
    }

    // MARK: The client's thread

    private func start(_ state: inout State) {
        if state.isStarted || state.machine.isClosed { return }
        state.isStarted = true
        do {
            state.pool = try SessionPool(state.setup, deliveries: deliveries, events: events, rateLimits: rateLimits)
            let thread = try OwnedThread(name: "apns client") { [self] in work() }
            thread.leave()
        } catch {
            state.start = .failure(APNSError(.unreachable, .notSent, "\(error)"))
            state.machine.poolClosed(&state.effects)
        }
    }

    /// The body of the thread, which ends when the pool is closed.
    private func work() {
        var outcomes: [Delivery] = []
        var poller = Poller()
        while true {
            poller.reset()
            for descriptor in [wakeUp.descriptor, deliveries.wakeDescriptor, events.wakeDescriptor] {
                poller.add(descriptor, for: .read)
            }
            poller.wait(until: sleep())
            wakeUp.listen()
            deliveries.drain(into: &outcomes)
            handle(outcomes)
            let news = events.drain()
            for event in news { observer.happened(event) }
            run { state, now in
                for event in news { handle(event, &state, now: now) }
                state.machine.tick(now: now, &state.effects)
            }
            #if Logging
                observer.held(state.withLock { $0.machine.holdReason })
            #endif
            if state.withLock({ $0.isClosing }) { return close() }
        }
    }

    private func sleep() -> Instant? {
        state.withLock { state in
            state.sleepsUntil = state.machine.deadline
            return state.sleepsUntil
        }
    }

    private func handle(_ outcomes: [Delivery]) {
        var first = 0
        while first < outcomes.count {
            let end = min(first + Self.mostOutcomes, outcomes.count)
            let decisions = judge.map { ask($0, about: outcomes[first..<end]) } ?? [:]
            run { state, now in
                for index in first..<end {
                    state.machine.ended(
                        SendID(outcomes[index].id), outcomes[index].outcome, on: outcomes[index].session,
                        isCurrent: isCurrent(outcomes[index], state), now: now,
                        random: .random(in: 0...1), decision: decisions.isEmpty ? nil : decisions[outcomes[index].id],
                        &state.effects)
                }
            }
            first = end
        }
    }

    /// Asks the caller's rule, without a lock.
    private func ask(
        _ judge: @Sendable (RetryRule.Failure) -> RetryRule.Decision, about outcomes: ArraySlice<Delivery>
    ) -> [UInt64: RetryRule.Decision] {
        var decisions: [UInt64: RetryRule.Decision] = [:]
        for delivery in outcomes {
            switch delivery.outcome {
            case .delivered, .begun: continue
            default: break
            }
            let failure = state.withLock {
                $0.machine.failure(SendID(delivery.id), delivery.outcome, on: delivery.session, random: .random(in: 0...1))
            }
            if let failure { decisions[delivery.id] = judge(failure) }
        }
        return decisions
    }

    /// Whether the session presents the credential that is in use now. For an acceptance it matters only during a hold.
    private func isCurrent(_ delivery: Delivery, _ state: borrowing State) -> Bool {
        if case .delivered = delivery.outcome, !state.machine.isHeld { return true }
        return state.pool?.usesPresentCredential(delivery.session) ?? true
    }

    private func handle(_ event: PoolEvent, _ state: inout State, now: Instant) {
        let isCurrent =
            switch event {
            case .closed(let session, _, _), .dialFailed(let session, _, _, _):
                state.pool?.usesPresentCredential(session) ?? true
            default: true
            }
        state.machine.happened(event, isCurrent: isCurrent, now: now, &state.effects)
        switch event {
        case .opened: state.start = .success(())
        case .dialFailed(_, let address, let error, _) where state.start == nil && isCurrent:
            let cause: APNSError.Cause = HoldReason(error) == nil ? .unreachable : .held
            state.start = .failure(APNSError(cause, .notSent, "\(address): \(error.text)"))
        default: break
        }
    }

    /// Closes the pool and passes on its last outcomes.
    private func close() {
        guard let pool = state.withLock({ $0.pool }) else { return }
        let left = pool.close()
        handle(deliveries.drain())
        for event in events.drain() { observer.happened(event) }
        run { state, now in
            for id in left { state.machine.withdrew(SendID(id), now: now, &state.effects) }
            state.machine.poolClosed(&state.effects)
            state.start = .failure(APNSError(.shutDown, .notSent, "the client is shut down"))
        }
        let closers = state.withLock { state in
            defer { state.closers = [] }
            return state.closers
        }
        for closer in closers { closer.resume() }
    }

    // MARK: One turn

    /// Passes facts to the machine, performs its effects, and passes on results.
    private func run(_ facts: (inout State, Instant) -> Void) {
        var aftermath = Aftermath()
        var starters: [CheckedContinuation<Result<Void, APNSError>, Never>] = []
        var start: Result<Void, APNSError>?
        state.withLock { state in
            let now = Instant.now
            if let pool = state.pool { state.machine.observed(capacity: pool.capacity) }
            facts(&state, now)
            state.machine.turnEnded(now: now, &state.effects)
            perform(&state, now: now, &aftermath)
            if let known = state.start, !state.starters.isEmpty {
                (starters, start, state.starters) = (state.starters, known, [])
            }
            if let deadline = state.machine.deadline, state.sleepsUntil.map({ deadline < $0 }) ?? true {
                state.sleepsUntil = deadline
                aftermath.mustWake = true
            }
        }
        for (completion, result) in aftermath.results {
            observer.ended(result)
            completion.complete(with: result)
        }
        if let start { for starter in starters { starter.resume(returning: start) } }
        for (id, session) in aftermath.renewals { renewToken(for: id, refusedOn: session) }
        if aftermath.mustWake { wakeUp.ring() }
    }

    private func perform(_ state: inout State, now: Instant, _ aftermath: inout Aftermath) {
        repeat {
            state.machine.takeOutgoing(into: &state.batch)
            if !state.batch.isEmpty { state.pool?.push(&state.batch) }
            var effects: [SendEffect] = []
            swap(&effects, &state.effects)
            for effect in effects { perform(effect, &state, now: now, &aftermath) }
            if state.effects.isEmpty {
                effects.removeAll(keepingCapacity: true)
                swap(&effects, &state.effects)
                return
            }
            state.machine.turnEnded(now: now, &state.effects)
        } while true
    }

    private func perform(_ effect: SendEffect, _ state: inout State, now: Instant, _ aftermath: inout Aftermath) {
        switch effect {
        case .settle(let id, let result):
            if let completion = state.completions[id.slot].take() { aftermath.results.append((completion, result)) }
        case .cancel(let id):
            for withdrawn in state.pool?.cancel([id.rawValue]) ?? [] {
                state.machine.withdrew(SendID(withdrawn), now: now, &state.effects)
            }
        case .takeBack:
            for withdrawn in (state.pool?.withdraw() ?? []).reversed() {
                state.machine.withdrew(SendID(withdrawn), now: now, &state.effects)
            }
        case .reconnect: state.pool?.reconnect()
        case .renewToken(let id, let session): aftermath.renewals.append((id, session))
        case .keepToken: state.pool?.keepToken()
        case .close: (state.isClosing, aftermath.mustWake) = (true, true)
        }
    }

    /// Signs a token without the lock: that may wait for a file.
    private func renewToken(for id: SendID, refusedOn session: SessionID) {
        guard let pool = state.withLock({ $0.pool }) else { return }
        let renewal = pool.renewToken(refusedOn: session)
        run { state, now in
            let isCurrent = pool.usesPresentCredential(session)
            state.machine.renewed(id, isCurrent ? renewal : .alreadyRenewed, now: now, &state.effects)
        }
    }
}

/// The receiver of a result.
enum Completion: Sendable {
    case caller(CheckedContinuation<Result<Receipt, APNSError>, Never>)
    case sequence(ResultInbox, index: Int, Push)

    func complete(with result: Result<Receipt, APNSError>) {
        switch self {
        case .caller(let continuation): continuation.resume(returning: result)
        case .sequence(let inbox, let index, let push): inbox.deliver(PushResult(index: index, push: push, result: result))
        }
    }
}
