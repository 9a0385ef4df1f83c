internal import RedisQueue
import SystemTime
internal import Threads

/// Another client of Redis: measures the time of each reply to a small command, on its own thread.
final class LatencyProbe {
    private struct State: Sendable {
        var isOver = false
        var worst = Duration.zero
    }

    private let state: Locked<State>
    private var thread: OwnedThread?

    init(_ server: QueueSettings) throws {
        let state = Locked(State())
        self.state = state
        thread = try OwnedThread(name: "latency probe") {
            guard var client = try? RedisClient(settings: server) else { return }
            while !state.withLock({ $0.isOver }) {
                let begin = Instant.now
                guard (try? client.command(["PING"])) != nil else { return }
                let took = Instant.now - begin
                state.withLock { $0.worst = max($0.worst, took) }
                Poller.sleep(.milliseconds(1))
            }
        }
    }

    deinit { stop() }

    /// Returns the longest time since the last call.
    func takeWorst() -> Duration {
        state.withLock { state in
            defer { state.worst = .zero }
            return state.worst
        }
    }

    func stop() {
        state.withLock { $0.isOver = true }
        thread.take()?.join()
    }
}
