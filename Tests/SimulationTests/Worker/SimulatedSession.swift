import Glibc
import Platform

@testable import PushPool

/// The shell of a real `SessionMachine`: what `SessionLoop` does, on a simulated connection without HTTP/2.
final class SimulatedSession {
    let id: SessionID
    let wakeUp = WakeUp()
    let ticker: Ticker
    let link: PushLink
    private let world: World
    private unowned let pool: SimulatedPool
    private var machine: SessionMachine
    var orders: [SessionOrder] = []
    private var effects: [SessionMachine.Effect] = []
    private let batch = Ring<Notification>()
    private var outbox: [Delivery] = []
    private var announced = 0
    private var hasServed = false
    private var credential = CredentialUse.News.none
    private var asksAgain: Instant?
    private var ending: SessionError?

    // In place of the codec.
    private var nextStream: StreamID = 1
    private var slots: [StreamID: Int] = [:]
    /// The stream in each slot, and whether its request has left.
    private var streams: [(stream: StreamID, isWritten: Bool)] = []
    private var unwritten: [(stream: StreamID, slot: Int, job: Int)] = []
    private var isStalled: Bool { world.time < link.stalledUntil }
    private var isHeldBack: Bool { !unwritten.isEmpty || isStalled }

    init(
        _ id: SessionID, _ world: World, _ pool: SimulatedPool, _ link: PushLink, limits: SessionMachine.Limits, streams: Int,
        ticker: Ticker
    ) {
        (self.id, self.world, self.pool, self.link, self.ticker) = (id, world, pool, link, ticker)
        machine = SessionMachine(limits: limits, peerLimit: streams, now: world.now)
        ticker.onTurn { [unowned self] in turn() }
    }

    func begin() {
        announceCapacity()
        pool.queue.queue.withLock { $0.join(id, wakeUp: wakeUp) }
        pool.send(.opened(id, address: "apns", streams: machine.capacity))
        turn()
    }

    // MARK: One turn

    func turn() {
        if machine.phase == .closed { return }
        world.note(.sessionTurn, pool.worker, Int(id.number))
        let now = world.now
        if isRung { wakeUp.listen() }
        takeOrders()
        read(now: now)
        machine.tick(now: now, &effects)
        perform()
        deliver()
        takeWork(now: now)
        write(now: now)
        perform()
        deliver()
        if let ending { return close(because: ending) }
        ticker.notBefore = max(ticker.notBefore, world.time + 5 * .microsecond)
        ticker.wake(at: machine.deadline)
        ticker.wake(at: asksAgain)
        if isHeldBack { ticker.wake(at: link.stalledUntil) }
    }

    private var isRung: Bool {
        var place = pollfd(fd: wakeUp.descriptor, events: Int16(POLLIN), revents: 0)
        return poll(&place, 1, 0) > 0
    }

    /// Whether its thread would wake.
    func wakeIfRung() { if isRung { ticker.wake(at: world.time + world.time(in: 5 * .microsecond...60 * .microsecond)) } }

    private func takeOrders() {
        for order in orders {
            switch order {
            case .drain: machine.retire(because: .closedByUs, &effects)
            case .end: machine.endedByOwner(&effects)
            case .cancel(let ids): machine.cancelled(ids, &effects)
            }
        }
        orders = []
    }

    private func read(now: Instant) {
        let frames = link.takeFrames()
        if frames.isEmpty { return }
        machine.heard(now: now)
        for frame in frames { handle(frame, now: now) }
        perform()
    }

    private func handle(_ frame: PushLink.Frame, now: Instant) {
        switch frame {
        case .response(let stream, let outcome, let attempt):
            link.answered(attempt)
            world.note(.answered, Int(id.number), attempt.job)
            guard let slot = end(stream) else { return }
            if case .rejected(let rejection) = outcome, rejection.status >= 500 {} else { hasServed = true }
            judgeCredential(outcome)
            machine.answered(outcome, stream: stream, at: slot, &effects)
        case .reset(let stream, let code, let attempt):
            link.answered(attempt)
            guard let slot = end(stream) else { return }
            machine.streamReset(code: code, wasSent: true, stream: stream, at: slot, now: now, &effects)
        case .settings(let limit): machine.limitChanged(to: limit, &effects)
        case .goAway(let last): machine.receivedGoAway(last: last, code: 0, reason: "", &effects)
        case .pong(let number): machine.pingAnswered(number, now: now, &effects)
        case .closed: machine.connectionLost(.connectionLost("the connection is gone"), &effects)
        }
    }

    private func judgeCredential(_ outcome: Outcome) {
        var news = CredentialUse.News.accepted
        if case .rejected(let rejection) = outcome { news = CredentialUse.News(rejection) }
        if news == .none || news == credential || news == .answered && credential == .accepted { return }
        credential = news
        if news == .refused { pool.send(.refused(id, "refused")) } else { pool.proved(id, isAcceptance: news == .accepted) }
    }

