internal import Platform

/// The notifications that no session has taken yet, and the sessions that could take them: a plain value, with the time as an
/// argument. `WorkQueue` is the lock around it.
///
/// Each change returns the wake-ups of the sessions that have to look. A session that is awake or full is not woken.
struct PushQueue {
    private struct Consumer {
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

    /// A session is not woken for less work than this while another one is awake: at 1 to 16 pushes a turn the wake-up costs
    /// more than the pushes (measured: 15 us a push with 2 x 1 streams, 1.6 with 2 x 100).
    private static let worthWaking = 16
    /// The shortest wait under rate limits that is passed on to another session, so that one session does not send everything.
    private static let worthPassingOn = Duration.milliseconds(10)

    private let waiting = Ring<Notification>()
    /// The number of waiting notifications that avoid a session: while it is 0, no search is needed.
    private var avoiders = 0
    private var consumers: [Consumer] = []
    private var round: UInt64 = 0
    /// The time from which sessions take nothing.
    private var sendingDeadline: Instant?
    /// Whether a notification has waited since the last look while every session was full. Rate limits do not count.
    private(set) var wasBlocked = false

    /// The rate limits of all pools together, the limit that the owner sets for this pool, and its limit after ENHANCE_YOUR_CALM.
    private let rateLimits: SharedRateLimits
    private var ownLimiter: RateLimiter?
    private var calmLimiter: RateLimiter?
    /// Sessions up to this one take nothing while a credential with another topic is on trial.
    private var parkedUpTo: SessionID?
    /// The session that sleeps until the limits admit the next push, on behalf of all.
    private var timekeeper: SessionID?

    /// The pushes that sessions have taken recently.
    private(set) var tally: PushTally
    private var meter = QueueMeter()

    init(rateLimits: SharedRateLimits, now: Instant) {
        self.rateLimits = rateLimits
        tally = PushTally(now: now)
    }

    // MARK: For the pool

    var count: Int { waiting.count }

    /// Queues a batch in order and leaves it empty, with its memory.
    mutating func push(_ batch: inout [Notification], now: @autoclosure () -> Instant) -> [WakeUp] {
        for index in batch.indices where batch[index].avoiding != nil { avoiders += 1 }
        waiting.append(contentsOf: &batch)
        round &+= 1
        noteBlocked(now: now())
        return timekeeper == nil ? sleepers() : []
    }

    /// Lets sessions take notifications until this time; `nil` sets no limit.
    mutating func allowSending(until deadline: Instant?, now: Instant) -> [WakeUp] {
        let wasOver = isSendingOver(now: now)
        sendingDeadline = deadline
        return wasOver && !isSendingOver(now: now) ? sleepers() : []
    }

    private func isSendingOver(now: Instant) -> Bool { sendingDeadline.map { $0 <= now } ?? false }

    /// Withdraws all waiting notifications.
    mutating func withdraw(now: Instant) -> [UInt64] {
        var ids: [UInt64] = []
        ids.reserveCapacity(waiting.count)
        while let notification = waiting.popFirst() { ids.append(notification.id) }
        avoiders = 0
        meter.became(nil, now: now)
        return ids
    }

    /// Withdraws those of `wanted` that wait; the others keep their order.
    mutating func withdraw(_ wanted: Set<UInt64>, now: Instant) -> [UInt64] {
        if wanted.isEmpty { return [] }
        var ids: [UInt64] = []
        for _ in 0..<waiting.count {
            guard let notification = waiting.popFirst() else { break }
            if wanted.contains(notification.id) {
                ids.append(notification.id)
                if notification.avoiding != nil { avoiders -= 1 }
            } else {
                waiting.append(notification)
            }
        }
        if waiting.isEmpty { meter.became(nil, now: now) }
        return ids
    }

    /// The load of the queue, for the sizer.
    struct Load: Equatable {
        /// Whether a notification has waited since the last look while every session was full. Rate limits do not count.
        var wasBlocked = false
        var waiting = 0
        /// Streams that sessions could open at their last call of `take`.
        var free = 0
    }

    /// Returns the load since the previous look.
    mutating func look() -> Load {
        defer { wasBlocked = isBlocked }
        return Load(wasBlocked: wasBlocked, waiting: waiting.count, free: consumers.reduce(0) { $0 + $1.free })
    }

    /// The measurements of the sessions that take work.
    func figures(now: Instant) -> PoolFigures {
        var figures = PoolFigures()
        figures.sessions = consumers.count
        figures.bytesInFlight = consumers.reduce(0) { $0 + max(0, $1.bytesInFlight) }
        figures.window = consumers.map(\.window).max() ?? 0
        figures.payload = Int(meter.payload.rounded())
        figures.blocked = meter.blocked(now: now)
        let trips = consumers.compactMap(\.roundTrip)
        if !trips.isEmpty { figures.roundTrip = trips.reduce(.zero) { $0 + $1.smoothed } / trips.count }
        figures.shortestRoundTrip = trips.map(\.shortest).min()
        return figures
    }

