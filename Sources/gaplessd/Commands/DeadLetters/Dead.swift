import ArgumentParser
import Glibc
import JSONBytes
import RedisQueue

/// `gaplessd dead`: lists, requeues or deletes dead letters.
struct Dead: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "dead",
        abstract: "Lists, requeues or deletes dead letters.",
        discussion: """
            list     prints one line for each dead letter, oldest first; with --json, the records
            requeue  appends the jobs to their list, without the marks of the daemon
            purge    deletes the dead letters; asks for confirmation on a terminal, unless --yes is given

            --reason selects dead letters by their exact reason, as 'list' prints it, with or without the status. --limit \
            selects the oldest N. 'list' with the same options prints the dead letters that requeue or purge would change. \
            Without --list, all lists are searched.

            requeue and purge first print the number of matching dead letters. They work in small atomic steps: an interruption \
            at any moment loses no dead letter and duplicates no job. Unreadable dead letters are skipped and counted.

            With --json, requeue and purge print one object at the end: "matched", "changed", "unreadable".

            Exit status: 0 success, 64 wrong usage, 69 Redis did not respond, 78 a fault in the settings, or Redis refused \
            access; 1 the deletion was not confirmed.
            """)

    enum Action: String, ExpressibleByArgument, CaseIterable {
        case list, requeue, purge
    }

    @OptionGroup var file: SettingsArgument

    @Argument(help: ArgumentHelp("The action: list, requeue or purge.", valueName: "list|requeue|purge"))
    var action: Action

    @Option(parsing: .unconditional, help: ArgumentHelp("Only dead letters with this reason.", valueName: "R"))
    var reason: String?

    @Option(parsing: .unconditional, help: ArgumentHelp("At most N dead letters, oldest first.", valueName: "N"))
    var limit: Int?

    @OptionGroup var which: ListOption

    @Flag(help: "Print JSON.")
    var json = false

    @Flag(help: "Purge without asking for confirmation.")
    var yes = false

    func validate() throws {
        if let limit, limit < 1 { throw ValidationError("--limit must be at least 1.") }
    }

    func run() throws {
        let settings = try file.loadSettings()
        let lists = try which.lists(of: settings, call: "dead")
        try RedisAccess.run(settings) { client in
            switch action {
            case .list: try list(lists, settings, &client)
            case .requeue, .purge: try change(lists, settings, &client)
            }
        }
    }

    private func list(_ lists: [String], _ settings: Settings, _ client: inout RedisClient) throws {
        var left = limit ?? .max
        for list in lists where left > 0 {
            if lists.count > 1, !json { StandardStreams.print(["\(list.printable):"]) }
            let walk = DeadLetterWalk(Keys(list: list), reason: reason)
            try walk.forEachPage(&client) { page in
                // An unreadable record has no reason.
                let matching = page.filter { $0.letter.map(walk.matches) ?? (reason == nil) }.prefix(left)
                left -= matching.count
                let lines = matching.map { entry in
                    json ? DeadLetterLine.json(entry) : DeadLetterLine.text(entry, redacts: settings.log.redacts)
                }
                return StandardStreams.print(lines) && left > 0
            }
        }
    }

    private func change(_ lists: [String], _ settings: Settings, _ client: inout RedisClient) throws {
        let (verb, done) = action == .purge ? ("delete", "deleted") : ("requeue", "requeued")
        var plan: [(walk: DeadLetterWalk, count: Int)] = []
        var (left, unreadable) = (limit ?? .max, 0)
        for list in lists {
            let walk = DeadLetterWalk(Keys(list: list), reason: reason)
            let found = try walk.count(&client, limit: left)
            plan.append((walk, found.matching))
            left -= found.matching
            unreadable += found.unreadable
        }
        let matched = plan.reduce(0) { $0 + $1.count }
        if !json {
            StandardStreams.print(["\(matched.letters) to \(verb)" + (reason.map { ", reason \($0.printable)" } ?? "")])
        }
        if action == .purge, matched > 0 { try confirm(matched) }
        var changed = 0
        do throws(RedisError) {
            for (walk, count) in plan {
                try walk.change(action == .purge ? .delete : .requeue, limit: count, &client) { changed += $0 }
            }
        } catch {
            let doubt = "; \(changed.letters) \(done), and possibly up to \(DeadLetterList.mostLetters) more"
            throw ProbeError(error, of: settings).told("redis", adding: doubt)
        }
        report(changed, done, of: matched, unreadable: unreadable)
    }

    private func report(_ changed: Int, _ done: String, of matched: Int, unreadable: Int) {
        if json {
            let counts: JSONValue = .members([
                "matched": .integer(matched), "changed": .integer(changed), "unreadable": .integer(unreadable),
            ])
            StandardStreams.print([counts.line])
        } else {
            let rest = unreadable > 0 ? ", \(unreadable) unreadable skipped" : ""
            StandardStreams.print(["\(changed) \(done)\(rest)"])
        }
    }

    /// Asks for confirmation on a terminal. A script is not asked.
    private func confirm(_ count: Int) throws {
        guard !yes, StandardStreams.isTerminal(STDIN_FILENO), StandardStreams.isTerminal(STDERR_FILENO) else { return }
        StandardStreams.write(Array("Delete \(count.letters) permanently? [y/N] ".utf8), to: STDERR_FILENO)
        guard let answer = readLine(), ["y", "yes"].contains(answer.lowercased()) else {
            StandardStreams.print(["Nothing was deleted."], to: STDERR_FILENO)
            throw ExitCode.failure
        }
    }
}

extension Int {
    fileprivate var letters: String { counted("dead letter") }
}
