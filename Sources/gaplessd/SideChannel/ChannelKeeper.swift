import Platform
import PushPool
import RedisQueue

/// Finds the channels that jobs name, creates them at their first use, and deletes them after their end.
///
/// The dispatcher asks and gets answers as messages. `duty` does the work: its calls to Redis are steps of the side channel, and
/// those to APNs' management API run on sessions of their own, so that a slow API delays only the channels that wait for it.
///
///     a name      fact                                       next
///     asked       it has a record                            found
///     asked       no record, and `channels` creates none     missing
///     asked       no record                                  leased, or asked again after the lease of another process
///     leased      another process has made the record        found
///     leased      no record                                  creating
///     creating    APNs has made the channel                  recorded, then found
///     creating    another failure                            failed for a time
///
/// A process that dies while it creates leaves a channel without a record: `gaplessd channel sweep` finds it.
final class ChannelKeeper: Sendable {
    enum Request: Sendable, Equatable {
        case find(ChannelName)
        /// APNs has accepted an `end`.
        case ended(ChannelName)
    }

    enum Answer: Sendable, Equatable {
        case found(ChannelName, id: String, storage: ChannelCall.Storage)
        /// There is none, and `channels` creates none.
        case missing(ChannelName)
        /// The name waits: its creation failed.
        case failed(ChannelName, for: Duration)
    }

    /// The time between two searches for deletions that are due.
    private static let searchInterval = Duration.seconds(5)
    /// The waits after the first and after many failures of one name.
    private static let firstWait = Duration.seconds(5)
    private static let longestWait = Duration.seconds(60)
    /// Names whose failures are counted.
    private static let mostFailures = 10_000

    private struct State {
        var configuration: Configuration
        /// Grows with each reload.
        var version = 0
        /// Apps that have changed by themselves and were not adopted, by their numbers.
        var changes: [Int: Settings.App] = [:]
        var requests: [Request] = []
        var report: @Sendable (Answer) -> Void = { _ in }
    }

    private let state: Locked<State>
    private let records: ChannelRecords
    private let log: Log
    private let wakeUp: WakeUp
    /// The outcomes of the calls.
    private let outcomes: Mailbox<Delivery>
    private let outcomesCame: WakeUp

    /// - Parameter wakeUp: of the side channel.
    init(_ configuration: Configuration, _ wakeUp: WakeUp, log: Log) throws(ThreadError) {
        state = Locked(State(configuration: configuration))
        records = ChannelRecords(Keys(list: configuration.settings.lists[0]))
        (self.wakeUp, self.log) = (wakeUp, log)
        outcomesCame = try WakeUp(thread: "side channel")
        outcomes = Mailbox(wakeUp: outcomesCame)
    }

    /// - Parameter report: receives the answers.
    func begin(report: @escaping @Sendable (Answer) -> Void) { state.withLock { $0.report = report } }

    /// Any thread.
    func ask(_ request: Request) {
        state.withLock { $0.requests.append(request) }
        wakeUp.ring()
    }

    func adopt(_ configuration: Configuration) {
        state.withLock { state in
            state.configuration = configuration
            state.version += 1
            state.changes = [:]
        }
        wakeUp.ring()
    }

    /// Files of `apps_dir` have changed.
    func adopt(_ changes: [(number: Int, app: Settings.App)]) {
        state.withLock { state in for (number, app) in changes { state.changes[number] = app } }
        wakeUp.ring()
    }

    var duty: any SideDuty { Duty(keeper: self) }

    /// One name, or one deletion, on its way.
    private struct Task {
        enum Step {
            /// Reads the record; `isLeased` if this process may create the channel.
            case read(isLeased: Bool)
            case lease
            /// Waits for APNs.
            case calling(UInt64)
            /// Writes the record of a channel that was created.
            case record(id: String)
            /// The record has changed meanwhile.
            case readAgain(id: String)
            /// Ends the lease after a failure.
            case release
            /// Removes the record of a channel that was deleted.
            case remove
        }

