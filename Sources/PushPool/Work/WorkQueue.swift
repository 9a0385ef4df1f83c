internal import Platform
internal import Synchronization

/// The notifications that no session has taken yet, and the sessions that could take them.
///
/// Sessions pull work when they have room for it. One lock serves a batch; awake or full sessions are not woken.
final class WorkQueue: Sendable {
    struct Consumer {
        let session: SessionID
        let wakeUp: WakeUp
        /// Streams that it could open at its last call of `take`; 0 if its windows or TLS admitted no more.
        var free = 0
        /// The reason why `free` is 0.
        var limit = Limitation.streams
        var window = 0
        var bytesInFlight = 0
        /// `nil` before the first PING was answered.
        var roundTrip: (smoothed: Duration, shortest: Duration)?
        /// Whether it found nothing to take and may sleep until it is woken.
        var isAsleep = true
        /// The round of pushing in which it got its share.
        var lastRound: UInt64 = 0

        var hasRoom: Bool { free > 0 }
    }

    struct State {
        let waiting = Ring<Notification>()
        /// The number of waiting notifications that avoid a session: while it is 0, no search is needed.
        var avoiders = 0
        var consumers: [Consumer] = []
        var round: UInt64 = 0
        /// The session that sleeps until the limits admit the next push, on behalf of all.
        var timekeeper: SessionID?
        /// Whether a notification has waited since the last look while every session was full.
        var wasBlocked = false
        /// This pool's own limit after ENHANCE_YOUR_CALM.
        var calmLimiter: RateLimiter?
        var tally = PushTally(now: .now)
        var meter = QueueMeter()
    }

    /// A session is not woken for less work than this while another one is awake: at 1 to 16 pushes a turn the wake-up costs
    /// more than the pushes (measured: 15 us a push with 2 x 1 streams, 1.6 with 2 x 100).
    private static let worthWaking = 16

    let state = Locked(State())
    let rateLimits: SharedRateLimits
    /// Rung when `Load.wasBlocked` becomes true.
    private let blocked: WakeUp
    let clock: @Sendable () -> Instant
    /// The time from which sessions take and write nothing, in nanoseconds since `origin`; `Int.max` without a limit.
    private let sendingDeadline = Atomic<Int>(.max)
    private let origin: Instant
    private let fences = Atomic<Int>(0)

    /// - Parameter clock: the time with which the sending deadline and the limits are compared.
    init(
        rateLimits: SharedRateLimits = SharedRateLimits(), blocked: WakeUp = WakeUp(),
        clock: @escaping @Sendable () -> Instant = { .now }
    ) {
        self.rateLimits = rateLimits
        self.blocked = blocked
        self.clock = clock
        origin = clock()
    }

    // MARK: For the pool

    /// Queues a batch in order and leaves it empty, with its memory.
    func push(_ batch: inout [Notification]) {
        if batch.isEmpty { return }
        let toRing: [WakeUp] = state.withLock { state in
            for index in batch.indices where batch[index].avoiding != nil { state.avoiders += 1 }
            state.waiting.append(contentsOf: &batch)
            state.round &+= 1
            noteBlocked(&state)
            if state.timekeeper != nil { return [] }
            return WorkQueue.sleepers(&state, enoughFor: state.waiting.count)
        }
        for wakeUp in toRing { wakeUp.ring() }
    }

    /// Lets sessions take notifications and write requests until this time; `nil` sets no limit.
    func allowSending(until deadline: Instant?) {
        let toRing: [WakeUp] = state.withLock { state in
            let wasOver = isSendingOver
            sendingDeadline.store(deadline.map(nanoseconds) ?? .max, ordering: .relaxed)
            return wasOver && !isSendingOver ? WorkQueue.sleepers(&state, enoughFor: state.waiting.count) : []
        }
        for wakeUp in toRing { wakeUp.ring() }
    }

    private func nanoseconds(_ deadline: Instant) -> Int {
        let (seconds, attoseconds) = (deadline - origin).components
        let most = Int64.max / 2_000_000_000
        return Int(min(max(seconds, -most), most) * 1_000_000_000 + attoseconds / 1_000_000_000)
    }

    /// Whether the time for sending has ended. A session asks before it writes requests, without the lock.
    var isSendingOver: Bool { isSendingOver(at: clock()) }

    private func isSendingOver(at time: @autoclosure () -> Instant) -> Bool {
        let deadline = sendingDeadline.load(ordering: .relaxed)
        return deadline != .max && origin + .nanoseconds(deadline) <= time()
    }

