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
        /// The state of the apps since the last round; `nil` if nothing was published.
        var published: (apps: [ProcessSnapshot.App], at: Instant)?
        /// The apps of the settings, with their topics, and for each list those that it may not have yet.
        var apps: [String: String] = [:]
        var unwritten: [Set<String>]
        /// The name of this worker at each list.
        var workers: [String] = []
        var found: Found = { _ in }
        /// Whether apps were added or removed since the last round.
        var hasNewApps = false
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

    /// Hands over the state of all apps. The thread of the side channel finds what is to be written: with thousands of apps it
    /// takes milliseconds.
    func publish(_ apps: [ProcessSnapshot.App], at now: Instant) {
        state.withLock { $0.published = (apps, now) }
        wakeUp.ring()
    }

    /// The settings have these apps, or not any more. The record of an app that is gone stays, and an app that has not changed is
    /// not written again.
    ///
    /// - Parameter isIncluded: whether the app with this index may have changed.
    func has(_ apps: [Settings.App], where isIncluded: (Int) -> Bool = { _ in true }) {
        let isNew = state.withLock { state in
            var isNew = false
            for app in apps.indices where isIncluded(app) {
                guard let name = apps[app].name else { continue }
                let topic = apps[app].isRemoved ? nil : apps[app].defaultTopic ?? ""
                if state.apps[name] == topic { continue }
                state.apps[name] = topic
                for list in state.unwritten.indices {
                    if topic == nil { state.unwritten[list].remove(name) } else { state.unwritten[list].insert(name) }
                }
                isNew = true
            }
            state.hasNewApps = state.hasNewApps || isNew
            return isNew
        }
        if isNew { wakeUp.ring() }
    }

    var duty: any SideDuty { Duty(records: self) }

    private struct Duty: SideDuty {
        private enum Step: Hashable {
            case record(list: Int)
            case acceptances
            case apps(list: Int)
        }

        /// The least time between two records of an acceptance of the same app.
        private static let acceptanceInterval = Duration.seconds(60)
        /// The time for which a step that Redis refuses is left out: rounds follow each change of an app.
        private static let refusalPause = Duration.seconds(60)

        private let records: WorkerRecords
        private let started = Instant.now
        private var state = WorkerState()
        private var record: WorkerRecord.Fields?
        /// Acceptances that Redis does not have yet, and those that were found last, by fingerprint.
        private var accepted: [String: Instant] = [:]
        private var recorded: [String: Instant] = [:]
        /// The fingerprints of the apps in doubt.
        private var doubts: [String] = []
        /// Whether `record`, `accepted` or `doubts` has changed since the last round.
        private var isNew = false
        /// Of this round.
        private var steps: [Step] = []
        private var nextRound: Instant?
        /// The steps that Redis has refused on this connection, with the ends of their pauses.
        private var refused: [Step: Instant] = [:]
        private var connection = 0
        private var nextCleaning = Instant.now
        private var nextApps = Instant.now + WorkerRecords.appInterval

        init(records: WorkerRecords) { self.records = records }

        var wanted: WakeUp? { nil }

        mutating func due(isWanted: Bool, now: Instant) -> Instant? {
            guard steps.isEmpty else { return now }
            let (published, hasNewApps) = records.state.withLock { state in
                defer { state.published = nil }
                return (state.published, state.hasNewApps)
            }
            if let published { look(at: published.apps, now: published.at) }
            return isNew || hasNewApps ? now : nextRound
        }

        /// Finds what has changed.
        private mutating func look(at apps: [ProcessSnapshot.App], now: Instant) {
            if let new = state.record(of: apps, now: now) { (record, isNew) = (new, true) }
            // Acceptances of this process, at most once a minute for each app.
            for app in apps {
                guard let time = app.acceptedAt, time >= started else { continue }
                if let last = recorded[app.fingerprint], time - last < Self.acceptanceInterval { continue }
                (recorded[app.fingerprint], accepted[app.fingerprint], isNew) = (time, time, true)
            }
            if recorded.count > 2 * apps.count {
                let known = Set(apps.map(\.fingerprint))
                recorded = recorded.filter { known.contains($0.key) }
            }
            // Apps without jobs need no acceptance.
            let inDoubt = apps.filter { !$0.isIdle && !$0.isRemoved && !$0.isKnown(now: now) }.map(\.fingerprint)
            if inDoubt != doubts { (doubts, isNew) = (inDoubt, true) }
        }

        mutating func step(_ client: inout RedisClient, connection: Int) throws(RedisError) {
            if connection != self.connection { (self.connection, refused) = (connection, [:]) }
            if steps.isEmpty {
                isNew = false
                let hasApps = records.state.withLock { state in
                    state.hasNewApps = false
                    return !state.apps.isEmpty
                }
                steps = record == nil ? [] : records.lists.indices.map(Step.record)
                steps.append(.acceptances)
                if hasApps { steps += records.lists.indices.map(Step.apps) }
                nextRound = .now + WorkerRecords.refresh
            }
            if let end = refused[steps[0]] {
                if end > .now {
                    steps.removeFirst()
                    return
                }
                refused[steps[0]] = nil
            }
            switch steps[0] {
            case .record(let list):
                let worker = records.state.withLock { $0.workers[list] }
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
                try pause(.apps(list: list), after: error)
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
            if accepted.isEmpty && doubts.isEmpty { return }
            let cleans = nextCleaning <= .now
            do throws(RedisError) {
                let known = try AcceptanceMemory.exchange(
                    accepted.mapValues { .now - $0 }, wanted: doubts, removesOld: cleans, records.lists[0],
                    &client)
                if cleans { nextCleaning = .now + WorkerRecords.cleaning }
                if !known.isEmpty { records.state.withLock { $0.found }(known) }
                accepted = [:]
            } catch {
                // The lists report a failure of Redis. Without the right, each app begins in doubt.
                try pause(.acceptances, after: error)
                accepted = [:]
            }
        }

        /// Leaves out a step that the user may not make. Any other error is thrown.
        private mutating func pause(_ step: Step, after error: RedisError) throws(RedisError) {
            guard case .reply(let reply) = error, reply.isMissingRight || reply.kind == .wrongType else { throw error }
            refused[step] = .now + Self.refusalPause
        }

        /// The other steps follow after the pause, and then the whole round again.
        mutating func failed(_ error: RedisError) {
            if !steps.isEmpty { steps.removeFirst() }
            nextRound = .now
        }
    }
}
