import ArgumentParser
import Glibc
import Platform
import PushPool
import RedisQueue

/// `gaplessd run`: the daemon.
struct Run: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run",
        abstract: "Runs the daemon in the foreground until SIGTERM or SIGINT (the default call).",
        discussion: """
            Signals: SIGTERM and SIGINT stop claiming, wait up to drain_timeout for the requests in flight, return the other \
            jobs to the queue and exit; a second one exits immediately. SIGHUP reloads the settings and credentials. SIGUSR1 \
            logs one line of counters.

            Exit status: 0 after a signal, 64 wrong usage, 78 a fault in the settings or credentials, 1 any other failure.
            """)

    @OptionGroup var file: SettingsArgument

    func run() throws {
        SignalInbox.answerEarly()
        let configuration = try file.load(holdsFaultyApps: true)
        // Before the first thread, which is the log's: threads inherit the signal mask.
        let signals = try SignalInbox()
        let settings = configuration.settings
        let log = try Log(format: settings.log.format, level: settings.log.level)
        defer { log.close() }
        for warning in configuration.loggedWarnings { log.warning(warning, .settingsWarning) }
        let faults = try serve(configuration, signals: signals, log: log)
        log.close()
        if !faults.isEmpty {
            StandardStreams.print(faults.map { "\(file.settings.printable): \($0.printable)" }, to: STDERR_FILENO)
            throw ExitCode.settingsFault
        }
    }

    /// Puts the parts together, and runs until a signal ends it.
    ///
    /// - Parameter signals: made before the first thread.
    /// - Returns: why it could not start; empty if it did. After a fault no job has been claimed.
    /// - Throws: if the system provides no threads; no job has been claimed.
    private func serve(
        _ configuration: Configuration, signals: consuming SignalInbox, log: Log
    ) throws(ThreadError) -> [String] {
        let settings = configuration.settings
        let path = file.settings
        // Apps that have not changed are not read again.
        let known = Locked(settings.apps)
        let read: Reloader.Read = {
            Result { () throws(SettingsErrors) in
                let new = try Configuration.load(
                    SettingsFile(path: path), holdsFaultyApps: true, known: known.withLock { $0 })
                known.withLock { $0 = new.settings.apps }
                return new
            }
        }
        let limits = SharedRateLimits(
            pushesPerSecond: settings.limits.pushesPerSecond, bitsPerSecond: settings.limits.bitsPerSecond,
            leaseWanted: try WakeUp(thread: "fleet limits"))
        let channel = try SideChannel(configuration, limits, log: log)
        let readings = RedisReadings(settings.lists, channel.wakeUp)
        let records = WorkerRecords(settings.lists, channel.wakeUp)
        let keeper = try ChannelKeeper(configuration, channel.wakeUp, log: log)
        let metrics = MetricsEndpoint(readings, log: log)
        defer { metrics.close() }
        do {
            // A slow resolver delays nothing yet.
            metrics.adopt(try metrics.prepare(configuration, timeout: .seconds(10)))
        } catch {
            return [error.line]
        }
        let watch = DataSetWatch(settings, stateFolder: configuration.stateFolder, log: log)
        try channel.start([records.duty, keeper.duty, watch, readings.duty])
        defer { channel.stop() }
        let pools = try AppPools(configuration, limits: limits)
        let service = ServiceReport(readings, log: log, now: .now)
        let reloader = try Reloader(configuration, read: read, log: log, metrics: metrics, channel: channel)
        log.info("gaplessd \(gaplessdVersion) started, list \(settings.lists.joined(separator: ", ")).", .started)
        var dispatcher = Dispatcher(
            configuration, reloader: reloader, log: log, publisher: SnapshotPublisher(metrics, records), service: service,
            pools: pools, keeper: keeper, signals: signals)
        return dispatcher.run().map { RedisAccess.faults(behind: $0, settings) } ?? []
    }
}
