import RedisQueue
import Sockets
import SystemTime
import Threads

/// Writes the state of the apps to this worker's records in Redis, on a thread and a connection of its own: a Redis that hangs
/// blocks only this thread.
final class StatePublisher: Sendable {
    private static let timeout = Duration.seconds(1)
    /// The wait after a failure.
    private static let pause = Duration.seconds(2)
    /// The longest time between two writes of the same record: Redis may have been emptied.
    private static let refresh = Duration.seconds(30)
    private static let closingTimeout = Duration.milliseconds(100)

    private struct State {
        var record: [UInt8]?
        var settings: QueueSettings
        var tls: TLSContext?
        var workers: [(list: String, worker: String)]
        var isStopped = false
    }

    private let state: Locked<State>
    private let thread = Locked<(join: JoinOnce, wakeUp: WakeUp)?>(nil)

    /// - Parameter workers: the name of this worker at each list.
    init(_ configuration: Configuration, workers: [String]) {
        state = Locked(
            State(
                settings: configuration.settings.connection(timeout: Self.timeout), tls: configuration.redisTLS,
                workers: zip(configuration.settings.lists, workers).map { (list: $0, worker: $1) }))
    }

    /// Uses other credentials and addresses from the next connection on.
    func adopt(_ configuration: Configuration) {
        let queue = configuration.settings.connection(timeout: Self.timeout)
        state.withLock { ($0.settings, $0.tls) = (queue, configuration.redisTLS) }
    }

    /// Writes to the record of another name from the next time on.
    func renamed(to worker: String, list: Int) { state.withLock { $0.workers[list].worker = worker } }

    func publish(_ record: [UInt8]) {
        state.withLock { $0.record = record }
        // Without a free thread or descriptor the next record tries again: delivery comes first.
        thread.withLock { thread in
            if thread == nil { thread = try? start() }
            thread?.wakeUp.ring()
        }
    }

    /// Ends the thread. If it is waiting for Redis, it ends with the process.
    func stop() {
        state.withLock { $0.isStopped = true }
        guard let (thread, wakeUp) = thread.withLock({ $0 }) else { return }
        wakeUp.ring()
        thread.join(atMost: Self.closingTimeout)
    }

    private func start() throws(ThreadError) -> (join: JoinOnce, wakeUp: WakeUp) {
        let name = "state"
        let wakeUp = try WakeUp(thread: name)
        let thread = try JoinOnce(name: name) { [state] in Self.run(state, wakeUp) }
        return (thread, wakeUp)
    }

    private static func run(_ state: Locked<State>, _ wakeUp: WakeUp) {
        var client = KeptClient()
        var poller = Poller()
        poller.add(wakeUp.descriptor, for: .read)
        var next: Instant?
        while true {
            poller.wait(until: next)
            wakeUp.listen()
            let current = state.withLock { $0 }
            if current.isStopped { return }
            guard let record = current.record else { continue }
            do throws(RedisError) {
                try client.run(current.settings, current.tls) { client throws(RedisError) in
                    for (list, worker) in current.workers {
                        try WorkerRecord.write(apps: record, of: worker, Keys(list: list), &client)
                    }
                }
                next = .now + refresh
            } catch {
                next = .now + pause
            }
        }
    }
}