        enum Goal: Equatable { case find, end, delete }

        let goal: Goal
        let name: ChannelName
        var step = Step.read(isLeased: false)
        var due: Instant
        var entry: ChannelEntry?
        var isDone = false
    }

    private struct Duty: SideDuty {
        private let keeper: ChannelKeeper
        private var settings: Settings
        private var version = 0
        private var tasks: [Task] = []
        private var sessions = ManagementSessions()
        /// Consecutive failures of a name.
        private var failures: [ChannelName: Int] = [:]
        /// Apps with as many channels as Apple admits, and the end of their pause.
        private var full: [String: Instant] = [:]
        private var nextSearch = Instant.now
        private var hasComplained = false

        init(keeper: ChannelKeeper) {
            self.keeper = keeper
            settings = keeper.state.withLock { $0.configuration.settings }
        }

        var wanted: WakeUp? { keeper.outcomesCame }

        private var deletes: Bool { settings.channels.contains { $0.deleteAfterEnd != nil } }

        mutating func due(isWanted: Bool, now: Instant) -> Instant? {
            takeRequests(now: now)
            if isWanted { for outcome in keeper.outcomes.drain() { called(outcome.id, outcome.outcome, now: now) } }
            for (id, outcome) in sessions.expire(now: now) { called(id, outcome, now: now) }
            tasks.removeAll(where: \.isDone)
            var next = Earliest(sessions.deadline)
            for task in tasks { if case .calling = task.step {} else { next.consider(task.due) } }
            if deletes { next.consider(nextSearch) }
            return next.instant
        }

        private mutating func takeRequests(now: Instant) {
            let (requests, configuration, changes) = keeper.state.withLock { state in
                defer { (state.requests, state.changes) = ([], [:]) }
                let configuration = state.version == version ? nil : (state.configuration, state.version)
                return (state.requests, configuration, state.changes)
            }
            if let configuration {
                (settings, version) = (configuration.0.settings, configuration.1)
                sessions.close()
                full = [:]
            }
            for (number, app) in changes.sorted(by: { $0.key < $1.key }) {
                if number < settings.apps.count { settings.apps[number] = app } else { settings.apps.append(app) }
                sessions.close(app: app.name ?? "")
                full[app.name ?? ""] = nil
            }
            for request in requests {
                switch request {
                case .find(let name):
                    if tasks.contains(where: { $0.goal == .find && $0.name == name }) { continue }
                    tasks.append(Task(goal: .find, name: name, due: now))
                case .ended(let name): tasks.append(Task(goal: .end, name: name, due: now))
                }
            }
        }

        private func lease(_ name: ChannelName) -> Duration { app(of: name)?.channelLease ?? Settings.App.longestChannelLease }

        private func app(of name: ChannelName) -> Settings.App? { settings.apps.first { ($0.name ?? "") == name.app } }

        // MARK: Steps at Redis

        mutating func step(_ client: inout RedisClient, connection: Int) throws(RedisError) {
            let now = Instant.now
            if deletes && nextSearch <= now {
                let fields = try keeper.records.takeDue(for: Settings.App.longestChannelLease, &client)
                nextSearch = now + (fields.isEmpty ? ChannelKeeper.searchInterval : .zero)
                let records = try keeper.records.read(fields, &client).compactMap { $0.flatMap(ChannelRecord.init) }
                for record in records { tasks.append(Task(goal: .delete, name: record.name, due: now)) }
                return
            }
            guard let index = tasks.indices.first(where: { !tasks[$0].isDone && isAtRedis(tasks[$0]) && tasks[$0].due <= now })
            else { return }
            try step(index, &client)
            hasComplained = false
        }

        private func isAtRedis(_ task: Task) -> Bool { if case .calling = task.step { false } else { true } }

