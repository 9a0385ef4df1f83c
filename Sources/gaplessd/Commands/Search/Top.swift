import ArgumentParser
import Glibc

/// `gaplessd top`: the figures of the status page in a terminal.
struct Top: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "top",
        abstract: "Shows the figures of the status page in a terminal, until Ctrl-C.",
        discussion: """
            On a terminal, the figures are refreshed in place every second: each list with the last minute as a chart, its age \
            and the time to drain it, its dead letters by reason and its pauses; each worker with the state, the bottleneck and \
            the latencies of its apps. Latencies need metrics_listen. Elsewhere, for example in a pipe, one reading of \
            'gaplessd status' is printed. Reads only Redis, and continues after an outage.

            Exit status: 0 success, 64 wrong usage, 69 Redis did not respond at the start, 78 a fault in the settings, or Redis \
            refused access.
            """)

    @OptionGroup var file: SettingsArgument

    func run() throws {
        let settings = try file.loadSettings()
        if StandardStreams.isTerminal(STDOUT_FILENO) { return try StatusWatch(settings, isTop: true).run() }
        try Status.printOnce(settings, json: false)
    }
}