    private var isBlocked: Bool { !waiting.isEmpty && !consumers.isEmpty && !consumers.contains { $0.hasRoom } }

    private mutating func noteBlocked(now: @autoclosure () -> Instant) {
        if !isBlocked { return }
        meter.began(consumers[0].limit, now: now())
        wasBlocked = true
    }

    /// Sessions up to this one take nothing; `nil` lets all take again.
    mutating func park(upTo session: SessionID?) -> [WakeUp] {
        parkedUpTo = session
        // They report their free streams again.
        return consumers.map(\.wakeUp)
    }

    private func isParked(_ session: SessionID) -> Bool { parkedUpTo.map { session <= $0 } ?? false }

    // MARK: Rate limits

    /// Whether a limit may stop a take. Then the caller of `take` passes the exact time.
    var isLimiting: Bool { calmLimiter != nil || ownLimiter != nil || rateLimits.isLimiting }

    /// Limits this pool alone to this many pushes per second after ENHANCE_YOUR_CALM; `nil` removes the limit.
    mutating func limit(to pushesPerSecond: Int?, now: Instant) -> [WakeUp] {
        calmLimiter.change(to: pushesPerSecond.map(Double.init), now: now)
        return limitsChanged()
    }

    /// Limits this pool alone to this many pushes per second; `nil` removes the limit.
    mutating func limitOwn(to pushesPerSecond: Double?, now: Instant) -> [WakeUp] {
        ownLimiter.change(to: pushesPerSecond, now: now)
        return limitsChanged()
    }

    /// The sessions that wait under limits which have changed look again.
    mutating func limitsChanged() -> [WakeUp] {
        timekeeper = nil
        return sleepers()
    }

    /// The reason why limits stopped a take.
    private struct Pause {
        /// The time to ask again.
        var opening: Instant
        /// Whether pushes that avoid the session were left to another one.
        var hasPassedOver: Bool
    }

    /// Handles limits that admit nothing for now: one session keeps the time for all. It passes this on after a long wait, and if
    /// it has left pushes to others: pushes wake no session meanwhile.
    private mutating func wait(for pause: Pause, _ consumer: Int, hasTaken: Bool, now: Instant) -> ([WakeUp], Instant?) {
        if timekeeper != nil { return ([], nil) }
        // A session that has taken nothing keeps the time, so that two sessions do not wake each other until the opening.
        if hasTaken && (pause.hasPassedOver || pause.opening - now >= Self.worthPassingOn) {
            let next = nextSleeper(after: consumer)
            if !next.isEmpty { return (next, nil) }
        }
        timekeeper = consumers[consumer].session
        return ([], pause.opening)
    }

    /// Counts a push that may go now and returns `nil`, or returns the time to ask again.
    private mutating func admit(payload: Int, now: Instant) -> Instant? {
        if calmLimiter == nil && ownLimiter == nil { return rateLimits.admit(payload: payload, now: now) }
        let opening = max(calmLimiter?.opening(for: 1, now: now) ?? now, ownLimiter?.opening(for: 1, now: now) ?? now)
        if opening > now { return max(opening, now + SharedRateLimits.shortestWait) }
        if rateLimits.isLimiting, let opening = rateLimits.admit(payload: payload, now: now) { return opening }
        calmLimiter?.count(1, now: now)
        ownLimiter?.count(1, now: now)
        return nil
    }

    // MARK: For a session

    /// Adds an open session, which takes work and is woken through `wakeUp`.
    mutating func join(_ session: SessionID, wakeUp: WakeUp) { consumers.append(Consumer(session: session, wakeUp: wakeUp)) }

    /// Stores the round trip of a session.
    mutating func measured(smoothed: Duration, shortest: Duration, of session: SessionID) {
        guard let consumer = consumers.firstIndex(where: { $0.session == session }) else { return }
        consumers[consumer].roundTrip = (smoothed, shortest)
    }

    /// Removes a session. Others look for the work that it would have taken.
    mutating func leave(_ session: SessionID) -> [WakeUp] {
        consumers.removeAll { $0.session == session }
        if timekeeper == session { timekeeper = nil }
        return sleepers()
    }

    /// Moves the session's share of the waiting notifications to `batch`: at most what it has room for, and at most what the
    /// rate limits admit. Returns the time at which the session must ask again, if so.
    ///
    /// A session calls this in every turn, even without room: the queue learns its free streams from the call. A notification
    /// that avoids this session stays for another one with room, if there is any.
    ///
    /// - Parameter now: the time of the session's turn; a small delay does not matter without rate limits, because the session
    ///   compares the sending deadline again when it writes.
    mutating func take(
        into batch: Ring<Notification>, room: Room, for session: SessionID, now: Instant
    ) -> (wakeUps: [WakeUp], again: Instant?) {
        guard let consumer = consumers.firstIndex(where: { $0.session == session }) else { return ([], nil) }
        if timekeeper == session { timekeeper = nil }
        let free = room.isEmpty || isParked(session) ? 0 : room.streams
        consumers[consumer].free = free
        consumers[consumer].limit = room.presentLimit
        (consumers[consumer].window, consumers[consumer].bytesInFlight) = (room.window, room.bytesInFlight)
        if isSendingOver(now: now) {
            consumers[consumer].isAsleep = true
            return ([], nil)
        }
        var pause: Pause?
        if free > 0 && !waiting.isEmpty { pause = moveShare(room, of: consumer, to: batch, now: now) }
        consumers[consumer].isAsleep = true
        if waiting.isEmpty {
            meter.became(nil, now: now)
            return ([], nil)
        }
        meter.became(pause != nil ? .rateLimit : isBlocked ? consumers[consumer].limit : nil, now: now)
        if let pause { return wait(for: pause, consumer, hasTaken: consumers[consumer].free < free, now: now) }
        noteBlocked(now: now)
        return (nextSleeper(after: consumer), nil)
    }

