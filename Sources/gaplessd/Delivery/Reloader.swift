import Glibc
import Platform
import RedisQueue

/// Reads the settings and the credentials again, after SIGHUP or because their files have changed, and rejects what a running
/// daemon cannot adopt.
///
/// The dispatcher owns this value. The files are read on a thread of its own (`FileThread`), so that neither a slow file
/// system nor many credentials delay a job. It starts with the first reload, or with `watch_files`.
struct Reloader: ~Copyable {
    /// Reads the settings file and its credentials.
    typealias Read = @Sendable () -> Result<Configuration, SettingsErrors>
    /// Tries the settings at Redis.
    typealias Trial = @Sendable (Settings) throws(ProbeError) -> Void

    /// A configuration that was read, compared with the one in force, and tried at Redis.
    struct Reading: Sendable {
        /// An app whose new credential cannot be used has its previous settings and credential.
        var configuration: Configuration
        var plan: DispatchPlan
        /// For each app, whether its settings or its credential have changed.
        var changes: [Bool]
        /// Faults of the apps that keep their previous credential.
        var faults: [String]
    }

    /// A reading that can be adopted.
    struct Prepared {
        var reading: Reading
        fileprivate var endpoint: MetricsEndpoint.Preparation
    }

    /// Apps whose files in `apps_dir` have changed.
    struct AppChanges: Sendable {
        /// With their numbers, in order. A removed app stays, without its credential.
        var changes: [(number: Int, app: Settings.App)] = []
        var (added, changed, removed): ([String], [String], [String]) = ([], [], [])
        /// Lines for the log. The log reports other faults with the apps that they hold.
        var (faults, warnings): ([String], [String]) = ([], [])

        var isEmpty: Bool { changes.isEmpty && faults.isEmpty && warnings.isEmpty }

        /// `apps_dir: added "a"; removed "b", "c"`
        var summary: String {
            let parts = [("added", added), ("changed", changed), ("removed", removed)].filter { !$0.1.isEmpty }
            return "apps_dir: " + parts.map { "\($0.0) \(Self.list($0.1))" }.joined(separator: "; ")
        }

        private static func list(_ names: [String]) -> String {
            let most = 10
            let shown = names.prefix(most).map { "\"\($0.printable)\"" }.joined(separator: ", ")
            return names.count > most ? "\(shown) and \(names.count - most) more" : shown
        }
    }

    /// The reasons why a reading cannot be adopted: lines for the log.
    struct Rejection: Error, Sendable { var lines: [String] }

    enum Message: Sendable {
        /// `watch_files` has found a change. It is not read before a request.
        case filesChanged
        case read(Result<Reading, Rejection>)
        /// Adopted without a request. The next ones follow after `appsAdopted`.
        case appsChanged(AppChanges)
        /// Acceptances that Redis remembers: the time since each, by fingerprint. They come from `WorkerRecords`, and share this
        /// mailbox because each one costs a descriptor.
        case remembered([String: Duration])
        /// From `ChannelKeeper`, through the same mailbox.
        case channel(ChannelKeeper.Answer)
    }

    private let thread: FileThread
    private let log: Log
    private let metrics: MetricsEndpoint
    private let channel: SideChannel
    /// The settings file.
    private let file: String
    private var isReading = false
    /// Whether another reload was requested during this one. It begins after this one, with the configuration in force then.
    private var isWantedAgain = false
    /// The processes of `gaplessd reload` that wait for the present reload, and for the next one.
    private var (asking, askingNext): ([pid_t], [pid_t]) = ([], [])
    /// The lines of the last rejection.
    private var rejected: [String] = []

    /// - Parameter configuration: that of the start.
    init(
        _ configuration: Configuration, read: @escaping Read,
        trial: @escaping Trial = { settings throws(ProbeError) in _ = try RedisProbe.run(settings) }, log: Log,
        metrics: MetricsEndpoint, channel: SideChannel
    ) throws(ThreadError) {
        let thread = try FileThread(configuration, read, trial, channel)
        if configuration.settings.watchesFiles || configuration.appFolder != nil { try thread.begin() }
        self.thread = thread
        (self.log, self.metrics, self.channel) = (log, metrics, channel)
        file = configuration.file
    }

    deinit { thread.stop() }

    /// The messages to the dispatcher.
    var messages: Mailbox<Message> { thread.messages }

    /// Processes that wait for an answer at most: further ones get none, and ask again.
    private static let mostAskers = 64

    /// A process waits for the result of the next reload that begins.
    mutating func asked(by process: pid_t) { if askingNext.count < Self.mostAskers { askingNext.append(process) } }

