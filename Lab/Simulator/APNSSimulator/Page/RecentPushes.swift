internal import Platform

/// The latest pushes, for any thread. Each has about 15 KiB at most.
final class RecentPushes: Sendable {
    private struct State {
        var pushes: [RecentPush] = []
        var count = 0
    }

    private let limit: Int
    private let state = Locked(State())

    init(limit: Int) { self.limit = limit }

    /// The number of pushes since the start, and those that are kept, newest first.
    var all: (count: Int, pushes: [RecentPush]) { state.withLock { ($0.count, $0.pushes.suffix(limit).reversed()) } }

    func add(_ pushes: [RecentPush]) {
        state.withLock { state in
            for push in pushes {
                state.count += 1
                state.pushes.append(push)
                state.pushes[state.pushes.count - 1].number = state.count
            }
            // Half of twice the limit is removed at once, so that a push does not move all others.
            if state.pushes.count >= 2 * limit { state.pushes.removeFirst(state.pushes.count - limit) }
        }
    }

    func clear() { state.withLock { $0.pushes = [] } }
}
