import Platform
import RedisQueue

/// Writes the state of the apps to this worker's records in Redis, records acceptances and looks them up (`AcceptanceMemory`),
/// on a thread and a connection of its own: a Redis that hangs blocks only this thread.
final class StatePublisher: Sendable {
    private static let timeout = Duration.seconds(1)
    /// The wait after a failure.
    private static let pause = Duration.seconds(2)
    /// The longest time between two writes of the same record: Redis may have been emptied.
    private static let refresh = Duration.seconds(30)
    /// The time between two searches for acceptances that are too old.
    private static let cleaning = Duration.seconds(3600)
    private static let closingTimeout = Duration.milliseconds(100)

    /// Takes what Redis remembers of the apps in doubt: the time since the last acceptance, by fingerprint.
    typealias Found = @Sendable ([String: Duration]) -> Void

    private struct State {
        var record: [UInt8]?
        /// Acceptances that Redis does not have yet, by fingerprint.
        var accepted: [String: Instant] = [:]
        /// The fingerprints of apps in doubt.
        var wanted: [String] = []
        var settings: QueueSettings
        var tls: TLSContext?
        var workers: [(list: String, worker: String)]
        var isStopped = false
    }

    private let state: Locked<State>
    private let thread = Locked<(join: JoinOnce, wakeUp: WakeUp)?>(nil)
    private let found: Found

    /// - Parameter workers: the name of this worker at each list.
    init(_ configuration: Configuration, workers: [String], found: @escaping Found) {
        self.found = found
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

    /// - Parameters:
    ///   - record: of this worker; `nil` leaves it as it is.
    ///   - accepted: acceptances to record, by fingerprint.
    ///   - wanted: the fingerprints of all apps in doubt.
    func publish(_ record: [UInt8]?, accepted: [String: Instant], wanted: [String]) {
        state.withLock { state in
            if let record { state.record = record }
            state.accepted.merge(accepted) { max($0, $1) }
            state.wanted = wanted
        }
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
        let thread = try JoinOnce(name: name) { [state, found] in Self.run(state, found, wakeUp) }
        return (thread, wakeUp)
    }

    private static func run(_ state: Locked<State>, _ found: Found, _ wakeUp: WakeUp) {
        var client = KeptClient()
        var nextCleaning = Instant.now
        var poller = Poller()
        poller.add(wakeUp.descriptor, for: .read)
        var next: Instant?
        while true {
            poller.wait(until: next)
            wakeUp.listen()
            let current = state.withLock { $0 }
            if current.isStopped { return }
            next = .now + refresh
            do throws(RedisError) {
                if let record = current.record {
                    try client.run(current.settings, current.tls) { client throws(RedisError) in
                        for (list, worker) in current.workers {
                            try WorkerRecord.write(apps: record, of: worker, Keys(list: list), &client)
                        }
                    }
                }
            } catch {
                next = .now + pause
            }
            guard !current.accepted.isEmpty || !current.wanted.isEmpty else { continue }
            do throws(RedisError) {
                let cleans = nextCleaning <= .now
                let known = try client.run(current.settings, current.tls) { client throws(RedisError) in
                    try AcceptanceMemory.exchange(
                        current.accepted.mapValues { .now - $0 }, wanted: current.wanted, removesOld: cleans,
                        Keys(list: current.workers[0].list), &client)
                }
                if cleans { nextCleaning = .now + cleaning }
                if !known.isEmpty { found(known) }
                state.withLock { state in
                    for (app, time) in current.accepted where state.accepted[app] == time { state.accepted[app] = nil }
                }
            } catch {
                // The lists report a failure of Redis. Without the right, each app begins in doubt.
                if case .reply(let reply) = error, reply.isMissingRight || reply.kind == .wrongType {
                    state.withLock { ($0.accepted, $0.wanted) = ([:], []) }
                } else {
                    next = .now + pause
                }
            }
        }
    }
}
