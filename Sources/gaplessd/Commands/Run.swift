import ArgumentParser
import Glibc

/// The daemon itself.
struct Run: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run",
        abstract: "Runs the daemon in the foreground until SIGTERM or SIGINT (the call that is meant when none is named).")

    @OptionGroup var file: SettingsArgument

    func run() throws {
        SignalInbox.answerEarly()
        let configuration = try file.load()
        // Before the first thread: the log's has one.
        let signals = SignalInbox()
        let settings = configuration.settings
        let log = try Log(format: settings.log.format, level: settings.log.level)
        defer { log.close() }
        for warning in configuration.warnings { log.warning(warning) }
        let path = file.settings
        let faults = try Daemon.run(configuration, signals: signals, log: log) {
            Result { () throws(SettingsErrors) in try Configuration.load(SettingsFile(path: path)) }
        }
        log.close()
        if !faults.isEmpty {
            StandardStreams.print(faults.map { "\(path.printable): \($0.printable)" }, to: STDERR_FILENO)
            throw ExitCode.settingsFault
        }
    }
}
