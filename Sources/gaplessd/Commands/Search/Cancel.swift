import ArgumentParser
import JSONBytes
import RedisQueue
import SystemTime

/// `gaplessd cancel`: removes waiting and delayed jobs, and puts them back.
struct Cancel: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cancel",
        abstract: "Removes waiting, delayed and recovered jobs; --undo restores them.",
        discussion: """
            Selects jobs by --token, --identifier, --app and --topic; all given conditions must hold. --app selects the jobs \
            that the daemon would send for the app, and reads the certificates of the settings for this.

            Prints the number of jobs first, and asks for confirmation on a terminal, unless --yes is given. The jobs move to a \
            list of cancelled jobs in small atomic steps: an interruption at any moment loses no job and doubles none. Jobs in \
            flight are counted and left alone. Jobs that return to the list during the call are cancelled too: the call \
            ends with a pass that finds none. After three passes it ends in any case, and says so: pause the app or the list, \
            and repeat the call.

            --undo puts cancelled jobs back, byte for byte: delayed jobs to their due time, all others to the tail of the list \
            in their former order, and those of an earlier 'cancel' before those of a later one. Without a condition it puts all \
            of them back.

            --json prints one object at the end: "matched", "changed", "in_flight" and "complete" (whether the last \
            pass found none).

            Exit status: 0 success, 64 wrong usage, 69 Redis did not respond, 78 a fault in the settings or in a \
            certificate, or Redis refused access; 1 the call was not confirmed.
            """)

    @OptionGroup var file: SettingsArgument

    @Option(parsing: .unconditional, help: ArgumentHelp("Only jobs for this token, in any case.", valueName: "X"))
    var token: String?

    @Option(parsing: .unconditional, help: ArgumentHelp("Only jobs with this identifier.", valueName: "X"))
    var identifier: String?

    @OptionGroup var one: AppOption

    @Option(parsing: .unconditional, help: ArgumentHelp("Only jobs that name this topic.", valueName: "X"))
    var topic: String?

    @Flag(help: "Put cancelled jobs back.")
    var undo = false

    @OptionGroup var place: ListOption

    @Flag(help: "Do not ask for confirmation.")
    var yes = false

    @Flag(help: "Print JSON.")
    var json = false

    func validate() throws {
        if !undo, token == nil, identifier == nil, one.app == nil, topic == nil {
            throw ValidationError("One of --token, --identifier, --app and --topic is required.")
        }
    }

    func run() throws {
        let reading = try file.read()
        let settings = reading.settings
        let lists = try place.lists(of: settings, call: "cancel")
        let app = try one.selection(reading, of: file, call: "cancel")
        let selection = JobSelection(token: token, identifier: identifier, app: app, topic: topic)
        let now = WallClock.now().unixSeconds
        try RedisAccess.run(settings) { client in
            var counts = Counts()
            let walks = lists.map { CancelWalk(Keys(list: $0), selection, now: now) }
            for (list, walk) in zip(lists, walks) { try count(list, walk, selection, &counts, &client) }
            if !json {
                let rest = counts.inFlight > 0 ? "; in flight and left alone: \(counts.inFlight)" : ""
                StandardStreams.print(["\(counts.matched.counted("job")) to \(undo ? "restore" : "cancel")\(rest)"])
            }
            if counts.matched > 0, !yes {
                let question = "\(undo ? "Restore" : "Cancel") \(counts.matched.counted("job"))?"
                try Confirmation.ask(question, refusal: "Nothing was changed.")
            }
            for walk in walks where counts.matched > 0 { try change(walk, &counts, &client) }
            report(counts)
        }
    }

    private struct Counts {
        var matched = 0
        var inFlight = 0
        var changed = 0
        /// Whether no such job is left.
        var isComplete = true
    }

    private func count(
        _ list: String, _ walk: CancelWalk, _ selection: JobSelection, _ counts: inout Counts, _ client: inout RedisClient
    ) throws(RedisError) {
        if undo {
            counts.matched += try walk.countCancelled(&client)
            return
        }
        counts.matched += try walk.count(&client)
        _ = try QueueScan(Keys(list: list), resultsKey: nil).read(.inFlight, &client) { page in
            counts.inFlight += page.count { $0.content.first.map(selection.matches) ?? false }
            return true
        }
    }

    private func change(_ walk: CancelWalk, _ counts: inout Counts, _ client: inout RedisClient) throws(RedisError) {
        if undo {
            try walk.restore(&client) { counts.changed += $0 }
        } else if try !walk.cancel(&client, progress: { counts.changed += $0 }) {
            counts.isComplete = false
        }
    }

    private func report(_ counts: Counts) {
        if json {
            let members: JSONValue = .members([
                "matched": .integer(counts.matched), "changed": .integer(counts.changed), "in_flight": .integer(counts.inFlight),
                "complete": .bool(counts.isComplete),
            ])
            StandardStreams.print([members.line])
            return
        }
        StandardStreams.print(["\(counts.changed) \(undo ? "restored" : "cancelled")"])
        if !counts.isComplete {
            StandardStreams.print(["More such jobs arrive: pause the app or the list, and repeat the call."])
        }
    }
}