    /// Answers the processes that wait for the reload that has ended.
    ///
    /// - Parameter faults: of the reload that was adopted; `nil` for one that was rejected.
    mutating func answer(faults: [String]?) {
        let verdict = ReloadVerdict(isAdopted: faults != nil, lines: faults ?? rejected)
        for process in asking { verdict.send(to: process) }
        asking = []
    }

    /// Rejects all requests: the daemon stops.
    mutating func refuse() {
        let verdict = ReloadVerdict(isAdopted: false, lines: ["gaplessd is stopping"])
        for process in asking + askingNext { verdict.send(to: process) }
        (asking, askingNext) = ([], [])
    }

    /// Begins a reload; `.read` follows. Returns false if it cannot begin: the log has the reason.
    mutating func begin() -> Bool {
        if isReading {
            isWantedAgain = true
            return true
        }
        do throws(ThreadError) {
            try thread.begin()
            thread.read()
            isReading = true
            (asking, askingNext) = (askingNext, [])
            return true
        } catch {
            (asking, askingNext) = (askingNext, [])
            reject(Rejection(lines: ["\(error)"]))
            return false
        }
    }

    /// The reload has ended. Returns what `commit` adopts, after every step that may fail. Otherwise the log has the reasons.
    /// Nothing has changed in either case.
    mutating func prepare(_ result: Result<Reading, Rejection>) -> Prepared? {
        isReading = false
        do {
            let reading = try result.get()
            return Prepared(reading: reading, endpoint: try metrics.prepare(reading.configuration))
        } catch let rejection as Rejection {
            reject(rejection)
        } catch let fault as SettingsError {
            reject(Rejection(lines: [fault.line(file: file)]))
        } catch {
            reject(Rejection(lines: ["\(error)"]))
        }
        thread.decided(isAdopted: false)
        return nil
    }

    /// Adopts the configuration. Cannot fail. `adopted` follows once nothing else uses the previous one.
    mutating func commit(_ prepared: Prepared) {
        let new = prepared.reading.configuration
        metrics.adopt(prepared.endpoint)
        channel.adopt(new)
        thread.setWatching(new.settings.watchesFiles)
    }

    /// The configuration of `commit` is in force. The thread of the files frees the previous one.
    func adopted(insteadOf plan: DispatchPlan) { thread.decided(isAdopted: true, insteadOf: plan) }

    /// The last changes of `apps_dir` are in force.
    func appsAdopted() { thread.appsAdopted() }

    /// Begins the reload that was requested during the last one. Returns whether there is one.
    mutating func beginAgain() -> Bool {
        defer { isWantedAgain = false }
        return isWantedAgain && begin()
    }

    private mutating func reject(_ rejection: Rejection) {
        rejected = rejection.lines
        for line in rejection.lines { log.error("Reload: \(line)", .reloadFailed) }
        log.error("Reload failed: keeping the previous settings and credentials.", .reloadFailed)
    }
}

extension Reloader {
    /// The thread that looks at the files of the settings and reads them. It may be stuck in a file system; nothing waits for it.
    final class FileThread: Sendable {
        private struct State {
            var isRequested = false
            /// Whether the last reading is in force.
            var decision: Bool?
            /// A plan that is no longer in force. It is freed here, like the previous configuration: that would delay the
            /// dispatcher.
            var former: DispatchPlan?
            /// Whether the last changes of `apps_dir` are in force. Only then others are read, so that no turn has too many.
            var areAppsAdopted = true
            var isWatching: Bool
            /// `nil` until the thread runs.
            var wakeUp: WakeUp?
            var isStopped = false
        }

        let messages: Mailbox<Message>
        private let state: Locked<State>
        private let start: Configuration
        /// The files as they were at the start.
        private let stamps: [String: FileStamp]
        private let readFiles: Read
        private let trial: Trial
        private let channel: SideChannel

        /// - Parameter configuration: the one in force. Its files are watched if it says so.
        init(
            _ configuration: Configuration, _ read: @escaping Read, _ trial: @escaping Trial, _ channel: SideChannel
        ) throws(ThreadError) {
            (readFiles, self.trial, self.channel, start) = (read, trial, channel, configuration)
            messages = try Mailbox(thread: "dispatcher")
            state = Locked(State(isWatching: configuration.settings.watchesFiles))
            stamps = configuration.settings.watchesFiles ? FileStamp.stamps(of: configuration.files) : [:]
        }

        /// Starts the thread, unless it runs.
        func begin() throws(ThreadError) {
            try state.withLock { state throws(ThreadError) in
                if state.wakeUp != nil { return }
                let wakeUp = try WakeUp(thread: "settings")
                try OwnedThread(name: "settings") { self.run(wakeUp) }.leave()
                state.wakeUp = wakeUp
            }
        }

