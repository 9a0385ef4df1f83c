import ArgumentParser
import Glibc

/// The first argument of every call: the settings file.
struct SettingsArgument: ParsableArguments {
    @Argument(
        help: ArgumentHelp("The settings file, a JSON object.", valueName: "SETTINGS.json"),
        completion: .file(extensions: ["json"]))
    var settings: String

    /// Reads the settings without the credentials, for calls that use only Redis. Reports faults as `load` does.
    func loadSettings() throws -> Settings { try read().settings }

    /// Reads the settings and the names of the credential files. Reports faults as `load` does.
    func read() throws -> Configuration {
        do {
            return try Configuration.read(SettingsFile(path: settings))
        } catch {
            throw reported(error)
        }
    }

    /// Prints every fault on stderr, one per line, and returns the exit code.
    func reported(_ errors: SettingsErrors) -> ExitCode {
        StandardStreams.print(errors.lines, to: STDERR_FILENO)
        return .settingsFault
    }

    /// Reads the settings and credentials. Prints every fault on stderr, one per line, and then throws the exit code.
    ///
    /// - Parameters:
    ///   - holdsFaultyApps: as in `Configuration.load`.
    ///   - report: called before the faults are printed.
    func load(
        holdsFaultyApps: Bool = false, beforeFaults report: (SettingsErrors) -> Void = { _ in }
    ) throws -> Configuration {
        do {
            return try Configuration.load(SettingsFile(path: settings), holdsFaultyApps: holdsFaultyApps)
        } catch {
            report(error)
            throw reported(error)
        }
    }
}
