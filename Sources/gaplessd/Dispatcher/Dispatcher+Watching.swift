import Clocks
import PushPool
import RedisQueue

/// What the dispatcher tells of itself, where somebody listens.
extension Dispatcher {
    /// At the end of each turn. Without `metrics_listen` it costs one comparison.
    mutating func tellWatchers() {
        guard watch.isOpen, notices.turned(now: now) else { return }
        watch.board.publish(snapshot, at: now)
    }

    private var snapshot: ProcessSnapshot {
        ProcessSnapshot(
            isLeaving: phase != .running, inFlight: held.count, counters: counters,
            apps: apps.map { $0.snapshot(now: now) },
            lists: lists.map { list in
                ProcessSnapshot.List(
                    name: list.name, isConnected: list.isConnected, isInDoubt: list.isInDoubt,
                    sinceContact: list.queue.lastContact.map { now - $0 })
            })
    }
}

extension PushApp {
    func snapshot(now: Instant) -> ProcessSnapshot.App {
        let hold: HoldReason? = if case .held(let reason) = gate.phase { reason } else { nil }
        return ProcessSnapshot.App(
            name: name, sessions: sessions.count, capacity: pool.capacity, held: held,
            streams: max(0, held - heldSuspects - outgoing.count - pool.waiting), hold: hold,
            certificateExpires: certificateExpires, tokenAge: pool.providerTokenAge(now: now))
    }
}
