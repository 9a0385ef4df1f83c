import ArgumentParser
import JSONBytes
import RedisQueue

/// Whether every claimed job is accounted for.
struct Audit: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "audit",
        abstract: "Shows that the books balance: what became of every claimed job.",
        discussion: """
            claimed = sent + retried + postponed + dead + expired + released + recovered + in flight, over all workers of a list \
            and at any moment, for each claimed job is counted in the step that takes it from its worker. What is left over is \
            "unexplained": positive when claimed jobs are nowhere, negative when more came back than was claimed.

            It also looks for jobs in flight of workers that are not registered, registered workers without a record, delayed \
            jobs that no daemon wrote, dead letters that cannot be read, and keys that no daemon makes.

            --json prints one object on one line: "balanced", "unexplained" (the sum) and "lists"; each of these has "list", the \
            terms, "unexplained", "stranded" (worker and jobs), "recordless_workers", "delayed_without_bar", \
            "unreadable_dead" and "foreign_keys".

            Exit status: 0 the books balance, 1 they do not, or jobs are stranded; 64 wrong usage, 69 Redis does not answer, \
            78 a fault in the settings, or Redis refuses us.
            """)

    @OptionGroup var file: SettingsArgument

    @Flag(help: "Print JSON.")
    var json = false

    func run() throws {
        let settings = try file.loadSettings()
        try RedisAccess.run(settings) { client in
            let reports = try settings.lists.map { list in
                let keys = Keys(list: list)
                let audit = try QueueAudit.read(&client, keys)
                return AuditReport(list: list, audit: audit, unreadable: try DeadLetterWalk.unreadable(keys, &client))
            }
            let lines = json ? [AuditReport.object(reports).line] : Array(reports.map(\.lines).joined(separator: [""]))
            StandardStreams.print(lines)
            if !reports.allSatisfy(\.isBalanced) { throw ExitCode.failure }
        }
    }
}
