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
            in their former order. Without a condition it puts all of them back.

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
            let walks = lists.map { CancelWalk(Keys(list: $0), selection, now: now) }
            var (matched, inFlight, changed, isComplete) = (0, 0, 0, true)
            for (list, walk) in zip(lists, walks) {
                if undo {
                    matched += try walk.countCancelled(&client)
                } else {
                    for source in CancelledJobs.Source.allCases { matched += try walk.count(source, &client) }
                    _ = try QueueScan(Keys(list: list), resultsKey: nil).read(.inFlight, &client) { page in
                        inFlight += page.count { $0.content.first.map(selection.matches) ?? false }
                        return true
                    }
                }
            }
            if !json {
                let rest = inFlight > 0 ? "; in flight and left alone: \(inFlight)" : ""
                StandardStreams.print(["\(matched.counted("job")) to \(undo ? "restore" : "cancel")\(rest)"])
            }
            if matched > 0, !yes {
                let question = "\(undo ? "Restore" : "Cancel") \(matched.counted("job"))?"
                try Confirmation.ask(question, refusal: "Nothing was changed.")
            }
            for walk in walks where matched > 0 {
                if undo {
                    try walk.restore(&client) { changed += $0 }
                } else if try !walk.cancel(&client, progress: { changed += $0 }) {
                    isComplete = false
                }
            }
            if json {
                let counts: JSONValue = .members([
                    "matched": .integer(matched), "changed": .integer(changed), "in_flight": .integer(inFlight),
                    "complete": .bool(isComplete),
                ])
                StandardStreams.print([counts.line])
            } else {
                StandardStreams.print(["\(changed) \(undo ? "restored" : "cancelled")"])
                if !isComplete {
                    StandardStreams.print(["More such jobs arrive: pause the app or the list, and repeat the call."])
                }
            }
        }
    }
}
