import ArgumentParser

/// The option that selects one of the apps in the settings.
struct AppOption: ParsableArguments {
    @Option(
        parsing: .unconditional,
        help: ArgumentHelp("Only the jobs of this app; '\(PauseNote.topLevel)' is the app of the top level.", valueName: "A"))
    var app: String?

    /// Throws if the settings have no such app.
    func check(in settings: Settings, call: String) throws {
        let names = settings.apps.map { $0.name ?? PauseNote.topLevel }
        guard let app, !names.contains(app) else { return }
        let known = names.map(\.printable).joined(separator: ", ")
        throw ExitCode.wrongUsage("--app: '\(app.printable)' is not an app of the settings (\(known)).", of: call)
    }

    /// Returns the selection of the app's jobs; `nil` without the option. Reports an unknown app, and a certificate that cannot
    /// be read: its topics select apps.
    func selection(_ reading: Configuration, of file: SettingsArgument, call: String) throws -> AppSelection? {
        try check(in: reading.settings, call: call)
        guard let app else { return nil }
        let topics = AppTopics(reading.settings.apps)
        guard topics.faults.isEmpty else {
            throw file.reported(SettingsErrors(file: file.settings, faults: topics.faults))
        }
        return AppSelection(app, topics.routes)
    }
}
