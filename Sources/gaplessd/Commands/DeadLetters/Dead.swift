import ArgumentParser
import Glibc
import JSONBytes
import RedisQueue

/// What to do with jobs that will not be sent.
struct Dead: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "dead",
        abstract: "Lists dead letters, puts them back into their list, or drops them.",
        discussion: """
            list     one line for each letter, the oldest first; --json: the records
            requeue  their jobs go to the tail of the list, without the daemon's marks
            purge    drops them; on a terminal it asks first, unless --yes is given

            --reason picks the letters with exactly this reason, as 'list' shows it or without the status before it, --limit the \
            oldest N of them; 'list' with the same options shows what the others would touch. With several lists all are meant, \
            unless --list names one.

            requeue and purge first say how many letters they are about to touch, and go on in small steps, each of which \
            Redis carries out whole or not at all: interrupted at any moment, they have lost no letter and doubled no job. \
            Letters that cannot be read are left alone and counted.

            --json of requeue and purge prints one object at the end: "matched", "changed", "unreadable".

            Exit status: 0, 64 wrong usage, 69 Redis does not answer, 78 a fault in the settings, or Redis refuses us; \
            1 when the question was not answered with yes.
            """)

    enum Action: String, ExpressibleByArgument, CaseIterable {
        case list, requeue, purge
    }

    @OptionGroup var file: SettingsArgument

    @Argument(help: ArgumentHelp("What to do: list, requeue or purge.", valueName: "list|requeue|purge"))
    var action: Action

    @Option(parsing: .unconditional, help: ArgumentHelp("Only letters with this reason.", valueName: "R"))
    var reason: String?

    @Option(parsing: .unconditional, help: ArgumentHelp("At most so many, the oldest first.", valueName: "N"))
    var limit: Int?

    @OptionGroup var which: ListOption

    @Flag(help: "Print JSON.")
    var json = false

    @Flag(help: "Do not ask before a purge.")
    var yes = false

    func validate() throws {
        if let limit, limit < 1 { throw ValidationError("--limit is at least 1.") }
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
                // What cannot be read has no reason that one could ask for.
                let meant = page.filter { $0.letter.map(walk.isMeant) ?? (reason == nil) }.prefix(left)
                left -= meant.count
                let lines = meant.map { entry in
                    json ? DeadLetterLine.json(entry) : DeadLetterLine.text(entry, redacts: settings.log.redacts)
                }
                return StandardStreams.print(lines) && left > 0
            }
        }
    }

    private func change(_ lists: [String], _ settings: Settings, _ client: inout RedisClient) throws {
        let (verb, done) = action == .purge ? ("drop", "dropped") : ("put back", "put back")
        var plan: [(walk: DeadLetterWalk, count: Int)] = []
        var (left, unreadable) = (limit ?? .max, 0)
        for list in lists {
            let walk = DeadLetterWalk(Keys(list: list), reason: reason)
            let found = try walk.count(&client, limit: left)
            plan.append((walk, found.meant))
            left -= found.meant
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
                try walk.change(action == .purge ? .drop : .requeue, limit: count, &client) { changed += $0 }
            }
        } catch {
            let doubt = "; \(changed.letters) \(done) before, and perhaps up to \(DeadLetterList.mostLetters) more"
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
            let rest = unreadable > 0 ? ", \(unreadable) left alone that cannot be read" : ""
            StandardStreams.print(["\(changed) \(done)\(rest)"])
        }
    }

    /// Only people are asked: a script has said what it means.
    private func confirm(_ count: Int) throws {
        guard !yes, StandardStreams.isTerminal(STDIN_FILENO), StandardStreams.isTerminal(STDERR_FILENO) else { return }
        StandardStreams.write(Array("Drop \(count.letters) for good? [y/N] ".utf8), to: STDERR_FILENO)
        guard let answer = readLine(), ["y", "yes"].contains(answer.lowercased()) else {
            StandardStreams.print(["nothing was dropped"], to: STDERR_FILENO)
            throw ExitCode.failure
        }
    }
}

extension Int {
    fileprivate var letters: String { counted("dead letter") }
}