    /// Stops requests that sessions have taken before and could not write: other workers may have their jobs. Call it after
    /// `withdraw`, so that a session that takes work with this number does not take what was withdrawn.
    func fence() { fences.add(1, ordering: .releasing) }

    /// The number of calls of `fence`. A session reads it before it takes work, and compares it before it writes.
    var fenceNumber: Int { fences.load(ordering: .acquiring) }

    /// Withdraws all waiting notifications.
    func withdraw() -> [UInt64] {
        state.withLock { state in
            var ids: [UInt64] = []
            ids.reserveCapacity(state.waiting.count)
            while let notification = state.waiting.popFirst() { ids.append(notification.id) }
            state.avoiders = 0
            state.meter.became(nil, now: .now)
            return ids
        }
    }

    /// Withdraws those of `wanted` that wait; the others keep their order.
    func withdraw(_ wanted: Set<UInt64>) -> [UInt64] {
        if wanted.isEmpty { return [] }
        return state.withLock { state in
            var ids: [UInt64] = []
            for _ in 0..<state.waiting.count {
                guard let notification = state.waiting.popFirst() else { break }
                if wanted.contains(notification.id) {
                    ids.append(notification.id)
                    if notification.avoiding != nil { state.avoiders -= 1 }
                } else {
                    state.waiting.append(notification)
                }
            }
            if state.waiting.isEmpty { state.meter.became(nil, now: .now) }
            return ids
        }
    }

    var count: Int { state.withLock { $0.waiting.count } }

    /// The load of the queue, for the governor.
    struct Load: Equatable {
        /// Whether a notification has waited since the last look while every session was full. Rate limits do not count.
        var wasBlocked = false
        var waiting = 0
        /// Streams that sessions could open at their last call of `take`.
        var free = 0
    }

    /// Whether `Load.wasBlocked` would be true.
    var wasBlocked: Bool { state.withLock { $0.wasBlocked } }

    /// Returns the load since the previous look.
    func look() -> Load {
        state.withLock { state in
            defer { state.wasBlocked = WorkQueue.isBlocked(state) }
            return Load(
                wasBlocked: state.wasBlocked, waiting: state.waiting.count, free: state.consumers.reduce(0) { $0 + $1.free })
        }
    }

    /// The measurements of the sessions that take work.
    func figures() -> PoolFigures {
        state.withLock { state in
            var figures = PoolFigures()
            let consumers = state.consumers
            figures.sessions = consumers.count
            figures.bytesInFlight = consumers.reduce(0) { $0 + max(0, $1.bytesInFlight) }
            figures.window = consumers.map(\.window).max() ?? 0
            figures.payload = Int(state.meter.payload.rounded())
            figures.blocked = state.meter.blocked(now: .now)
            let trips = consumers.compactMap(\.roundTrip)
            if !trips.isEmpty { figures.roundTrip = trips.reduce(.zero) { $0 + $1.smoothed } / trips.count }
            figures.shortestRoundTrip = trips.map(\.shortest).min()
            return figures
        }
    }

    private static func isBlocked(_ state: State) -> Bool {
        !state.waiting.isEmpty && !state.consumers.isEmpty && !state.consumers.contains { $0.hasRoom }
    }

    private func noteBlocked(_ state: inout State) {
        if !WorkQueue.isBlocked(state) { return }
        state.meter.began(state.consumers[0].limit)
        if state.wasBlocked { return }
        state.wasBlocked = true
        blocked.ring()
    }

    // MARK: For a session

    /// Adds an open session, which takes work and is woken through `wakeUp`.
    func join(_ session: SessionID, wakeUp: WakeUp) {
        state.withLock { $0.consumers.append(Consumer(session: session, wakeUp: wakeUp)) }
    }

    /// Stores the round trip of a session.
    func measured(_ roundTrip: RoundTrip, of session: SessionID) {
        guard let smoothed = roundTrip.smoothed, let shortest = roundTrip.shortest else { return }
        state.withLock { state in
            guard let consumer = state.consumers.firstIndex(where: { $0.session == session }) else { return }
            state.consumers[consumer].roundTrip = (smoothed, shortest)
        }
    }

    /// Removes a session and wakes others for the work it would have taken.
    func leave(_ session: SessionID) {
        let toRing = state.withLock { state in
            state.consumers.removeAll { $0.session == session }
            if state.timekeeper == session { state.timekeeper = nil }
            return WorkQueue.sleepers(&state, enoughFor: state.waiting.count)
        }
        for wakeUp in toRing { wakeUp.ring() }
    }

