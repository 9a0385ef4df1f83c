import Clocks
internal import Threads

/// What a pool's sessions share: notifications that no session has taken yet, and who could take them.
///
/// Work goes to whoever has room, when it has room. One lock for a batch; nobody is rung who is awake or full.
final class WorkQueue: Sendable {
    struct Seat {
        let session: SessionID
        let wakeUp: WakeUp
        /// Streams it could open when it last looked.
        var free = 0
        /// It found nothing to take and may sleep: somebody must ring.
        var isAsleep = true
        /// The round of pushing in which it had its share.
        var lastRound: UInt64 = 0

        var isHungry: Bool { free > 0 }
    }

    struct State {
        let waiting = Ring<Notification>()
        /// How many of those avoid a session: while there are none, nobody looks for any.
        var avoiders = 0
        var seats: [Seat] = []
        var round: UInt64 = 0
        /// The session that sleeps until the limits let the next one go: nobody else need ask.
        var timekeeper: SessionID?
        /// Something has waited since the last look though every session was full.
        var wasBlocked = false
        /// This pool's own limit of pushes a second, while APNs wants calm.
        var brake: RateLimiter?
        var tally = PushTally(now: .now)
    }

    /// A session is not woken for less than this while another one that is awake could do it: at 1 to 16 pushes a turn
    /// the wake-up costs more than the pushes (measured: 2 x 1 streams 15 us a push, 2 x 100 streams 1.6).
    private static let worthWaking = 16

    let state = Locked(State())
    let pacer: SharedRateLimits
    /// Rung when `Load.wasBlocked` comes true.
    private let blocked: WakeUp

    init(pacer: SharedRateLimits = SharedRateLimits(), blocked: WakeUp = WakeUp()) {
        self.pacer = pacer
        self.blocked = blocked
    }

    // MARK: The pool's side

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

    /// Takes back all that waits.
    func withdraw() -> [UInt64] {
        state.withLock { state in
            var ids: [UInt64] = []
            ids.reserveCapacity(state.waiting.count)
            while let notification = state.waiting.popFirst() { ids.append(notification.id) }
            state.avoiders = 0
            return ids
        }
    }

