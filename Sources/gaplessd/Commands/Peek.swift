import ArgumentParser
import JSONBytes
import RedisQueue

/// `gaplessd peek`: prints waiting jobs without changing them.
struct Peek: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "peek",
        abstract: "Prints the next jobs without changing them.",
        discussion: """
            Prints one line for each job, in the order in which the jobs will be claimed: position (1 is next), ID, app, topic, \
            trace, channel or token, and size. The recovered jobs of dead workers come first, then the side lists of apps, the \
            newest states of scopes (replaces), then the list. --last prints the jobs of the list that were pushed last. \
            --delayed prints the delayed jobs with their due times. With log_redact, tokens are truncated.

            --json prints one object per line: "list", "position", "due" (Unix seconds, with --delayed) and "job", or \
            "job_base64" if the job is not UTF-8.

            Exit status: 0 success, 64 wrong usage, 69 Redis did not respond, 78 a fault in the settings, or Redis refused access.
            """)

    @OptionGroup var file: SettingsArgument
    @Flag(help: "Print the last jobs instead of the next ones.") var last = false
    @Flag(help: "Print delayed jobs.") var delayed = false

    @Option(parsing: .unconditional, help: ArgumentHelp("At most N jobs of each list.", valueName: "N"))
    var limit = 10

    @OptionGroup var place: ListOption
    @Flag(help: "Print JSON.") var json = false

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
                let isWritten = try show(list, isOne: lists.count == 1, settings.log.redaction, &client)
                if !isWritten { return }
            }
        }
    }

    /// Prints the jobs of a list. Returns whether they were written.
    private func show(_ list: String, isOne: Bool, _ redaction: Redaction, _ client: inout RedisClient) throws -> Bool {
        let jobs = WaitingJobs(Keys(list: list))
        let sources = delayed ? [.delayed] : try jobs.sourcesInClaimOrder(&client)
        var counts: [Int] = []
        for source in sources { counts.append(try jobs.count(of: source, &client)) }
        let total = counts.reduce(0, +)
        // The jobs that were pushed last are all in the last source.
        let first = last ? total - min(limit, counts.last ?? 0) : 0
        let end = last ? total : min(total, limit)
        if !json { StandardStreams.print(Self.heading(list, end - first, isDelayed: delayed, isOne: isOne)) }
        var (before, isWritten) = (0, true)
        for (source, count) in zip(sources, counts) where isWritten {
            let start = max(first, before) - before
            let stop = min(end - before, count)
            var walk = PagedWalk(restFactor: 0)
            try walk.read(
                &client, from: start, to: stop,
                page: { (index, client) throws(RedisError) in
                    try jobs.page(of: source, from: index, most: stop - index, &client).enumerated().map { offset, entry in
                        JobLine(position: before + index + offset + 1, due: entry.due, job: entry.job)
                    }
                },
                { page, _ in
                    isWritten = StandardStreams.print(
                        page.map { json ? $0.object(list: list).line : $0.text(redaction) })
                    return isWritten
                })
            before += count
        }
        return isWritten
    }
}

/// Formats a waiting or delayed job for `peek`.
struct JobLine {
    var position: Int
    /// Milliseconds since 1970; `nil` for a job that is not delayed.
    var due: Int64?
    var job: [UInt8]

    /// `1  due 2026/11/20 22:50:01 +01:00  ID 154  token 071c…  57 bytes`.
    func text(_ redaction: Redaction) -> String {
        let due = due.map { ["due \(LocalTime.zoned($0 / 1000))"] } ?? []
        return (["\(position)"] + due + [summary(redaction)]).joined(separator: "  ")
    }

    /// `ID 154  token 071c…  57 bytes`.
    func summary(_ redaction: Redaction) -> String {
        guard let facts = JobFacts(job) else { return line(["no JSON object"]) }
        let tokens = facts.tokens.prefix(1).map { "token \(redaction.token($0))" }
        let others = facts.tokens.count > 1 ? ["and \((facts.tokens.count - 1).counted("other"))"] : []
        let identifier = facts.namesIdentifier ? facts.identifier : nil
        let names = [
            ("ID", identifier), ("app", facts.app), ("topic", facts.topic), ("trace", facts.trace), ("channel", facts.channel),
            ("campaign", facts.campaign),
        ]
        return line(names.compactMap { name, value in value.map { "\(name) \($0)" } } + tokens + others)
    }

    private func line(_ parts: [String]) -> String {
        (parts + [job.count.counted("byte")]).joined(separator: "  ").printable
    }

    /// The job is text, or base64 if it is not UTF-8. A delayed job has its due time in Unix seconds.
    func object(list: String) -> JSONValue {
        let due = due.map { JSONMember("due", .number("\(Double($0) / 1000)")) }
        let place = [JSONMember("list", .string(list)), JSONMember("position", .integer(position))]
        return .object(place + [due].compactMap(\.self) + [JSONMember("job", bytes: job)])
    }
}