        private mutating func step(_ index: Int, _ client: inout RedisClient) throws(RedisError) {
            let task = tasks[index]
            switch task.step {
            case .calling: return
            case .read(let isLeased):
                let entry = try ChannelEntry.read(task.name, keeper.records, &client)
                tasks[index].entry = entry
                switch task.goal {
                case .find: found(entry, isLeased: isLeased, index)
                case .end: try end(entry, index, &client)
                case .delete: delete(entry, index)
                }
            case .lease:
                switch try keeper.records.beginCreation(task.name.fields[1], for: lease(task.name), &client) {
                case .own: tasks[index].step = .read(isLeased: true)
                // It usually takes no longer than a request.
                case .other(let left):
                    (tasks[index].step, tasks[index].due) = (.read(isLeased: false), .now + min(left, .milliseconds(250)))
                }
            case .record(let id): try record(id, index, &client)
            case .readAgain(let id):
                let entry = try ChannelEntry.read(task.name, keeper.records, &client)
                tasks[index].entry = entry
                guard let other = entry.record(in: environment(of: task.name)) else {
                    tasks[index].step = .record(id: id)
                    return
                }
                // The lease had ended, and another process was faster.
                discard(id, of: task.name)
                answer(.found(task.name, id: other.id, storage: other.storage), index)
            case .release:
                try keeper.records.endCreation(task.name.fields[1], &client)
                tasks[index].isDone = true
            case .remove:
                if let entry = task.entry, try keeper.records.make(entry.change(to: nil), &client) {
                    keeper.log.info("Channel \(task.name.text) deleted after its end.", .channelDeleted)
                }
                tasks[index].isDone = true
            }
        }

        private mutating func found(_ entry: ChannelEntry, isLeased: Bool, _ index: Int) {
            let name = tasks[index].name
            if let record = entry.record(in: environment(of: name)) {
                answer(.found(name, id: record.id, storage: record.storage), index)
                if isLeased { (tasks[index].step, tasks[index].isDone) = (.release, false) }
                return
            }
            guard let app = app(of: name), let rule = settings.channelRule(of: name.name), rule.creates else {
                return answer(.missing(name), index)
            }
            if let end = full[name.app], end > .now { return answer(.failed(name, for: end - .now), index) }
            if !isLeased {
                tasks[index].step = .lease
                return
            }
            do throws(ChannelCall.Failure) {
                tasks[index].step = .calling(try sessions.start(.create(rule.storage), for: app, keeper.outcomes, now: .now))
            } catch {
                failed(index, error)
            }
        }

        private mutating func record(_ id: String, _ index: Int, _ client: inout RedisClient) throws(RedisError) {
            let name = tasks[index].name
            guard let entry = tasks[index].entry else { return }
            let storage = settings.channelRule(of: name.name)?.storage ?? .none
            let record = ChannelRecord(
                name, id: id, storage: storage, environment: environment(of: name), created: WallClock.now().unixSeconds)
            guard try keeper.records.make(entry.change(to: record), &client) else {
                tasks[index].step = .readAgain(id: id)
                return
            }
            failures[name] = nil
            keeper.log.info("Channel \(name.text) created: \(id), storage \(storage.rawValue).", .channelCreated)
            answer(.found(name, id: id, storage: storage), index)
        }

        /// A record of a channel that another process has deleted is gone.
        private mutating func end(_ entry: ChannelEntry, _ index: Int, _ client: inout RedisClient) throws(RedisError) {
            guard var record = entry.record else {
                tasks[index].isDone = true
                return
            }
            record.ended = WallClock.now().unixSeconds
            let deletion = settings.channelRule(of: record.name.name)?.deleteAfterEnd
            let change = entry.change(to: record, deletion: deletion)
            if let deletion { nextSearch = min(nextSearch, .now + deletion) }
            // Otherwise the record has changed meanwhile, and is read again.
            if try keeper.records.make(change, &client) { tasks[index].isDone = true }
        }