    /// Takes back those of `wanted` that wait; the others keep their order.
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
            return ids
        }
    }

    var count: Int { state.withLock { $0.waiting.count } }

    /// What the governor looks at.
    struct Load: Equatable {
        /// Since the last look something waited though every session was full. Limits make nobody full.
        var wasBlocked = false
        var waiting = 0
        /// Streams that sessions could open when they last looked.
        var free = 0
    }

    /// Whether `Load.wasBlocked` would be true.
    var wasBlocked: Bool { state.withLock { $0.wasBlocked } }

    /// A look at the load, which begins the next one.
    func look() -> Load {
        state.withLock { state in
            defer { state.wasBlocked = WorkQueue.isBlocked(state) }
            return Load(
                wasBlocked: state.wasBlocked, waiting: state.waiting.count, free: state.seats.reduce(0) { $0 + $1.free })
        }
    }

    private static func isBlocked(_ state: State) -> Bool {
        !state.waiting.isEmpty && !state.seats.isEmpty && !state.seats.contains { $0.isHungry }
    }

    private func noteBlocked(_ state: inout State) {
        if state.wasBlocked || !WorkQueue.isBlocked(state) { return }
        state.wasBlocked = true
        blocked.ring()
    }

    // MARK: A session's side

    /// The session is open: it will take, and be rung through `wakeUp` when there is something to take.
    func join(_ session: SessionID, wakeUp: WakeUp) {
        state.withLock { $0.seats.append(Seat(session: session, wakeUp: wakeUp)) }
    }

    /// The session takes no more. Others are rung for what it would have taken.
    func leave(_ session: SessionID) {
        let toRing = state.withLock { state in
            state.seats.removeAll { $0.session == session }
            if state.timekeeper == session { state.timekeeper = nil }
            return WorkQueue.sleepers(&state, enoughFor: state.waiting.count)
        }
        for wakeUp in toRing { wakeUp.ring() }
    }

    /// Moves the session's share of what waits to `batch`: never more than `free`, the streams it can open, nor than the limits
    /// allow. Returns when the session must ask again though nobody rings it, if so.
    ///
    /// A session calls this in every turn, even with nothing free: it is how the queue knows who is hungry. What avoids
    /// this session stays for another, as long as there is one.
    ///
    /// - Parameter now: of the session's turn; a little late is early enough.
    func take(
        into batch: Ring<Notification>, free: Int, for session: SessionID, now: Instant
    ) -> Instant? {
        let (toRing, again): ([WakeUp], Instant?) = state.withLock { state in
            guard let seat = state.seats.firstIndex(where: { $0.session == session }) else { return ([], nil) }
            if state.timekeeper == session { state.timekeeper = nil }
            state.seats[seat].free = free
            var opening: Instant?
            if free > 0 && !state.waiting.isEmpty {
                let share = min(free, WorkQueue.share(of: state.waiting.count, for: seat, state))
                state.seats[seat].lastRound = state.round
                let taken: Int
                if state.brake != nil || pacer.isLimiting {
                    (taken, opening) = movePaced(share, to: batch, avoiding: session, &state)
                } else {
                    taken = WorkQueue.move(share, to: batch, avoiding: session, &state)
                }
                state.seats[seat].free = free - taken
                if taken > 0 { state.tally.count(taken, now: now) }
            }
            state.seats[seat].isAsleep = true
            if state.waiting.isEmpty { return ([], nil) }
            if let opening { return WorkQueue.wait(until: opening, seat, hasTaken: state.seats[seat].free < free, &state) }
            noteBlocked(&state)
            return (WorkQueue.nextSleeper(after: seat, &state), nil)
        }
        for wakeUp in toRing { wakeUp.ring() }
        return again
    }

    /// An equal part for each hungry session that had none yet in this round, so that the first to look does not take all.
    private static func share(of waiting: Int, for seat: Int, _ state: State) -> Int {
        var contenders = 1
        for other in state.seats.indices
        where other != seat && state.seats[other].isHungry && state.seats[other].lastRound != state.round {
            contenders += 1
        }
        return max(worthWaking, (waiting + contenders - 1) / contenders)
    }

    private static func move(
        _ share: Int, to batch: Ring<Notification>, avoiding session: SessionID, _ state: inout State
    ) -> Int {
        if state.avoiders == 0 || state.seats.count == 1 {
            for taken in 0..<share {
                guard let notification = state.waiting.popFirst() else { return taken }
                if notification.avoiding != nil { state.avoiders -= 1 }
                batch.append(notification)
            }
            return share
        }
        var taken = 0
        var passed: [Notification] = []
        while taken < share, let notification = state.waiting.popFirst() {
            if notification.avoiding == session {
                passed.append(notification)
                continue
            }
            if notification.avoiding != nil { state.avoiders -= 1 }
            batch.append(notification)
            taken += 1
        }
        for notification in passed.reversed() { state.waiting.prepend(notification) }
        return taken
    }

    /// Wakes as few sessions as can carry the work, each with enough to be worth it.
    static func sleepers(_ state: inout State, enoughFor waiting: Int) -> [WakeUp] {
        let hungry = state.seats.count { $0.isHungry }
        if waiting == 0 || hungry == 0 { return [] }
        let portion = max(worthWaking, (waiting + hungry - 1) / hungry)
        var left = waiting
        var wakeUps: [WakeUp] = []
        // Each round begins with another session, so that single pushes do not all go down one connection.
        let first = Int(truncatingIfNeeded: state.round & 0xFFFF)
        for step in state.seats.indices where left > 0 {
            let seat = (first + step) % state.seats.count
            guard state.seats[seat].isHungry else { continue }
            left -= min(portion, state.seats[seat].free)
            guard state.seats[seat].isAsleep else { continue }
            state.seats[seat].isAsleep = false
            wakeUps.append(state.seats[seat].wakeUp)
        }
        return wakeUps
    }

    /// Something was left that this session would not or could not take: one other hungry sleeper has a look.
    static func nextSleeper(after seat: Int, _ state: inout State) -> [WakeUp] {
        let count = state.seats.count
        for step in 1..<max(count, 1) {
            let other = (seat + step) % count
            if state.seats[other].isHungry && state.seats[other].isAsleep {
                state.seats[other].isAsleep = false
                return [state.seats[other].wakeUp]
            }
        }
        return []
    }
}
