import SystemTime

/// Reads the settings and the credentials again, after SIGHUP or because their files have changed, and rejects what a running
/// daemon cannot adopt.
struct Reloader: ~Copyable {
    /// Reads the settings file and its credentials.
    typealias Read = () -> Result<Configuration, SettingsErrors>

    private let read: Read
    private let log: Log
    private let metrics: MetricsEndpoint
    private let fleet: Fleet
    /// `nil` without `watch_files`.
    private var watch: FileWatch?

    /// - Parameter configuration: that of the start.
    init(
        _ configuration: Configuration, read: @escaping Read, log: Log, metrics: MetricsEndpoint, fleet: Fleet, now: Instant
    ) {
        self.read = read
        self.log = log
        self.metrics = metrics
        self.fleet = fleet
        if configuration.settings.watchesFiles {
            watch = FileWatch(configuration.files, FileStamp.stamps(of: configuration.files), now: now)
        }
    }

    /// The time of the next look at the files; `nil` without `watch_files`.
    var nextLook: Instant? { watch?.nextLook }

    /// Looks at the files, if it is time, and returns whether to read them.
    mutating func filesHaveChanged(now: Instant) -> Bool {
        guard let next = watch?.nextLook, next <= now, let paths = watch?.paths else { return false }
        return watch?.looked(FileStamp.stamps(of: paths), now: now) == true
    }

    /// Returns the new configuration, with its apps in the order of `settings`, which are in force. The metrics and the limits
    /// of the fleet follow it already. Returns `nil` if it cannot be adopted; the log has the reasons.
    mutating func reload(_ settings: Settings, now: Instant) -> Configuration? {
        // Before the files are read: a later change is found by the next look.
        let paths = watch?.paths ?? []
        let stamps = FileStamp.stamps(of: paths)
        let result = read()
        switch result {
        case .failure(let errors): watch(paths.union(errors.files), stamps, now: now)
        case .success(let new): watch(new.files, stamps, now: now)
        }
        let adopted = adoptable(result, settings)
        if !(adopted?.settings ?? settings).watchesFiles { watch = nil }
        return adopted
    }

    private mutating func watch(_ paths: Set<String>, _ stamps: [String: FileStamp], now: Instant) {
        let all = FileStamp.stamps(of: paths).merging(stamps.filter { paths.contains($0.key) }) { $1 }
        if watch == nil { watch = FileWatch(paths, all, now: now) } else { watch?.didRead(paths, all) }
    }

    private func adoptable(_ result: Result<Configuration, SettingsErrors>, _ settings: Settings) -> Configuration? {
        switch result {
        case .failure(let errors): return reject(errors.lines)
        case .success(let read):
            let new = read.ordered(like: settings.apps.map(\.name))
            let fixed = new.settings.differencesThatNeedARestart(from: settings)
            guard fixed.isEmpty else {
                return reject(
                    fixed.map {
                        "\(new.file): \($0): cannot change while gaplessd runs; restart it, or restore the previous value"
                    })
            }
            do {
                try metrics.follow(new)
            } catch {
                return reject([error.line(file: new.file)])
            }
            do {
                try fleet.follow(new)
            } catch {
                return reject(["\(error)"])
            }
            return new
        }
    }

    private func reject(_ lines: [String]) -> Configuration? {
        for line in lines { log.error("Reload: \(line)", .reloadFailed) }
        log.error("Reload failed: keeping the previous settings and credentials.", .reloadFailed)
        return nil
    }
}
