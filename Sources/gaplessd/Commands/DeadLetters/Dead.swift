import ArgumentParser
import Glibc
import JSONBytes
import Platform
import RedisQueue

/// `gaplessd dead`: lists, shows, requeues or deletes dead letters.
struct Dead: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "dead",
        abstract: "Lists, shows, requeues or deletes dead letters.",
        discussion: """
            list     prints one line for each dead letter, oldest first; with --json, the records
            show     prints one dead letter with its job; N counts as 'list' does, from 1, the oldest; 1 is the default
            requeue  appends the jobs to their list, without the marks of the daemon
            purge    deletes the dead letters; asks for confirmation on a terminal, unless --yes is given

            --reason selects dead letters by their exact reason, as 'list' prints it, with or without the status. --app, \
            --token and --older select further; all conditions must hold. --app selects the jobs that the daemon would send for \
            the app, and reads the certificates of the settings for this. --limit selects the oldest N. 'list' with the same \
            options prints the dead letters that requeue or purge would change. Without --list, all lists are searched.

            requeue and purge first print the number of matching dead letters. They work in small atomic steps: an interruption \
            at any moment loses no dead letter and duplicates no job. Unreadable dead letters are skipped and counted. \
            requeue does the same with a dead letter whose large job is missing in Redis.

            requeue --rate N requeues at most N jobs per second.

            With --json, requeue and purge print one object at the end: "matched", "changed", "unreadable".

            Exit status: 0 success, 64 wrong usage, 69 Redis did not respond, 78 a fault in the settings or in a \
            certificate, or Redis refused access; 1 the deletion was not confirmed, or 'show' found no such dead letter.
            """)

    enum Action: String, ExpressibleByArgument, CaseIterable {
        case list, show, requeue, purge
    }

    @OptionGroup var file: SettingsArgument

    @Argument(help: ArgumentHelp("The action: list, show, requeue or purge.", valueName: "ACTION"))
    var action: Action

    @Argument(help: ArgumentHelp("With 'show', the number of the dead letter.", valueName: "N"))
    var number: Int?

    @Option(parsing: .unconditional, help: ArgumentHelp("Only dead letters with this reason.", valueName: "R"))
    var reason: String?

    @OptionGroup var one: AppOption

    @Option(parsing: .unconditional, help: ArgumentHelp("Only dead letters of this token.", valueName: "T"))
    var token: String?

    @Option(help: ArgumentHelp("Only dead letters that are older: 90s, 10m, 2h or 1d.", valueName: "D"))
    var older: SpanArgument?

    @Option(parsing: .unconditional, help: ArgumentHelp("Requeue at most N jobs per second.", valueName: "N"))
    var rate: Int?

    @Option(parsing: .unconditional, help: ArgumentHelp("At most N dead letters, oldest first.", valueName: "N"))
    var limit: Int?

    @OptionGroup var which: ListOption

    @Flag(help: "Print JSON.")
    var json = false

    @Flag(help: "Purge without asking for confirmation.")
    var yes = false

    func validate() throws {
        if let limit, limit < 1 { throw ValidationError("--limit must be at least 1.") }
        if let rate, rate < 1 { throw ValidationError("--rate must be at least 1.") }
        if rate != nil, action != .requeue { throw ValidationError("--rate is an option of 'requeue'.") }
        if number != nil, action != .show { throw ValidationError("A number is an argument of 'show'.") }
        if let number, number < 1 { throw ValidationError("The number of a dead letter is at least 1.") }
    }

    func run() throws {
        let reading = try file.read()
        let settings = reading.settings
        let lists = try which.lists(of: settings, call: "dead")
        let filter = DeadLetterFilter(
            reason: reason, app: try one.selection(reading, of: file, call: "dead"), token: token, older: older?.duration,
            now: WallClock.now().unixSeconds)
        try RedisAccess.run(settings) { client in
            switch action {
            case .show: try show(lists, filter, settings, &client)
            case .list: try list(lists, filter, settings, &client)
            case .requeue, .purge: try change(lists, filter, settings, &client)
            }
        }
    }

    /// Prints the N-th of the selected dead letters.
    private func show(
        _ lists: [String], _ filter: DeadLetterFilter, _ settings: Settings, _ client: inout RedisClient
    ) throws {
        let wanted = number ?? 1
        var seen = 0
        for list in lists {
            let walk = DeadLetterWalk(Keys(list: list), filter)
            var found: DeadLetterWalk.Entry?
            try walk.forEachPage(&client) { page in
                for entry in page where entry.letter.map(walk.matches) ?? filter.isEmpty {
                    seen += 1
                    if seen == wanted {
                        found = entry
                        return false
                    }
                }
                return true
            }
            guard let found else { continue }
            let lines = json ? [DeadLetterLine.json(found)] : DeadLetterLine.full(found, redacts: settings.log.redacts)
            StandardStreams.print(lines)
            return
        }
        StandardStreams.print(["There is no dead letter \(wanted); \(seen.letters) found."], to: STDERR_FILENO)
        throw ExitCode.failure
    }

    private func list(
        _ lists: [String], _ filter: DeadLetterFilter, _ settings: Settings, _ client: inout RedisClient
    ) throws {
        var left = limit ?? .max
        for list in lists where left > 0 {
            if lists.count > 1, !json { StandardStreams.print(["\(list.printable):"]) }
            let walk = DeadLetterWalk(Keys(list: list), filter)
            try walk.forEachPage(&client) { page in
                // An unreadable record meets no condition.
                let matching = page.filter { $0.letter.map(walk.matches) ?? filter.isEmpty }.prefix(left)
                left -= matching.count
                let lines = matching.map { entry in
                    json ? DeadLetterLine.json(entry) : DeadLetterLine.text(entry, redacts: settings.log.redacts)
                }
                return StandardStreams.print(lines) && left > 0
            }
        }
    }

    private func change(
        _ lists: [String], _ filter: DeadLetterFilter, _ settings: Settings, _ client: inout RedisClient
    ) throws {
        let (verb, done) = action == .purge ? ("delete", "deleted") : ("requeue", "requeued")
        var plan: [(walk: DeadLetterWalk, count: Int)] = []
        var (left, unreadable) = (limit ?? .max, 0)
        for list in lists {
            var walk = DeadLetterWalk(Keys(list: list), filter)
            // Ten steps per second, so that the rate is even.
            if let rate { walk.mostPerStep = max(1, min(DeadLetterList.mostLetters, rate / 10)) }
            let found = try walk.count(&client, limit: left)
            plan.append((walk, found.matching))
            left -= found.matching
            unreadable += found.unreadable
        }
        let matched = plan.reduce(0) { $0 + $1.count }
        if !json {
            StandardStreams.print(["\(matched.letters) to \(verb)" + (reason.map { ", reason \($0.printable)" } ?? "")])
        }
        if action == .purge, matched > 0, !yes {
            try Confirmation.ask("Delete \(matched.letters) permanently?", refusal: "Nothing was deleted.")
        }
        var changed = 0
        do throws(RedisError) {
            for (walk, count) in plan {
                unreadable += try walk.change(action == .purge ? .delete : .requeue, limit: count, &client) { count in
                    changed += count
                    if let rate, changed < matched { Poller.sleep(.seconds(Double(count) / Double(rate))) }
                }
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
}

extension Int {
    fileprivate var letters: String { counted("dead letter") }
}
