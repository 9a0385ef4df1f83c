import ArgumentParser
import Glibc

/// The settings file that every call begins with.
struct SettingsArgument: ParsableArguments {
    @Argument(
        help: ArgumentHelp("The settings file, a JSON object.", valueName: "SETTINGS.json"),
        completion: .file(extensions: ["json"]))
    var settings: String

    /// Settings alone, for calls that talk to Redis and not to APNs, and need read no key; or every fault in them, as below.
    func loadSettings() throws -> Settings {
        do {
            return try Settings.read(SettingsFile(path: settings)).settings
        } catch {
            StandardStreams.print(error.lines, to: STDERR_FILENO)
            throw ExitCode.settingsFault
        }
    }

    /// Settings and credentials, or every fault in them, one line each on stderr, and the end.
    ///
    /// - Parameter tell: what there is to say before the faults.
    func load(refused tell: (SettingsErrors) -> Void = { _ in }) throws -> Configuration {
        do {
            return try Configuration.load(SettingsFile(path: settings))
        } catch {
            tell(error)
            StandardStreams.print(error.lines, to: STDERR_FILENO)
            throw ExitCode.settingsFault
        }
    }
}
