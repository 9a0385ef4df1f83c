import Platform

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
        /// Not in use yet.
        var additions: AppPools.Additions
    }

    /// The reasons why a reading cannot be adopted: lines for the log.
    struct Rejection: Error, Sendable { var lines: [String] }

    enum Message: Sendable {
        /// `watch_files` has found a change. It is not read before a request.
        case filesChanged
        case read(Result<Reading, Rejection>)
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
    /// The configuration in force.
    private var current: Configuration
    private var isReading = false
    /// Whether another reload was requested during this one. It begins after this one, with the configuration in force then.
    private var isWantedAgain = false

    /// - Parameter configuration: that of the start.
    init(
        _ configuration: Configuration, read: @escaping Read,
        trial: @escaping Trial = { settings throws(ProbeError) in _ = try RedisProbe.run(settings) }, log: Log,
        metrics: MetricsEndpoint, channel: SideChannel
    ) throws(ThreadError) {
        let thread = try FileThread(configuration, read, trial)
        if configuration.settings.watchesFiles { try thread.start() }
        self.thread = thread
        (self.log, self.metrics, self.channel) = (log, metrics, channel)
        current = configuration
    }

    deinit { thread.stop() }

    /// The messages to the dispatcher.
    var messages: Mailbox<Message> { thread.messages }

    /// Begins a reload; `.read` follows. Returns false if it cannot begin: the log has the reason.
    mutating func begin() -> Bool {
        if isReading {
            isWantedAgain = true
            return true
        }
        do throws(ThreadError) {
            try thread.start()
            thread.read(comparingWith: current)
            isReading = true
            return true
        } catch {
            reject(Rejection(lines: ["\(error)"]))
            return false
        }
    }

    /// The reload has ended. Returns what `commit` adopts, after every step that may fail. Otherwise the log has the reasons.
    /// Nothing has changed in either case.
    mutating func prepare(_ result: Result<Reading, Rejection>, pools: AppPools) -> Prepared? {
        isReading = false
        do {
            let reading = try result.get()
            let endpoint = try metrics.prepare(reading.configuration)
            // Last, because their sessions begin to open.
            let additions = try pools.additions(for: reading.configuration)
            return Prepared(reading: reading, endpoint: endpoint, additions: additions)
        } catch let rejection as Rejection {
            reject(rejection)
        } catch let fault as SettingsError {
            reject(Rejection(lines: [fault.line(file: current.file)]))
        } catch {
            reject(Rejection(lines: ["\(error)"]))
        }
        return nil
    }

    /// Adopts the configuration. Cannot fail.
    mutating func commit(_ prepared: Prepared) {
        current = prepared.reading.configuration
        metrics.adopt(prepared.endpoint)
        channel.adopt(current)
        thread.setWatching(current.settings.watchesFiles)
    }

    /// Begins the reload that was requested during the last one. Returns whether there is one.
    mutating func beginAgain() -> Bool {
        defer { isWantedAgain = false }
        return isWantedAgain && begin()
    }

    private func reject(_ rejection: Rejection) {
        for line in rejection.lines { log.error("Reload: \(line)", .reloadFailed) }
        log.error("Reload failed: keeping the previous settings and credentials.", .reloadFailed)
    }
}

extension Reloader {
    /// The thread that looks at the files of the settings and reads them. It may be stuck in a file system; nothing waits for it.
    final class FileThread: Sendable {
        private struct State {
            /// The configuration in force, while a reading is requested.
            var request: Configuration?
            var isWatching: Bool
            /// `nil` until the thread runs.
            var wakeUp: WakeUp?
            var isStopped = false
        }

        let messages: Mailbox<Message>
        private let state: Locked<State>
        private let files: Set<String>
        /// The files as they were at the start.
        private let stamps: [String: FileStamp]
        private let readFiles: Read
        private let trial: Trial

        /// - Parameter configuration: the one in force. Its files are watched if it says so.
        init(
            _ configuration: Configuration, _ read: @escaping Read, _ trial: @escaping Trial
        ) throws(ThreadError) {
            (readFiles, self.trial) = (read, trial)
            messages = try Mailbox(thread: "dispatcher")
            state = Locked(State(isWatching: configuration.settings.watchesFiles))
            files = configuration.files
            stamps = configuration.settings.watchesFiles ? FileStamp.stamps(of: files) : [:]
        }

        /// Starts the thread, unless it runs.
        func start() throws(ThreadError) {
            try state.withLock { state throws(ThreadError) in
                if state.wakeUp != nil { return }
                let wakeUp = try WakeUp(thread: "settings")
                try OwnedThread(name: "settings") { self.run(wakeUp) }.leave()
                state.wakeUp = wakeUp
            }
        }

        func read(comparingWith current: Configuration) { change { $0.request = current } }

        func setWatching(_ isWatching: Bool) { change { $0.isWatching = isWatching } }

        func stop() { change { $0.isStopped = true } }

        private func change(_ change: (inout State) -> Void) {
            state.withLock { state in
                change(&state)
                state.wakeUp?.ring()
            }
        }

        private func run(_ wakeUp: WakeUp) {
            var watch = FileWatch(files, stamps, now: .now)
            var poller = Poller()
            while true {
                let (request, isWatching, isStopped) = state.withLock { state in
                    defer { state.request = nil }
                    return (state.request, state.isWatching, state.isStopped)
                }
                if isStopped { return }
                if let request {
                    messages.send(.read(read(request, &watch)))
                } else if isWatching, watch.nextLook <= .now {
                    let stamps = FileStamp.stamps(of: watch.paths)
                    if watch.looked(stamps, now: .now) { messages.send(.filesChanged) }
                } else {
                    poller.reset()
                    poller.add(wakeUp.descriptor, for: .read)
                    poller.wait(until: isWatching ? watch.nextLook : nil)
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
                var new = read.ordered(like: current.settings.apps.map(\.name))
                let fixed = new.settings.differencesThatNeedARestart(from: current.settings)
                guard fixed.isEmpty else {
                    throw Rejection(
                        lines: fixed.map {
                            "\(new.file): \($0): cannot change while gaplessd runs; restart it, or restore the previous value"
                        })
                }
                try tryAtRedis(new, current)
                let faults = new.keepUsableCredentials(of: current)
                return Reading(
                    configuration: new, plan: DispatchPlan(new, now: WallClock.now().unixSeconds),
                    changes: new.changes(from: current), faults: faults)
            }
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
