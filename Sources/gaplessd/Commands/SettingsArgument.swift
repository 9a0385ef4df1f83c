import ArgumentParser
import Glibc

/// The settings file that every call begins with.
struct SettingsArgument: ParsableArguments {
    @Argument(help: ArgumentHelp("The settings file, a JSON object.", valueName: "SETTINGS.json"), completion: .file(extensions: ["json"]))
    var settings: String

    /// Settings and credentials, or every fault in them, one line each on stderr, and the end.
    func load() throws -> Configuration {
        do {
            return try Configuration.load(SettingsFile(path: settings))
        } catch {
            StandardStreams.print(error.lines, to: STDERR_FILENO)
            throw ExitCode.settingsFault
        }
    }
}
