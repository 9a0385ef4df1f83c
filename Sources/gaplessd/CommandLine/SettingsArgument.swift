import ArgumentParser
import Glibc

/// The first argument of every call: the settings file.
struct SettingsArgument: ParsableArguments {
    @Argument(
        help: ArgumentHelp("The settings file, a JSON object.", valueName: "SETTINGS.json"),
        completion: .file(extensions: ["json"]))
    var settings: String

    /// Reads the settings without the credentials, for calls that use only Redis. Reports faults as `load` does.
    func loadSettings() throws -> Settings {
        do {
            return try Settings.read(SettingsFile(path: settings)).settings
        } catch {
            StandardStreams.print(error.lines, to: STDERR_FILENO)
            throw ExitCode.settingsFault
        }
    }

    /// Reads the settings and credentials. Prints every fault on stderr, one per line, and then throws the exit code.
    ///
    /// - Parameter report: called before the faults are printed.
    func load(beforeFaults report: (SettingsErrors) -> Void = { _ in }) throws -> Configuration {
        do {
            return try Configuration.load(SettingsFile(path: settings))
        } catch {
            report(error)
            StandardStreams.print(error.lines, to: STDERR_FILENO)
            throw ExitCode.settingsFault
        }
    }
}