    /// Moves the session's share of the waiting notifications to `batch`: at most what it has room for, and at most what the
    /// rate limits admit. Returns the time at which the session must ask again, if so.
    ///
    /// A session calls this in every turn, even without room: the queue learns its free streams from the call. A notification
    /// that avoids this session stays for another one with room, if there is any.
    ///
    /// - Parameter now: the time of the session's turn; a small delay does not matter, because the session compares the sending
    ///   deadline again when it writes.
    func take(
        into batch: Ring<Notification>, room: Room, for session: SessionID, now: Instant
    ) -> Instant? {
        let (toRing, again): ([WakeUp], Instant?) = state.withLock { state in
            guard let consumer = state.consumers.firstIndex(where: { $0.session == session }) else { return ([], nil) }
            if state.timekeeper == session { state.timekeeper = nil }
            let free = room.isEmpty ? 0 : room.streams
            state.consumers[consumer].free = free
            state.consumers[consumer].limit = room.presentLimit
            (state.consumers[consumer].window, state.consumers[consumer].bytesInFlight) = (room.window, room.bytesInFlight)
            if isSendingOver(at: now) {
                state.consumers[consumer].isAsleep = true
                return ([], nil)
            }
            var pause: Pause?
            if free > 0 && !state.waiting.isEmpty { pause = moveShare(room, of: consumer, to: batch, now: now, &state) }
            state.consumers[consumer].isAsleep = true
            if state.waiting.isEmpty {
                state.meter.became(nil, now: now)
                return ([], nil)
            }
            let limit = pause != nil ? .rateLimit : WorkQueue.isBlocked(state) ? state.consumers[consumer].limit : nil
            state.meter.became(limit, now: now)
            if let pause {
                let hasTaken = state.consumers[consumer].free < free
                return wait(for: pause, consumer, hasTaken: hasTaken, &state)
            }
            noteBlocked(&state)
            return (WorkQueue.nextSleeper(after: consumer, &state), nil)
        }
        for wakeUp in toRing { wakeUp.ring() }
        return again
    }

    /// Moves the share of a consumer with room. Returns the pause if a rate limit stopped it.
    @inline(__always)
    private func moveShare(
        _ room: Room, of consumer: Int, to batch: Ring<Notification>, now: Instant, _ state: inout State
    ) -> Pause? {
        var share = room
        share.streams = min(room.streams, WorkQueue.share(of: state.waiting.count, for: consumer, state))
        state.consumers[consumer].lastRound = state.round
        let (most, session) = (share.streams, state.consumers[consumer].session)
        var pause: Pause?
        if state.calmLimiter != nil || rateLimits.isLimiting {
            pause = movePaced(&share, to: batch, avoiding: session, &state)
        } else {
            WorkQueue.move(&share, to: batch, avoiding: session, &state)
        }
        let taken = most - share.streams
        state.consumers[consumer].free = share.bytes > 0 ? room.streams - taken : 0
        if share.bytes <= 0 { state.consumers[consumer].limit = share.limit == .streams ? .window : share.limit }
        if taken > 0 {
            state.tally.count(taken, now: now)
            state.meter.took(taken, bytes: room.bytes - share.bytes)
        }
        return pause
    }

    /// Returns an equal part for each session with free streams and without a share in this round, so that the first session
    /// does not take everything.
    private static func share(of waiting: Int, for consumer: Int, _ state: State) -> Int {
        var contenders = 1
        for other in state.consumers.indices
        where other != consumer && state.consumers[other].hasRoom && state.consumers[other].lastRound != state.round {
            contenders += 1
        }
        return max(worthWaking, (waiting + contenders - 1) / contenders)
    }

    private static func move(
        _ room: inout Room, to batch: Ring<Notification>, avoiding session: SessionID, _ state: inout State
    ) {
        if state.avoiders == 0 || !hasAlternative(to: session, state) {
            while !room.isEmpty, let notification = state.waiting.popFirst() {
                if notification.avoiding != nil { state.avoiders -= 1 }
                room.spend(payload: notification.payload.count)
                batch.append(notification)
            }
            return
        }
        var passed: [Notification] = []
        while !room.isEmpty, let notification = state.waiting.popFirst() {
            if notification.avoiding == session {
                passed.append(notification)
                continue
            }
            if notification.avoiding != nil { state.avoiders -= 1 }
            room.spend(payload: notification.payload.count)
            batch.append(notification)
        }
        for notification in passed.reversed() { state.waiting.prepend(notification) }
    }

