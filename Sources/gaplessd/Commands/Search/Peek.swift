import ArgumentParser
import RedisQueue

/// `gaplessd peek`: prints waiting jobs without changing them.
struct Peek: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "peek",
        abstract: "Prints the next jobs without changing them.",
        discussion: """
            Prints one line for each job, in the order in which the jobs will be claimed: position (1 is next), ID, app, topic, \
            trace, channel or token, and size. --last prints the jobs that were pushed last. --delayed prints the delayed jobs \
            with their due times. Jobs of dead workers, which are claimed first, are not printed. With log_redact, tokens are \
            truncated.

            --json prints one object per line: "list", "position", "due" (Unix seconds, with --delayed) and "job", or \
            "job_base64" if the job is not UTF-8.

            Exit status: 0 success, 64 wrong usage, 69 Redis did not respond, 78 a fault in the settings, or Redis refused access.
            """)

    @OptionGroup var file: SettingsArgument

    @Flag(help: "Print the last jobs instead of the next ones.")
    var last = false

    @Flag(help: "Print delayed jobs.")
    var delayed = false

    @Option(parsing: .unconditional, help: ArgumentHelp("At most N jobs of each list.", valueName: "N"))
    var limit = 10

    @OptionGroup var place: ListOption

    @Flag(help: "Print JSON.")
    var json = false

    /// The name of the list if there are several, and that it has no jobs.
    private static func heading(_ list: String, _ count: Int, isDelayed: Bool, isOne: Bool) -> [String] {
        if count == 0 { return ["\(list.printable): no \(isDelayed ? "delayed" : "waiting") jobs"] }
        return isOne ? [] : ["\(list.printable):"]
    }

    func validate() throws {
        if limit < 1 { throw ValidationError("--limit must be at least 1.") }
    }

    func run() throws {
        let settings = try file.loadSettings()
        let lists = try place.lists(of: settings, call: "peek")
        try RedisAccess.run(settings) { client in
            for list in lists {
                let jobs = WaitingJobs(Keys(list: list))
                let count = delayed ? try jobs.delayedCount(&client) : try jobs.count(&client)
                if !json { StandardStreams.print(Self.heading(list, count, isDelayed: delayed, isOne: lists.count == 1)) }
                let end = last ? count : min(count, limit)
                var index = last ? max(0, count - limit) : 0
                while index < end {
                    let page = try jobs.page(from: index, most: end - index, isDelayed: delayed, &client)
                    if page.isEmpty { break }
                    let lines = page.enumerated().map { offset, entry in
                        let line = JobLine(position: index + offset + 1, due: entry.due, job: entry.job)
                        return json ? line.object(list: list).line : line.text(redacts: settings.log.redacts)
                    }
                    guard StandardStreams.print(lines) else { return }
                    index += page.count
                }
            }
        }
    }
}
