import ArgumentParser

/// The daemon itself.
struct Run: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run",
        abstract: "Runs the daemon in the foreground until SIGTERM or SIGINT (the call that is meant when none is named).")

    @OptionGroup var file: SettingsArgument

    func run() throws {
        let configuration = try file.load()
        let settings = configuration.settings
        let log = Log(format: settings.log.format, level: settings.log.level)
        for warning in configuration.warnings { log.warning(warning) }
        let status = Daemon.run(settings: settings, credentials: configuration.credentials, log: log)
        log.close()
        throw ExitCode(status)
    }
}
