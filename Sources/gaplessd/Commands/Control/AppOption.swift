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
}
