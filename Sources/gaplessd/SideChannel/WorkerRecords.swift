import Platform
import RedisQueue

/// This worker's records in Redis with the state of its apps, the acceptances that all daemons of a list remember
/// (`AcceptanceMemory`), and the apps that they have had (`AppRecords`). The dispatcher hands them over here, and `duty` writes
/// them.
final class WorkerRecords: Sendable {
    /// The longest time between two writes of the same record: Redis may have been emptied.
    private static let refresh = Duration.seconds(30)
    /// The time between two searches for acceptances that are too old.
    private static let cleaning = Duration.seconds(3600)
    /// The time between two records of the same app.
    private static let appInterval = Duration.seconds(3600)

    /// Takes what Redis remembers of the apps in doubt: the time since the last acceptance, by fingerprint.
    typealias Found = @Sendable ([String: Duration]) -> Void

    private struct State {
        var record: WorkerRecord.Fields?
        /// Acceptances that Redis does not have yet, by fingerprint.
        var accepted: [String: Instant] = [:]
        /// The fingerprints of apps in doubt.
        var wanted: [String] = []
        /// The apps of the settings, with their topics, and for each list those that it may not have yet.
        var apps: [String: String] = [:]
        var unwritten: [Set<String>]
        /// The name of this worker at each list.
        var workers: [String] = []
        var found: Found = { _ in }
        /// Whether something was published since the last round.
        var isNew = false
    }

    private let state: Locked<State>
    private let lists: [Keys]
    private let wakeUp: WakeUp

    init(_ lists: [String], _ wakeUp: WakeUp) {
        self.lists = lists.map(Keys.init)
        state = Locked(State(unwritten: lists.map { _ in [] }))
        self.wakeUp = wakeUp
    }

    /// - Parameter workers: the name of this worker at each list.
    func begin(workers: [String], found: @escaping Found) { state.withLock { ($0.workers, $0.found) = (workers, found) } }

    /// Writes to the record of another name from the next time on.
    func renamed(to worker: String, list: Int) { state.withLock { $0.workers[list] = worker } }

    /// - Parameters:
    ///   - record: of this worker; `nil` leaves it as it is.
    ///   - accepted: acceptances to record, by fingerprint.
    ///   - wanted: the fingerprints of all apps in doubt.
    func publish(_ record: WorkerRecord.Fields?, accepted: [String: Instant], wanted: [String]) {
        state.withLock { state in
            if let record { state.record = record }
            state.accepted.merge(accepted) { max($0, $1) }
            (state.wanted, state.isNew) = (wanted, true)
        }
        wakeUp.ring()
    }

    /// The settings have these apps, or not any more. The record of an app that is gone stays, and an app that has not changed is
    /// not written again.
    func has(_ apps: [Settings.App]) {
        let isNew = state.withLock { state in
            var isNew = false
            for app in apps {
                guard let name = app.name else { continue }
                let topic = app.isRemoved ? nil : app.defaultTopic ?? ""
                if state.apps[name] == topic { continue }
                state.apps[name] = topic
                for list in state.unwritten.indices {
                    if topic == nil { state.unwritten[list].remove(name) } else { state.unwritten[list].insert(name) }
                }
                isNew = true
            }
            state.isNew = state.isNew || isNew
            return isNew
        }
        if isNew { wakeUp.ring() }
    }

    var duty: any SideDuty { Duty(records: self) }

    private struct Duty: SideDuty {
        private enum Step {
            case record(list: Int)
            case acceptances
            case apps(list: Int)
        }

        private let records: WorkerRecords
        /// Of this round.
        private var steps: [Step] = []
        private var nextRound: Instant?
        private var nextCleaning = Instant.now
        private var nextApps = Instant.now + WorkerRecords.appInterval

        init(records: WorkerRecords) { self.records = records }

        var wanted: WakeUp? { nil }

        mutating func due(isWanted: Bool, now: Instant) -> Instant? {
            guard steps.isEmpty else { return now }
            return records.state.withLock { $0.isNew } ? now : nextRound
        }

        mutating func step(_ client: inout RedisClient, connection: Int) throws(RedisError) {
            if steps.isEmpty {
                let (hasRecord, hasApps) = records.state.withLock { state in
                    state.isNew = false
                    return (state.record != nil, !state.apps.isEmpty)
                }
                steps = hasRecord ? records.lists.indices.map(Step.record) : []
                steps.append(.acceptances)
                if hasApps { steps += records.lists.indices.map(Step.apps) }
                nextRound = .now + WorkerRecords.refresh
            }
            switch steps[0] {
            case .record(let list):
                let (record, worker) = records.state.withLock { ($0.record, $0.workers[list]) }
                if let record { try WorkerRecord.write(record, of: worker, records.lists[list], &client) }
            case .acceptances: try exchangeAcceptances(&client)
            case .apps(let list): if try writeApps(list: list, &client) { return }
            }
            steps.removeFirst()
        }

        /// Returns whether there are more.
        private mutating func writeApps(list: Int, _ client: inout RedisClient) throws(RedisError) -> Bool {
            // A copy of the dictionary, which the dispatcher changes, would make the next change copy all of it.
            let batch = records.state.withLock { state in
                var batch: [String: String] = [:]
                for name in state.unwritten[list].prefix(AppRecords.batch) { batch[name] = state.apps[name] }
                return batch
            }
            let count: Int
            do throws(RedisError) {
                count = try AppRecords.write(batch, records.lists[list], &client)
            } catch {
                // Without the right, the jobs of an app that was removed before a start are bad jobs.
                guard case .reply(let reply) = error, reply.isMissingRight || reply.kind == .wrongType else { throw error }
                records.state.withLock { $0.unwritten[list] = [] }
                return false
            }
            let isDue = nextApps <= .now
            if isDue { nextApps = .now + WorkerRecords.appInterval }
            return records.state.withLock { state in
                for (name, topic) in batch where state.apps[name] == topic { state.unwritten[list].remove(name) }
                // Redis may have been emptied.
                let isLost = state.unwritten[list].isEmpty && count < min(state.apps.count, AppRecords.capacity / 2)
                for index in state.unwritten.indices where isDue || isLost && index == list {
                    state.unwritten[index] = Set(state.apps.keys)
                }
                return !state.unwritten[list].isEmpty
            }
        }

        private mutating func exchangeAcceptances(_ client: inout RedisClient) throws(RedisError) {
            let (accepted, wanted, found) = records.state.withLock { ($0.accepted, $0.wanted, $0.found) }
            if accepted.isEmpty && wanted.isEmpty { return }
            let cleans = nextCleaning <= .now
            do throws(RedisError) {
                let known = try AcceptanceMemory.exchange(
                    accepted.mapValues { .now - $0 }, wanted: wanted, removesOld: cleans, records.lists[0],
                    &client)
                if cleans { nextCleaning = .now + WorkerRecords.cleaning }
                if !known.isEmpty { found(known) }
                records.state.withLock { state in
                    for (app, time) in accepted where state.accepted[app] == time { state.accepted[app] = nil }
                }
            } catch {
                // The lists report a failure of Redis. Without the right, each app begins in doubt.
                guard case .reply(let reply) = error, reply.isMissingRight || reply.kind == .wrongType else { throw error }
                records.state.withLock { ($0.accepted, $0.wanted) = ([:], []) }
            }
        }

        /// The other steps follow after the pause, and then the whole round again.
        mutating func failed(_ error: RedisError) {
            if !steps.isEmpty { steps.removeFirst() }
            nextRound = .now
        }
    }
}
