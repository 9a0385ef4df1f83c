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
        } catch where !exitCode(for: error).isSuccess {
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
        guard words.count > 1, !first.hasPrefix("-"), first != "help", !calls.contains(first), access(first, F_OK) != 0 else { return nil }
        return "There is no call '\(first.printable)', and no file of this name."
    }

    private static var calls: [String] {
        configuration.subcommands.compactMap { $0.configuration.commandName } + ["--help", "-h", "--version"]
    }
}

/// How a call ends that the operator or a service is to blame for.
extension ExitCode {
    /// EX_UNAVAILABLE: a service that is needed did not answer.
    static let serviceUnavailable = ExitCode(69)
    /// EX_CONFIG: the settings or a credential.
    static let settingsFault = ExitCode(78)

    /// EX_USAGE, where only the settings show that an option is wrong: says why, as the parser would.
    static func wrongUsage(_ why: String, of call: String) -> ExitCode {
        StandardStreams.print(["Error: \(why)", "  See 'gaplessd help \(call)' for more information."], to: STDERR_FILENO)
        return .validationFailure
    }
}

/// Descriptors 0, 1 and 2 of this process, and the signal that comes with broken ones.
enum StandardStreams {
    /// Why standard output could not be written, as of errno(3); 0 so far.
    private static let outputFault = Atomic<CInt>(0)

    /// The first thing of all: a reader that goes away, or a file at its size limit (`ulimit -f`), is an error of write(2), not
    /// the end of the process; and a stream that was closed before us becomes /dev/null, so that no connection gets its number and log lines with it.
    static func prepare() {
        signal(SIGPIPE, SIG_IGN)
        signal(SIGXFSZ, SIG_IGN)
        while true {
            let descriptor = open("/dev/null", O_RDWR)
            if descriptor == STDOUT_FILENO { outputFault.store(EBADF, ordering: .relaxed) }
            if 0...2 ~= descriptor { continue }
            if descriptor > 2 { close(descriptor) }
            return
        }
    }

    /// How a call ends that has something to say: with 1 if not all of it could be written. A reader that has seen enough is no fault.
    static func lostOutput() -> ExitCode? {
        let fault = outputFault.load(ordering: .relaxed)
        if fault == 0 { return nil }
        print(["Error: standard output cannot be written: \(String(cString: strerror(fault)))"], to: STDERR_FILENO)
        return .failure
    }

    /// Writes lines for people. What standard output did not take is remembered for the exit status.
    ///
    /// - Returns: whether it could; a call with more to say stops where its reader is gone.
    @discardableResult
    static func print(_ lines: [String], to descriptor: CInt = STDOUT_FILENO) -> Bool {
        write(Array(lines.map { $0 + "\n" }.joined().utf8), to: descriptor)
    }

    /// As above, any bytes.
    @discardableResult
    static func write(_ bytes: [UInt8], to descriptor: CInt = STDOUT_FILENO) -> Bool {
        // The /dev/null in its place would take all of it for ever, and `status --watch` would go on for nobody.
        if descriptor == STDOUT_FILENO, outputFault.load(ordering: .relaxed) == EBADF { return false }
        var written = 0
        while written < bytes.count {
            let count = bytes[written...].withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count > 0 {
                written += count
            } else if errno != EINTR {
                if descriptor == STDOUT_FILENO, errno != EPIPE { outputFault.store(errno, ordering: .relaxed) }
                return false
            }
        }
        return true
    }

    static func isTerminal(_ descriptor: CInt) -> Bool { isatty(descriptor) == 1 }
}
