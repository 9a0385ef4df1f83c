import ArgumentParser
import Glibc

/// The program: parses the command line, runs one command and exits with the status of sysexits.h (docs/calls.md).
@main
struct Gaplessd: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "gaplessd",
        abstract: "Delivers push jobs from a Redis list to Apple's push service without losing any.",
        usage: """
            gaplessd SETTINGS.json
            gaplessd CALL [SETTINGS.json] [OPTION ...]
            gaplessd help [CALL]
            """,
        discussion: """
            'gaplessd SETTINGS.json' is the same as 'gaplessd run SETTINGS.json'. If the settings file has the name of a call, \
            write a path: 'gaplessd ./check'. If SETTINGS.json is left out after a call, it is the file that GAPLESSD_SETTINGS \
            names, else /etc/gaplessd/settings.json.
            """,
        version: gaplessdVersion,
        subcommands: [
            Run.self, Check.self, Send.self, Status.self, Health.self, Audit.self, Dead.self, Enqueue.self,
            Pause.self, Resume.self, Peek.self, Find.self, Cancel.self, ShowCampaigns.self, Explain.self, Feedback.self, Top.self,
            Relay.self, Schema.self, Reload.self,
        ],
        defaultSubcommand: Run.self)

    static func main() {
        StandardStreams.prepare()
        do {
            var command = try parsed(checked(Array(CommandLine.arguments.dropFirst())))
            try command.run()
            // A log that cannot be written does not change the exit status of these two (docs/running.md, "Log lines").
            if command is Run || command is Relay { end() }
        } catch  where !exitCode(for: error).isSuccess {
            end(withError: error)
        } catch {
            // Help, or the version.
            StandardStreams.print([fullMessage(for: error)])
        }
        end(withError: StandardStreams.lostOutput())
    }

    /// Parses the words. If they lack an argument, or a word is no ACTION, SETTINGS.json may have been left out before it.
    private static func parsed(_ words: [String]) throws -> any ParsableCommand {
        // Also if there is a settings file that a call would use: no word is no wish to run the daemon.
        if words.isEmpty { throw ValidationError("SETTINGS.json or a call is missing.") }
        do {
            return try parseAsRoot(words)
        } catch {
            guard !exitCode(for: error).isSuccess, let call = words.first, isCall(call), let path = SettingsArgument.standardPath
            else { throw error }
            let first = words.dropFirst().first { !$0.hasPrefix("-") }
            do {
                return try parseAsRoot([call, path] + words.dropFirst())
            } catch let second {
                // A file that exists was meant as the settings.
                throw first.map { unsafe access($0, F_OK) == 0 } ?? false ? error : second
            }
        }
    }

    private static func end(withError error: (any Error)? = nil) -> Never {
        ProcessEnd.skipHandlers()
        exit(withError: error)
    }

    /// Returns the words for ArgumentParser, which takes a first word that is no call for the settings file of `run`.
    ///
    /// - Throws: a fault that ArgumentParser would report as another one, or not at all.
    private static func checked(_ words: [String]) throws(ValidationError) -> [String] {
        guard let first = words.first else { return words }
        let second = words.dropFirst().first
        switch first {
        case "help":
            // ArgumentParser shows the main page for an unknown call, and exits with 0.
            if let second, !isCall(second), !pageOptions.contains(second) {
                throw ValidationError("There is no call '\(second.printable)'.")
            }
        case "--help", "-h":
            // ArgumentParser shows the page of the default call.
            if let second, isCall(second) { return ["help", second] }
        case _ where first.hasPrefix("-"):
            // ArgumentParser reports a missing settings file before an unknown option.
            let isKnown =
                pageOptions.contains(first) || ["--help-hidden", "--", "-"].contains(first) || first.hasPrefix("--generate-")
                || first.hasPrefix("--experimental-")
            if second == nil, !isKnown { throw ValidationError("Unknown option '\(first.printable)'") }
        default:
            // ArgumentParser reports the second word as one too many.
            if second != nil, !isCall(first), unsafe access(first, F_OK) != 0 {
                throw ValidationError("There is no call '\(first.printable)', and no file of this name.")
            }
        }
        return words
    }

    private static let pageOptions = ["--help", "-h", "--version"]

    private static func isCall(_ word: String) -> Bool {
        configuration.subcommands.contains { $0.configuration.commandName == word }
    }
}

/// The end of the process, while threads may still run: one that is stuck, or that waits for Redis or a name server.
enum ProcessEnd {
    /// From now on, exit(3) calls none of the handlers that were registered before: they would free what OpenSSL and the
    /// runtime still need in other threads.
    static func skipHandlers() {
        unsafe on_exit(
            { status, _ in
                fflush(nil)
                _exit(status)
            }, nil)
    }
}