        private mutating func delete(_ entry: ChannelEntry, _ index: Int) {
            guard let record = entry.record, record.ended != nil, let app = app(of: record.name),
                record.environment == app.environment
            else {
                tasks[index].isDone = true
                return
            }
            do throws(ChannelCall.Failure) {
                tasks[index].step = .calling(try sessions.start(.delete(record.id), for: app, keeper.outcomes, now: .now))
            } catch {
                failed(index, error)
            }
        }

        // MARK: Calls to APNs

        private mutating func called(_ id: UInt64, _ outcome: Outcome, now: Instant) {
            guard let call = sessions.ended(id, outcome, now: now) else { return }
            guard let index = tasks.firstIndex(where: { if case .calling(id) = $0.step { true } else { false } }) else { return }
            tasks[index].due = now
            do throws(ChannelCall.Failure) {
                switch try call.reply(outcome) {
                case .created(let id): tasks[index].step = .record(id: id)
                case .deleted: tasks[index].step = .remove
                case .found, .list: tasks[index].isDone = true
                }
            } catch  where error.isMissing && tasks[index].goal == .delete {
                tasks[index].step = .remove
            } catch {
                failed(index, error)
            }
        }

        /// Nobody uses a channel that was created twice.
        private mutating func discard(_ id: String, of name: ChannelName) {
            if let app = app(of: name) { _ = try? sessions.start(.delete(id), for: app, keeper.outcomes, now: .now) }
        }

        private mutating func failed(_ index: Int, _ failure: ChannelCall.Failure) {
            let name = tasks[index].name
            // A deletion is due again after its lease.
            guard tasks[index].goal == .find else {
                let wait = Int(Settings.App.longestChannelLease / .seconds(1))
                keeper.log.warning(
                    "Channel \(name.text) cannot be deleted: \(failure). Trying again in \(wait) s.", .channelFailed)
                tasks[index].isDone = true
                return
            }
            let wait = wait(name, failure)
            if failure.isFull { full[name.app] = .now + wait }
            let remedy = failure.isFull ? " The app has as many channels as Apple admits; see 'gaplessd channel sweep'." : ""
            keeper.log.warning(
                "Channel \(name.text) cannot be created: \(failure).\(remedy) Its jobs wait; trying again in "
                    + "\(Int(wait / .seconds(1))) s.", .channelFailed)
            answer(.failed(name, for: wait), index)
            (tasks[index].step, tasks[index].isDone, tasks[index].due) = (.release, false, .now)
        }

        private mutating func wait(_ name: ChannelName, _ failure: ChannelCall.Failure) -> Duration {
            if failures.count >= ChannelKeeper.mostFailures { failures = [:] }
            let count = failures[name, default: 0]
            failures[name] = min(count + 1, 10)
            if failure.isFull { return ChannelKeeper.longestWait }
            if case .rejected(let rejection) = failure, let pause = rejection.retryAfter {
                return min(max(pause, ChannelKeeper.firstWait), .seconds(900))
            }
            return min(ChannelKeeper.longestWait, ChannelKeeper.firstWait * (1 << count))
        }

        private func environment(of name: ChannelName) -> String { app(of: name)?.environment ?? "" }

        private mutating func answer(_ answer: ChannelKeeper.Answer, _ index: Int) {
            tasks[index].isDone = true
            keeper.state.withLock { $0.report }(answer)
        }

        /// A task is repeated after the pause. Without a right for the keys, the names wait longer.
        mutating func failed(_ error: RedisError) {
            guard case .reply(let reply) = error, reply.isMissingRight || reply.kind == .wrongType else { return }
            nextSearch = .now + ChannelKeeper.longestWait
            for index in tasks.indices where !tasks[index].isDone && tasks[index].goal == .find {
                if case .read = tasks[index].step { answer(.failed(tasks[index].name, for: ChannelKeeper.longestWait), index) }
            }
            if hasComplained { return }
            hasComplained = true
            keeper.log.warning("Channels: \(error). Jobs with a channel_name wait.", .channelFailed)
        }
    }
}