    /// Moves the share of a consumer with room. Returns the pause if a rate limit stopped it.
    @inline(__always)
    private mutating func moveShare(_ room: Room, of consumer: Int, to batch: Ring<Notification>, now: Instant) -> Pause? {
        var share = room
        share.streams = min(room.streams, shareOfStreams(for: consumer))
        consumers[consumer].lastRound = round
        let (most, session) = (share.streams, consumers[consumer].session)
        let pause = move(&share, to: batch, avoiding: session, now: now)
        let taken = most - share.streams
        consumers[consumer].free = share.bytes > 0 ? room.streams - taken : 0
        if share.bytes <= 0 { consumers[consumer].limit = share.limit == .streams ? .window : share.limit }
        if taken > 0 {
            tally.count(taken, now: now)
            meter.took(taken, bytes: room.bytes - share.bytes)
        }
        return pause
    }

    /// Returns an equal part for each session with free streams and without a share in this round, so that the first session
    /// does not take everything.
    private func shareOfStreams(for consumer: Int) -> Int {
        var contenders = 1
        for other in consumers.indices where other != consumer && consumers[other].hasRoom && consumers[other].lastRound != round
        {
            contenders += 1
        }
        return max(Self.worthWaking, (waiting.count + contenders - 1) / contenders)
    }

    /// Moves notifications while there is room. Returns the pause if a rate limit stopped it.
    private mutating func move(
        _ room: inout Room, to batch: Ring<Notification>, avoiding session: SessionID, now: Instant
    ) -> Pause? {
        let (isPaced, avoids) = (isLimiting, avoiders > 0 && hasAlternative(to: session))
        if !isPaced && !avoids {
            while !room.isEmpty, let notification = waiting.popFirst() { hand(notification, to: batch, &room) }
            return nil
        }
        var passed: [Notification] = []
        var opening: Instant?
        while !room.isEmpty, let notification = waiting.popFirst() {
            if avoids && notification.avoiding == session {
                passed.append(notification)
                continue
            }
            opening = isPaced ? admit(payload: notification.payload.count, now: now) : nil
            if opening != nil {
                waiting.prepend(notification)
                break
            }
            hand(notification, to: batch, &room)
        }
        for notification in passed.reversed() { waiting.prepend(notification) }
        return opening.map { Pause(opening: $0, hasPassedOver: !passed.isEmpty) }
    }

    @inline(__always)
    private mutating func hand(_ notification: consuming Notification, to batch: Ring<Notification>, _ room: inout Room) {
        if notification.avoiding != nil { avoiders -= 1 }
        room.spend(payload: notification.payload.count)
        batch.append(notification)
    }

    /// Whether another session could take a notification that avoids this one. A session without room could not.
    private func hasAlternative(to session: SessionID) -> Bool { consumers.contains { $0.session != session && $0.hasRoom } }

    /// Chooses as few sessions as can carry the waiting work, each with enough to be worth its wake-up.
    private mutating func sleepers() -> [WakeUp] {
        let withRoom = consumers.count { $0.hasRoom }
        if waiting.isEmpty || withRoom == 0 { return [] }
        var left = waiting.count
        let portion = max(Self.worthWaking, (left + withRoom - 1) / withRoom)
        var wakeUps: [WakeUp] = []
        // Each round starts with another session, so that single pushes do not all use one connection.
        let first = Int(truncatingIfNeeded: round & 0xFFFF)
        for step in consumers.indices where left > 0 {
            let consumer = (first + step) % consumers.count
            guard consumers[consumer].hasRoom else { continue }
            left -= min(portion, consumers[consumer].free)
            guard consumers[consumer].isAsleep else { continue }
            consumers[consumer].isAsleep = false
            wakeUps.append(consumers[consumer].wakeUp)
        }
        return wakeUps
    }

    /// Chooses one other sleeping session with free streams, for work that this session did not take.
    private mutating func nextSleeper(after consumer: Int) -> [WakeUp] {
        for step in 1..<max(consumers.count, 1) {
            let other = (consumer + step) % consumers.count
            if consumers[other].hasRoom && consumers[other].isAsleep {
                consumers[other].isAsleep = false
                return [consumers[other].wakeUp]
            }
        }
        return []
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
    mutating func began(_ limit: Limitation, now: Instant) {
        if present == nil { present = (limit, now) }
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