        func read() { change { $0.isRequested = true } }

        func decided(isAdopted: Bool, insteadOf former: DispatchPlan? = nil) {
            change { ($0.decision, $0.former) = (isAdopted, former) }
        }

        func appsAdopted() { change { $0.areAppsAdopted = true } }

        func setWatching(_ isWatching: Bool) { change { $0.isWatching = isWatching } }

        func stop() { change { $0.isStopped = true } }

        private func change(_ change: (inout State) -> Void) {
            state.withLock { state in
                change(&state)
                state.wakeUp?.ring()
            }
        }

        private func run(_ wakeUp: WakeUp) {
            var watch = FileWatch(start.files, stamps, now: .now)
            var apps = AppFiles(start, now: .now)
            /// Read, and not decided yet.
            var pending: Configuration?
            var poller = Poller()
            while true {
                let orders = state.withLock { state in
                    defer { (state.isRequested, state.decision, state.former) = (false, nil, nil) }
                    return state
                }
                if orders.isStopped { return }
                if let isAdopted = orders.decision {
                    if isAdopted, let pending { apps.adopt(pending) }
                    pending = nil
                }
                let canLook = pending == nil && orders.areAppsAdopted
                if orders.isRequested {
                    pending = nil
                    let result = read(apps.current, &watch)
                    if case .success(let reading) = result { pending = reading.configuration }
                    messages.send(.read(result))
                } else if orders.isWatching, watch.nextLook <= .now {
                    let stamps = FileStamp.stamps(of: watch.paths)
                    if watch.looked(stamps, now: .now) { messages.send(.filesChanged) }
                } else if canLook, apps.nextLook.map({ $0 <= .now }) ?? false {
                    guard let changes = apps.look(now: .now) else { continue }
                    if orders.isWatching { for (_, app) in changes.changes { watch.add(app.files) } }
                    share(changes.changes.lazy.map(\.app))
                    state.withLock { $0.areAppsAdopted = false }
                    messages.send(.appsChanged(changes))
                } else {
                    var next = Earliest(canLook ? apps.nextLook : nil)
                    if orders.isWatching { next.consider(watch.nextLook) }
                    poller.reset()
                    poller.add(wakeUp.descriptor, for: .read)
                    poller.wait(until: next.instant)
                    wakeUp.listen()
                }
            }
        }

        private func read(_ current: Configuration, _ watch: inout FileWatch) -> Result<Reading, Rejection> {
            // Before the files are read: a later change is found by the next look.
            let stamps = FileStamp.stamps(of: watch.paths)
            let result = readFiles()
            let paths =
                switch result {
                case .failure(let errors): watch.paths.union(errors.files)
                case .success(let new): new.files
                }
            let known = stamps.filter { paths.contains($0.key) }
            watch.didRead(paths, FileStamp.stamps(of: paths).merging(known) { $1 })
            return Result { () throws(Rejection) in try judge(result, current) }
        }

        private func judge(
            _ result: Result<Configuration, SettingsErrors>, _ current: Configuration
        ) throws(Rejection) -> Reading {
            switch result {
            case .failure(let errors): throw Rejection(lines: errors.lines)
            case .success(let read):
                var new = read.numbered(like: current.settings.apps)
                let fixed = new.settings.differencesThatNeedARestart(from: current.settings)
                guard fixed.isEmpty else {
                    throw Rejection(
                        lines: fixed.map {
                            "\(new.file): \($0): cannot change while gaplessd runs; restart it, or restore the previous value"
                        })
                }
                guard new.settings.apps.count <= JobID.mostApps else {
                    throw Rejection(lines: ["\(new.file): apps: more than \(JobID.mostApps) since the start; restart gaplessd"])
                }
                try tryAtRedis(new, current)
                let faults = new.keepUsableCredentials(of: current)
                share(new.settings.apps)
                return Reading(
                    configuration: new, plan: DispatchPlan(new, now: WallClock.now().unixSeconds),
                    changes: new.changes(from: current), faults: faults)
            }
        }

        /// Prepares the sharing of tokens, which would delay the dispatcher: with thousands of keys it takes many milliseconds.
        private func share(_ apps: some Sequence<Settings.App>) {
            for app in apps { app.credential.map(channel.share) }
        }

