import ArgumentParser
import Glibc
import JSONBytes
import Platform

/// `gaplessd reload`: lets a daemon on this machine read its settings again, and waits for the result.
struct Reload: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reload",
        abstract: "Lets a running gaplessd reload its settings, and waits for the result. For ExecReload= of systemd.",
        discussion: """
            Sends SIGHUP to the process PID. The daemon answers when it has adopted or rejected the new settings; its faults \
            are printed on stderr, and are in its log.

            --json prints one object: "reloaded" and "faults".

            Exit status: 0 the settings are in force; 78 they are rejected, and the previous ones stay in force; 64 wrong usage; \
            69 no gaplessd has answered in time; 1 the signal could not be sent.
            """)

    /// A reload waits at most for Redis and a resolver.
    private static let timeout = Duration.seconds(60)
    /// The time between two requests.
    private static let interval = Duration.seconds(10)

    @Argument(help: ArgumentHelp("The process ID of the daemon.", valueName: "PID"))
    var pid: Int32

    @Flag(help: "Print JSON.") var json = false

    func validate() throws {
        if pid < 1 { throw ValidationError("PID must be at least 1.") }
    }

    func run() throws {
        guard let inbox = ReloadInbox() else { throw failed("no socket for its answer") }
        let end = Instant.now + Self.timeout
        var answer: ReloadVerdict?
        // Two signals that arrive at the same time become one: asks again.
        while answer == nil, .now < end {
            guard inbox.request(from: pid) else { throw failed("it cannot be signalled") }
            answer = inbox.wait(for: pid, until: min(end, .now + Self.interval))
        }
        guard let verdict = answer else {
            throw ExitCode.serviceUnavailable.because(
                "reload: process \(pid) has not answered; is it gaplessd 0.3.0 or newer?")
        }
        if json {
            StandardStreams.print([
                "reloaded": .bool(verdict.isAdopted), "faults": .array(verdict.lines.map(JSONValue.string)),
            ])
        }
        StandardStreams.print(verdict.lines.map(\.printable), to: STDERR_FILENO)
        if !verdict.isAdopted { throw ExitCode.settingsFault }
        if !json { StandardStreams.print(["reloaded"]) }
    }

    private func failed(_ what: String) -> ExitCode {
        let why = unsafe String(cString: strerror(errno))
        return .failure.because("reload: process \(pid): \(what): \(why)")
    }
}
