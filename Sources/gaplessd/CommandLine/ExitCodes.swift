import ArgumentParser
import Glibc

/// The exit codes of sysexits.h (docs/calls.md). ArgumentParser defines 0, 1 and 64.
extension ExitCode {
    /// EX_DATAERR: invalid input lines.
    static let badInput = ExitCode(65)
    /// EX_UNAVAILABLE: a required service did not respond.
    static let serviceUnavailable = ExitCode(69)
    /// EX_CONFIG: a fault in the settings or credentials.
    static let settingsFault = ExitCode(78)

    /// Prints a fault of an option that only the settings reveal, and returns EX_USAGE.
    static func wrongUsage(_ why: String, of call: String) -> ExitCode {
        StandardStreams.print(["Error: \(why)", "  See 'gaplessd help \(call)' for more information."], to: STDERR_FILENO)
        return .validationFailure
    }
}
