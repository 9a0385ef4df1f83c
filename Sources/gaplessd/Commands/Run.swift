import ArgumentParser
import Glibc

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
        for warning in configuration.warningLines { log.warning(warning, .settingsWarning) }
        let path = file.settings
        let faults = try Daemon.run(configuration, signals: signals, log: log) {
            Result { () throws(SettingsErrors) in try Configuration.load(SettingsFile(path: path), holdsFaultyApps: true) }
        }
        log.close()
        if !faults.isEmpty {
            StandardStreams.print(faults.map { "\(path.printable): \($0.printable)" }, to: STDERR_FILENO)
            throw ExitCode.settingsFault
        }
    }
}
