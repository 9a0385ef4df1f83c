import ArgumentParser
import JSONBytes
import Platform
import RedisQueue

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

            The claims of the list are paused while the call searches it. The pause ends with the call; a call that is \
            killed, or waits for the confirmation, leaves a pause of at most 30 seconds. A pause by 'gaplessd pause' stays in \
            force.

            --limit N cancels or restores at most N jobs. 'cancel' takes the newest of them, --undo the oldest.

            --undo puts cancelled jobs back, byte for byte: delayed jobs to their due time, all others to the tail of the list \
            in their former order, and those of an earlier 'cancel' before those of a later one. Without a condition it puts all \
            of them back.

            --json prints one object at the end: "matched", "changed", "in_flight" and "complete" (whether the last \
            pass found none).

            Exit status: 0 success, 64 wrong usage, 69 Redis did not respond, 78 a fault in the settings or in a \
            certificate, or Redis refused access; 1 the call was not confirmed.
            """)

    /// A daemon reads the pause with its next claim or heartbeat.
    private static let mostSettling = Duration.seconds(5)

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

    @Option(parsing: .unconditional, help: ArgumentHelp("At most N jobs.", valueName: "N"))
    var limit: Int?

    @OptionGroup var place: ListOption

    @Flag(help: "Do not ask for confirmation.")
    var yes = false

    @Flag(help: "Print JSON.")
    var json = false

    func validate() throws {
        if !undo, token == nil, identifier == nil, one.app == nil, topic == nil {
            throw ValidationError("One of --token, --identifier, --app and --topic is required.")
        }
        if let limit, limit < 1 { throw ValidationError("--limit must be at least 1.") }
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
            let details = Pause.details(reason: "gaplessd cancel")
            var pauses = Pauses(all: undo ? [] : lists.map { PauseList.SearchPause(Keys(list: $0), details: details) })
            var progress = Progress()
            do {
                let scans = lists.map { QueueScan(Keys(list: $0), resultsKey: nil) }
                try run(walks, scans, selection, &pauses, &progress, &client)
            } catch {
                try? pauses.end(&client)
                throw error
            }
            try pauses.end(&client)
            report(progress.counts)
        }
    }

    private func run(
        _ walks: [CancelWalk], _ scans: [QueueScan], _ selection: JobSelection, _ pauses: inout Pauses,
        _ progress: inout Progress, _ client: inout RedisClient
    ) throws {
        try settle(scans, selection, &pauses, &progress, &client)
        for walk in walks { try count(walk, &pauses, &progress, &client) }
        progress.bar.clear()
        let matched = progress.counts.matched
        if !json {
            let inFlight = progress.counts.inFlight
            let rest = inFlight > 0 ? "; in flight and left alone: \(inFlight)" : ""
            StandardStreams.print(["\(matched.counted("job")) to \(undo ? "restore" : "cancel")\(rest)"])
        }
        if matched == 0 { return }
        if !yes {
            let question = "\(undo ? "Restore" : "Cancel") \(matched.counted("job"))?"
            try Confirmation.ask(question, refusal: "Nothing was changed.")
        }
        // The pause may have ended while the question was open.
        try settle(scans, selection, &pauses, &progress, &client)
        for walk in walks { try change(walk, &pauses, &progress, &client) }
        progress.bar.clear()
    }

    /// The pauses of the lists while the call searches them. None for --undo.
    private struct Pauses {
        var all: [PauseList.SearchPause]

        mutating func renew(_ client: inout RedisClient) throws(RedisError) {
            for index in all.indices { try all[index].renew(&client) }
        }

        mutating func end(_ client: inout RedisClient) throws(RedisError) {
            for index in all.indices { try all[index].end(&client) }
        }
    }

    private struct Progress {
        var counts = Counts()
        var bar = ProgressBar()

        mutating func changed(_ count: Int) {
            counts.changed += count
            bar.update(
                share: Double(counts.changed) / Double(max(1, counts.matched)), "\(counts.changed) of \(counts.matched) jobs")
        }
    }

    private struct Counts {
        var matched = 0
        var inFlight = 0
        var changed = 0
        /// Whether no such job is left.
        var isComplete = true
    }

    /// Pauses the lists, and waits until the daemons have returned the jobs that they had not sent.
    private func settle(
        _ scans: [QueueScan], _ selection: JobSelection, _ pauses: inout Pauses, _ progress: inout Progress,
        _ client: inout RedisClient
    ) throws(RedisError) {
        if undo { return }
        let end = Instant.now + Self.mostSettling
        while true {
            try pauses.renew(&client)
            var count = 0
            for scan in scans {
                _ = try scan.read(.inFlight, &client) { page in
                    count += page.count { $0.content.first.map(selection.matches) ?? false }
                    return true
                }
            }
            progress.counts.inFlight = count
            if count == 0 || end <= .now { return }
            progress.bar.update(share: nil, "\(count.counted("job")) in flight")
            Poller.sleep(.milliseconds(100))
        }
    }

    private func count(
        _ walk: CancelWalk, _ pauses: inout Pauses, _ progress: inout Progress, _ client: inout RedisClient
    ) throws(RedisError) {
        let most = limit ?? .max
        if undo {
            progress.counts.matched += try walk.countCancelled(limit: most - progress.counts.matched, &client)
            return
        }
        for source in try walk.sources(&client) {
            let left = most - progress.counts.matched
            progress.counts.matched += try walk.count(source, limit: left, &client) { (client) throws(RedisError) in
                try pauses.renew(&client)
            }
            progress.bar.update(share: nil, "\(progress.counts.matched.counted("job")) found")
        }
    }

    private func change(
        _ walk: CancelWalk, _ pauses: inout Pauses, _ progress: inout Progress, _ client: inout RedisClient
    ) throws(RedisError) {
        let most = limit.map { $0 - progress.counts.changed } ?? .max
        if most <= 0 { return }
        if undo {
            try walk.restore(&client, limit: most) { progress.changed($0) }
        } else {
            let isComplete = try walk.cancel(
                &client, limit: most, beforePage: { (client) throws(RedisError) in try pauses.renew(&client) },
                progress: { progress.changed($0) })
            if !isComplete { progress.counts.isComplete = false }
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