    /// Whether another session could take a notification that avoids this one. A session without room could not.
    static func hasAlternative(to session: SessionID, _ state: State) -> Bool {
        state.consumers.contains { $0.session != session && $0.hasRoom }
    }

    /// Wakes as few sessions as can carry the work, each with enough to be worth it.
    static func sleepers(_ state: inout State, enoughFor waiting: Int) -> [WakeUp] {
        let withRoom = state.consumers.count { $0.hasRoom }
        if waiting == 0 || withRoom == 0 { return [] }
        let portion = max(worthWaking, (waiting + withRoom - 1) / withRoom)
        var left = waiting
        var wakeUps: [WakeUp] = []
        // Each round starts with another session, so that single pushes do not all use one connection.
        let first = Int(truncatingIfNeeded: state.round & 0xFFFF)
        for step in state.consumers.indices where left > 0 {
            let consumer = (first + step) % state.consumers.count
            guard state.consumers[consumer].hasRoom else { continue }
            left -= min(portion, state.consumers[consumer].free)
            guard state.consumers[consumer].isAsleep else { continue }
            state.consumers[consumer].isAsleep = false
            wakeUps.append(state.consumers[consumer].wakeUp)
        }
        return wakeUps
    }

    /// Wakes one other sleeping session with free streams, for work that this session did not take.
    static func nextSleeper(after consumer: Int, _ state: inout State) -> [WakeUp] {
        let count = state.consumers.count
        for step in 1..<max(count, 1) {
            let other = (consumer + step) % count
            if state.consumers[other].hasRoom && state.consumers[other].isAsleep {
                state.consumers[other].isAsleep = false
                return [state.consumers[other].wakeUp]
            }
        }
        return []
    }
}

/// Applies rate limits: those of all pools together, and the pool's own after ENHANCE_YOUR_CALM.
extension WorkQueue {
    /// The shortest wait that is passed on to another session, so that one session does not send everything.
    private static let worthPassingOn = Duration.milliseconds(10)

    /// Wakes sessions that wait under limits which have changed.
    func limitsChanged() {
        let toRing = state.withLock { state in
            state.timekeeper = nil
            return WorkQueue.sleepers(&state, enoughFor: state.waiting.count)
        }
        for wakeUp in toRing { wakeUp.ring() }
    }

    /// Limits this pool alone to this many pushes per second; `nil` removes the limit.
    func limit(to pushesPerSecond: Int?) {
        state.withLock { state in
            guard let pushesPerSecond else {
                state.calmLimiter = nil
                return
            }
            let limit = Double(pushesPerSecond)
            let now = clock()
            if state.calmLimiter == nil { state.calmLimiter = RateLimiter(limit: limit, now: now) }
            state.calmLimiter?.change(limit: limit, now: now)
        }
        limitsChanged()
    }

    /// Returns the pushes per second that sessions have taken recently.
    func rate(now: Instant) -> Int { state.withLock { $0.tally.rate(now: now) } }

    /// The reason why limits stopped a take.
    struct Pause {
        /// The time to ask again.
        var opening: Instant
        /// Whether pushes that avoid the session were left to another one.
        var hasPassedOver: Bool
    }

    /// Handles limits that admit nothing for now: one session keeps the time for all. It passes this on after a long wait, and if
    /// it has left pushes to others: pushes wake no session meanwhile.
    func wait(
        for pause: Pause, _ consumer: Int, hasTaken: Bool, _ state: inout State
    ) -> ([WakeUp], Instant?) {
        if state.timekeeper != nil { return ([], nil) }
        // A session that has taken nothing keeps the time, so that two sessions do not wake each other until the opening.
        if hasTaken && (pause.hasPassedOver || pause.opening - clock() >= WorkQueue.worthPassingOn) {
            let next = WorkQueue.nextSleeper(after: consumer, &state)
            if !next.isEmpty { return (next, nil) }
        }
        state.timekeeper = state.consumers[consumer].session
        return ([], pause.opening)
    }