    /// The stream is closed.
    private func end(_ stream: StreamID) -> Int? { slots.removeValue(forKey: stream) }

    private func perform() {
        while !effects.isEmpty {
            let due = effects
            effects.removeAll(keepingCapacity: true)
            for effect in due {
                switch effect {
                case .report(let id, let outcome, _): outbox.append(Delivery(id: id, session: self.id, outcome: outcome))
                case .cancel(let stream): cancel(stream)
                case .ping(let number): link.ping(number)
                case .retire: stopTaking()
                case .capacityChanged:
                    announceCapacity()
                    pool.send(.capacityChanged)
                case .disconnect(let fault): ending = fault
                }
            }
        }
    }

    private func cancel(_ stream: StreamID) {
        guard let slot = end(stream) else { return }
        let wasSent = streams[slot].isWritten
        if wasSent { link.cancel(stream) } else { unwritten.removeAll { $0.stream == stream } }
        machine.streamReset(code: 8, wasSent: wasSent, stream: stream, at: slot, now: world.now, &effects)
    }

    private func deliver() {
        announceCapacity()
        if outbox.isEmpty { return }
        pool.onDeliveries(outbox)
        outbox.removeAll(keepingCapacity: true)
    }

    // MARK: Work

    private func takeWork(now: Instant) {
        asksAgain = nil
        guard machine.phase == .open, ending == nil else { return }
        let room = Room(
            streams: machine.free, bytes: isHeldBack ? 0 : 64 << 10, limit: isHeldBack ? .socket : .streams, window: 1 << 20)
        asksAgain = pool.queue.take(into: batch, room: room, for: id, now: now)
        while let notification = batch.popFirst() { submit(notification, now: now) }
        pool.wakeRungSessions()
    }

    private func submit(_ notification: Notification, now: Instant) {
        switch notification.timing(at: world.clock.wallClock.unixSeconds) {
        case .asItIs: open(notification, now: now)
        case .tooLate: outbox.append(Delivery(id: notification.id, session: id, outcome: .outdated))
        case .later(let expiration):
            outbox.append(Delivery(id: notification.id, session: id, outcome: .begun(expiration: expiration)))
            open(notification, now: now)
        }
    }

    private func open(_ notification: Notification, now: Instant) {
        guard machine.free > 0 else {
            let outcome = Outcome.notProcessed(.connectionLost("no stream could be opened"))
            return outbox.append(Delivery(id: notification.id, session: id, outcome: outcome))
        }
        let slot = machine.accepted(notification.id, now: now)
        let stream = nextStream
        nextStream = StreamID(stream.number + 2)
        slots[stream] = slot
        while streams.count <= slot { streams.append((0, false)) }
        streams[slot] = (stream, false)
        let isState = notification.bytes.firstRange(of: Array(#""replaces""#.utf8)) != nil
        let states = isState ? Ledger.jobs(in: notification.bytes) : []
        let token = Array(notification.bytes[notification.token])
        unwritten.append((stream, slot, states.first ?? Ledger.job(token)))
        machine.opened(stream, at: slot)
    }

    private func write(now: Instant) {
        let hadUnwritten = hasUnwritten
        if !unwritten.isEmpty && pool.queue.isSendingOver {
            machine.connectionLost(.retired(.sendingEnded), &effects)
        } else if !isStalled {
            for request in unwritten {
                streams[request.slot].isWritten = true
                world.note(.sent, pool.worker, request.job)
                link.request(request.stream, pool.ledger.sent(request.job, by: pool.worker))
            }
            unwritten.removeAll(keepingCapacity: true)
        }
        hasUnwritten = !unwritten.isEmpty
        if hadUnwritten || hasUnwritten { machine.wrote(now: now, isWritten: { streams[$0].isWritten }) }
    }

    private var hasUnwritten = false

    private func announceCapacity() {
        if machine.capacity == announced { return }
        pool.capacity += machine.capacity - announced
        announced = machine.capacity
    }

    private func stopTaking() {
        pool.queue.leave(id)
        pool.wakeRungSessions()
        announceCapacity()
        pool.send(.retired(id, hasServed: hasServed))
    }

    /// Ends at once, when the pool closes.
    func endNow() {
        if machine.phase == .closed { return }
        read(now: world.now)
        machine.endedByOwner(&effects)
        perform()
        close(because: ending ?? .closedByUs)
    }

    private func close(because fault: SessionError) {
        ticker.stop()
        pool.queue.leave(id)
        pool.wakeRungSessions()
        link.close()
        machine.closed(because: fault, isWritten: { streams[$0].isWritten }, &effects)
        perform()
        announceCapacity()
        deliver()
        world.note(.closed, pool.worker, Int(id.number))
        pool.send(
            .ended(id, address: "apns", fault, hasServed: hasServed, unanswered: machine.unanswered))
    }

    /// The process has ended: the kernel closes its sockets.
    func abandon() {
        ticker.stop()
        link.close()
    }
}
