import ArgumentParser
import Glibc
import Synchronization

/// Picks the call and turns its end into an exit status (sysexits.h): 64 for wrong usage, 78 for a fault in the settings.
@main
struct Gaplessd: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "gaplessd",
        abstract: "Takes push jobs from a Redis list, pushes them through APNs, and loses none.",
        usage: """
            gaplessd SETTINGS.json
            gaplessd CALL SETTINGS.json [OPTION ...]
            gaplessd help [CALL]
            """,
        discussion: """
            'gaplessd SETTINGS.json' is short for 'gaplessd run SETTINGS.json'. A settings file that is named like a call \
            needs a path: 'gaplessd ./check'.
            """,
        version: gaplessdVersion,
        subcommands: [Run.self, Check.self, Send.self, Status.self, Audit.self, Dead.self, Enqueue.self],
        defaultSubcommand: Run.self)

    static func main() {
        StandardStreams.prepare()
        let words = CommandLine.arguments.dropFirst()
        // The parser's own help knows no wrong call: it shows the page of all calls and ends with 0.
        if words.first == "help", let call = words.dropFirst().first, !calls.contains(call) {
            exit(withError: ValidationError("There is no call '\(call.printable)'."))
        }
        if let fault = misspelling(of: Array(words)) { exit(withError: ValidationError(fault)) }
        do {
            var command = try parseAsRoot(pageAsked(by: Array(words)))
            try command.run()
            if command is Run { exit() }
        } catch  where !exitCode(for: error).isSuccess {
            exit(withError: error)
        } catch {
            // Help, or the version.
            StandardStreams.print([fullMessage(for: error)])
        }
        exit(withError: StandardStreams.lostOutput())
    }

    /// `--help CALL` is `help CALL`: the parser would show the page of the call that needs no name.
    private static func pageAsked(by words: [String]) -> [String] {
        guard words.count > 1, ["--help", "-h"].contains(words[0]), calls.contains(words[1]), !words[1].hasPrefix("-") else {
            return words
        }
        return ["help", words[1]]
    }

    /// Where the first word is nothing that gaplessd knows, the parser would speak of the settings file that it takes it for.
    private static func misspelling(of words: [String]) -> String? {
        guard let first = words.first else { return nil }
        let options = ["--help", "-h", "--help-hidden", "--version", "--", "-"]
        if words.count == 1, first.hasPrefix("-"), !first.hasPrefix("--generate-"), !first.hasPrefix("--experimental-"),
            !options.contains(first)
        {
            return "Unknown option '\(first.printable)'"
        }
        guard words.count > 1, !first.hasPrefix("-"), first != "help", !calls.contains(first), access(first, F_OK) != 0 else {
            return nil
        }
        return "There is no call '\(first.printable)', and no file of this name."
    }

    private static var calls: [String] {
        configuration.subcommands.compactMap { $0.configuration.commandName } + ["--help", "-h", "--version"]
    }
}