    /// Moves notifications as `move` does, as far as the limits admit them. Returns the pause if a limit stopped it.
    func movePaced(
        _ room: inout Room, to batch: Ring<Notification>, avoiding session: SessionID, _ state: inout State
    ) -> Pause? {
        var passed: [Notification] = []
        var opening: Instant?
        let avoids = state.avoiders > 0 && WorkQueue.hasAlternative(to: session, state)
        while !room.isEmpty, opening == nil, let notification = state.waiting.popFirst() {
            if avoids && notification.avoiding == session {
                passed.append(notification)
                continue
            }
            opening = admit(payload: notification.payload.count, &state)
            if opening != nil {
                state.waiting.prepend(notification)
            } else {
                if notification.avoiding != nil { state.avoiders -= 1 }
                room.spend(payload: notification.payload.count)
                batch.append(notification)
            }
        }
        for notification in passed.reversed() { state.waiting.prepend(notification) }
        return opening.map { Pause(opening: $0, hasPassedOver: !passed.isEmpty) }
    }

    /// Counts a push that may go now and returns `nil`, or returns the time to ask again.
    private func admit(payload: Int, _ state: inout State) -> Instant? {
        guard state.calmLimiter != nil else { return rateLimits.admit(payload: payload) }
        let now = clock()
        if let opening = state.calmLimiter?.opening(for: 1, now: now), opening > now {
            return max(opening, now + SharedRateLimits.shortestWait)
        }
        if rateLimits.isLimiting, let opening = rateLimits.admit(payload: payload) { return opening }
        state.calmLimiter?.count(1, now: now)
        return nil
    }
}

/// The work that a session can take now.
struct Room: Equatable {
    /// Streams that it can open.
    var streams: Int
    /// Bytes of payload that the send windows and TLS admit. The last push may exceed them: the rest of its body waits in the
    /// session, so that the window is used up.
    var bytes = Int.max

    /// The limit of the bytes, or of the streams while it is `streams`.
    var limit = Limitation.streams
    /// The send window of the session, and the part of it that the peer has not confirmed.
    var window = 0
    var bytesInFlight = 0

    /// The limit of this session once it is empty.
    var presentLimit: Limitation { streams <= 0 ? .streams : bytes <= 0 && limit == .streams ? .window : limit }

    var isEmpty: Bool { streams <= 0 || bytes <= 0 }

    /// Counts one push.
    mutating func spend(payload: Int) {
        streams -= 1
        bytes -= payload
    }
}

/// Measures the usual payload of a queue, and the time for which its pushes waited.
struct QueueMeter {
    /// Bytes; 0 before the first push.
    private(set) var payload = 0.0
    private var past = [Duration](repeating: .zero, count: Limitation.allCases.count)
    private var present: (limit: Limitation, since: Instant)?

    /// Counts a batch.
    mutating func took(_ pushes: Int, bytes: Int) {
        guard pushes > 0 else { return }
        let mean = Double(bytes) / Double(pushes)
        payload = payload == 0 ? mean : payload + (mean - payload) / 16
    }

    /// The time for which each limit has kept pushes waiting, by `Limitation.rawValue`.
    func blocked(now: Instant) -> [Duration] {
        var blocked = past
        if let present { blocked[present.limit.rawValue] += max(.zero, now - present.since) }
        return blocked
    }

    /// From now on this limit keeps pushes waiting; `nil` for none.
    mutating func became(_ limit: Limitation?, now: Instant) {
        if let present { past[present.limit.rawValue] += max(.zero, now - present.since) }
        present = limit.map { ($0, now) }
    }

    /// A push came while every session was full: it waits because of this limit, unless others wait already.
    mutating func began(_ limit: Limitation) {
        if present == nil { present = (limit, .now) }
    }
}

/// Counts the pushes per second of a pool with one addition per batch. Callers' clocks may differ by milliseconds.
struct PushTally {
    /// A rate that is older than this is no longer reported.
    static let memory = Duration.seconds(10)

    /// The end of the second being counted. The next second begins with the first push after it.
    private var end: Instant
    private var pushes = 0
    /// Pushes in the second directly before.
    private var pushesBefore = 0

    init(now: Instant) { end = now }

    mutating func count(_ pushes: Int, now: Instant) {
        if now < end {
            self.pushes += pushes
        } else {
            pushesBefore = now < end + .seconds(1) ? self.pushes : 0
            self.pushes = pushes
            end = now + .seconds(1)
        }
    }

    /// Returns the pushes in the last second that had any, or in the current second if those are more.
    func rate(now: Instant) -> Int { now < end + PushTally.memory ? max(pushes, pushesBefore) : 0 }
}
