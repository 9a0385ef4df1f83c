import ArgumentParser
import JSONBytes
import RedisQueue

/// `gaplessd audit`: verifies that every claimed job is accounted for.
struct Audit: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "audit",
        abstract: "Prints and verifies the accounting of claimed jobs.",
        discussion: """
            For each list: claimed = sent + retried + postponed + dead + expired + released + recovered + in flight. The sums \
            agree at any moment, also under load: a claimed job is counted in the same step that removes it from its worker. \
            The difference is "unexplained": positive if claimed jobs are missing, negative if more jobs were settled than \
            claimed.

            It also reports jobs in flight of unregistered workers, registered workers without a record, delayed jobs that no \
            daemon wrote, unreadable dead letters and unknown keys.

            --json prints one object on one line: "balanced", "unexplained" (the sum) and "lists". Each element of "lists" has \
            "list", the terms, "unexplained", "cancelled", "paused", "stranded" (worker and jobs), "recordless_workers", \
            "delayed_without_bar", "unreadable_dead" and "foreign_keys".

            Exit status: 0 the sums agree; 1 they differ, or an unregistered worker has jobs in flight; 64 wrong usage, 69 Redis \
            did not respond, 78 a fault in the settings, or Redis refused access.
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