        /// Rejects what Redis refuses. If Redis cannot be asked, a new stream of results is rejected as well: it could stop the
        /// settlements.
        private func tryAtRedis(_ new: Configuration, _ current: Configuration) throws(Rejection) {
            let (redis, old) = (new.settings.redis, current.settings.redis)
            let fleet = new.settings.fleetLimits
            // The files for TLS may have other contents. New limits of the fleet need their key: without it nothing is sent.
            let hasNewLimits = fleet != Settings.Limits() && fleet != current.settings.fleetLimits
            guard redis != old || redis.tls != nil || hasNewLimits else { return }
            do throws(ProbeError) {
                try trial(new.settings)
            } catch {
                guard error.isOurs || redis.resultsKey != nil && redis.resultsKey != old.resultsKey else { return }
                throw Rejection(lines: ["\(new.file.printable): redis: \(error)"])
            }
        }
    }
}

extension Configuration {
    /// Returns the configuration with its apps under the numbers that they have already; new apps follow. An app that is gone
    /// keeps its number as a removed one.
    func numbered(like old: [Settings.App]) -> Configuration {
        var new = Dictionary(settings.apps.map { ($0.name, $0) }) { first, _ in first }
        var numbered = self
        numbered.settings.apps = old.map { new.removeValue(forKey: $0.name) ?? ($0.isRemoved ? $0 : $0.removed) }
        numbered.settings.apps += settings.apps.filter { new[$0.name] != nil }
        return numbered
    }

    /// An app whose credential cannot be used keeps the previous one, with the settings of the app, unless its file in `apps_dir`
    /// has changed. Returns the faults. Both configurations have the same apps before new ones.
    mutating func keepUsableCredentials(of old: Configuration) -> [String] {
        var faults: [String] = []
        for (index, previous) in old.settings.apps.enumerated() {
            faults += settings.apps[index].keep(what: previous, file: file)
        }
        return faults
    }

    /// Returns for each app whether its settings or its credential differ, or whether it is new. An app without a usable
    /// credential has no sessions to replace.
    func changes(from old: Configuration) -> [Bool] {
        settings.apps.enumerated().map { index, app in
            guard app.credential != nil, index < old.settings.apps.count else { return app.credential != nil }
            return old.settings.apps[index].credential == nil || app != old.settings.apps[index]
        }
    }
}

extension Settings.App {
    /// Keeps the previous app if the credential cannot be used, or lacks the topic that the app has had. Returns the faults.
    ///
    /// - Parameter file: the settings file.
    mutating func keep(what previous: Settings.App, file: String) -> [String] {
        if isRemoved { return [] }
        let name = self.name.map { "app \"\($0)\"".printable } ?? "the top level"
        guard credential != nil else {
            // Its jobs go on waiting for it.
            if defaultTopic == nil { topic = previous.defaultTopic }
            let isOther = self.file != nil && (self.file != previous.file || fileDigest != previous.fileDigest)
            if previous.credential == nil || isOther { return [] }
            defer { self = previous }
            return faults.map { "\($0.line(file: file)). Only \(name) keeps its previous credential" }
        }
        guard previous.credential != nil, let fault = lostTopic(of: previous) else { return [] }
        defer { self = previous }
        return ["\(fault.line(file: file)). Only \(name) keeps its previous credential"]
    }

    /// APNs accepts a certificate without the topic of an app, and drops its pushes. `apns_topic` confirms another topic.
    private func lostTopic(of previous: Settings.App) -> SettingsError? {
        guard topic == nil, let source, let old = previous.defaultTopic, let topics = certificate?.allTopics, !topics.isEmpty,
            !topics.contains(old)
        else { return nil }
        return SettingsError(
            key: keyPrefix + source.key,
            problem: "the certificate has no topic \"\(old)\", which the app has had: \(topics.joined(separator: ", "))",
            expected: "a certificate with this topic, or the new topic as apns_topic", file: self.file)
    }
}

extension Settings {
    /// The keys that differ and that a running daemon cannot change: its place in Redis and its delivery mode.
    func differencesThatNeedARestart(from old: Settings) -> [String] {
        var keys = redis.differences(from: old.redis)
        if lists != old.lists { keys.append("redis_queue_key") }
        return keys
    }
}

extension Settings.Redis {
    fileprivate func differences(from old: Settings.Redis) -> [String] {
        let all: [(key: String, isSame: Bool)] = [
            (placeKey, server == old.server), ("redis_db", database == old.database),
            ("redis_tls or a path of its files", tls == old.tls), ("redis_delivery", delivery == old.delivery),
            ("redis_lease", lease == old.lease),
        ]
        return all.filter { !$0.isSame }.map(\.key)
    }

    private var placeKey: String {
        switch server {
        case .tcp: "redis_host or redis_port"
        case .unix: "redis_socket_path"
        case .sentinels: "redis_sentinels or redis_sentinel_master"
        }
    }
}
