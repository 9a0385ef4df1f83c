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

/// Cancels the selected jobs of one list, or puts them back. It rests after each step.
struct CancelWalk {
    /// Runs before each page that is read.
    typealias BeforePage = (inout RedisClient) throws(RedisError) -> Void

    private let jobs: CancelledJobs
    private let waiting: WaitingJobs
    private let selection: JobSelection
    /// Unix seconds.
    private let now: Int64
    /// Passes over all jobs: each finds the jobs that returned to the list during the pass before it.
    private static let mostPasses = 3
    /// Steps in a row that may find that others have changed the list.
    private static let mostRetries = 1000
    /// A step that took longer is followed by a smaller one: in a long list, each job in its middle takes Redis a while to reach.
    private static let longStep = Duration.milliseconds(8)

    init(_ keys: Keys, _ selection: JobSelection, now: Int64) {
        (jobs, waiting, self.selection, self.now) = (CancelledJobs(keys), WaitingJobs(keys), selection, now)
    }

    /// The places at which jobs may wait.
    func sources(_ client: inout RedisClient) throws(RedisError) -> [WaitingJobs.Source] { try waiting.sources(&client) }

    /// Counts the selected jobs of a source, up to `limit`.
    func count(
        _ source: WaitingJobs.Source, limit: Int = .max, _ client: inout RedisClient, beforePage: BeforePage = { _ in }
    ) throws(RedisError) -> Int {
        var (read, count) = (0, 0)
        var rest = RedisRest()
        while count < limit {
            try beforePage(&client)
            rest.begin()
            let page = try jobs.page(of: source, skipping: read, &client)
            rest.end()
            if page.isEmpty { break }
            read += page.count
            count += page.count { selection.matches(CancelledRecord($0, at: now).job) }
            rest.sleep()
        }
        return min(count, limit)
    }

    /// Cancels at most `limit` selected jobs of all sources. Passes the number of each step to `progress`.
    ///
    /// - Returns: whether the last pass found none, or the limit is reached.
    func cancel(
        _ client: inout RedisClient, limit: Int = .max, beforePage: BeforePage = { _ in }, progress: (Int) -> Void
    ) throws(RedisError) -> Bool {
        var left = limit
        for _ in 0..<Self.mostPasses {
            let before = left
            let pass = Int64(WallClock.now().seconds * 1e6)
            for source in try waiting.sources(&client) where left > 0 {
                left -= try cancel(source, pass: pass, limit: left, &client, beforePage, progress)
            }
            if left == before || left == 0 { return true }
        }
        return false
    }

    /// Cancels the selected jobs of a source, from the tail to the head: a place that is counted from the tail never moves past
    /// the reader. Returns their number.
    private func cancel(
        _ source: WaitingJobs.Source, pass: Int64, limit: Int, _ client: inout RedisClient, _ beforePage: BeforePage,
        _ progress: (Int) -> Void
    ) throws(RedisError) -> Int {
        var (read, done, retries, most) = (0, 0, 0, CancelledJobs.mostJobs)
        var rest = RedisRest()
        while done < limit {
            try beforePage(&client)
            rest.begin()
            let page = try jobs.page(of: source, skipping: read, &client)
            rest.end()
            if page.isEmpty { break }
            var moves: [CancelledJobs.Move] = []
            var seen = 0
            for entry in page where moves.count < min(most, limit - done) {
                seen += 1
                let record = CancelledRecord(entry, at: now, pass: pass)
                guard selection.matches(record.job) else { continue }
                moves.append(.init(fromTail: read + seen, element: entry.element, record: record.bytes()))
            }
            rest.begin()
            let isDone = try jobs.cancel(moves, from: source, &client)
            let duration = rest.end()
            if isDone {
                (read, retries) = (read + seen - moves.count, 0)
                done += moves.count
                if !moves.isEmpty { progress(moves.count) }
            } else {
                retries += 1
                guard retries < Self.mostRetries else { throw .timedOut(.jobs) }
            }
            if duration > Self.longStep { most = max(5, moves.count / 2) }
            if duration < Self.longStep / 2 { most = min(CancelledJobs.mostJobs, most * 2) }
            rest.sleep()
        }
        return done
    }

    /// Counts the selected cancelled jobs, up to `limit`.
    func countCancelled(limit: Int = .max, _ client: inout RedisClient) throws(RedisError) -> Int {
        var (read, count) = (0, 0)
        var rest = RedisRest()
        while count < limit {
            rest.begin()
            let page = try jobs.records(from: read, &client)
            rest.end()
            if page.isEmpty { break }
            read += page.count
            count += page.count { CancelledRecord($0).map { selection.matches($0.job) } ?? false }
            rest.sleep()
        }
        return min(count, limit)
    }

    /// Puts at most `limit` selected cancelled jobs back, the oldest first. The passes of `cancel` follow each other in their
    /// order, and the last job of a pass comes first, because a pass goes from the tail of the list to its head.
    func restore(_ client: inout RedisClient, limit: Int = .max, progress: (Int) -> Void) throws(RedisError) {
        var left = limit
        var rest = RedisRest()
        for _ in 0..<Self.mostPasses where left > 0 {
            let before = left
            // A walk that was interrupted has passed them.
            try putBack(&client, &rest)
            while left > 0, let (pass, selected) = try advance(&client, &rest) {
                left -= try restore(pass, min(selected, left), &client, &rest, progress)
            }
            if left == before { break }
        }
        try putBack(&client, &rest)
    }

    private func putBack(_ client: inout RedisClient, _ rest: inout RedisRest) throws(RedisError) {
        while true {
            rest.begin()
            let count = try jobs.putBack(&client)
            rest.end()
            if count == 0 { return }
            rest.sleep()
        }
    }

    /// Passes the records of one pass of `cancel`, those that follow each other. Returns the pass, and the number of its selected
    /// jobs; `nil` at the end of the list.
    private func advance(
        _ client: inout RedisClient, _ rest: inout RedisRest
    ) throws(RedisError) -> (pass: Int64?, selected: Int)? {
        var found: (pass: Int64?, selected: Int)?
        var retries = 0
        while true {
            rest.begin()
            let page = try jobs.nextRecords(&client)
            rest.end()
            guard let first = page.first else { return found }
            if found == nil { found = (CancelledRecord(first)?.pass, 0) }
            let records = page.map(CancelledRecord.init)
            let ours = records.prefix { $0?.pass == found?.pass }
            if ours.isEmpty { return found }
            rest.begin()
            let isDone = try jobs.pass(Array(page.prefix(ours.count)), &client)
            rest.end()
            if isDone {
                retries = 0
                found?.selected += ours.count { $0.map { selection.matches($0.job) } ?? false }
                if ours.count < page.count { return found }
            } else {
                retries += 1
                guard retries < Self.mostRetries else { throw .timedOut(.jobs) }
            }
            rest.sleep()
        }
    }

    /// Restores jobs of the pass that was passed last, from its end on. Returns their number.
    private func restore(
        _ pass: Int64?, _ limit: Int, _ client: inout RedisClient, _ rest: inout RedisRest, _ progress: (Int) -> Void
    ) throws(RedisError) -> Int {
        var (done, retries) = (0, 0)
        while done < limit {
            rest.begin()
            let page = try jobs.passedRecords(most: CancelledJobs.mostJobs, &client)
            rest.end()
            if page.isEmpty { break }
            var steps: [CancelledJobs.Restore] = []
            var restored = 0
            for record in page where done + restored < limit {
                guard let job = CancelledRecord(record), job.pass == pass, selection.matches(job.job) else {
                    steps.append(.init(record: record, change: .keep))
                    continue
                }
                steps.append(
                    .init(record: record, change: job.due.map { .delay(job.element, due: $0) } ?? .push(job.element)))
                restored += 1
            }
            rest.begin()
            let isDone = try jobs.restore(steps, &client)
            rest.end()
            if isDone {
                (done, retries) = (done + restored, 0)
                if restored > 0 { progress(restored) }
            } else {
                retries += 1
                guard retries < Self.mostRetries else { throw .timedOut(.jobs) }
            }
            rest.sleep()
        }
        return done
    }
}

/// One element of the list of cancelled jobs.
struct CancelledRecord: Equatable {
    /// The element as it was, byte for byte.
    var element: [UInt8]
    /// The score of a delayed job, as Redis writes it.
    var due: String?
    /// Unix seconds.
    var at: Int64
    /// The pass of `cancel` that removed the job; `nil` in a record from before passes were counted.
    var pass: Int64?

    /// The job: a delayed element has the worker and a number in front of it.
    var job: [UInt8] { due == nil ? element : WaitingJobs.job(ofDelayed: element) }

    init(_ entry: CancelledJobs.Entry, at: Int64, pass: Int64? = nil) {
        (element, due, self.at, self.pass) = (entry.element, entry.due, at, pass)
    }

    func bytes() -> [UInt8] {
        var record = RecordWriter(capacity: element.count + element.count / 8 + 64)
        record.add("at", number: at)
        record.add("pass", number: pass)
        record.add("due", text: due)
        if isValidUTF8(element) {
            record.add("element", utf8: element)
        } else {
            record.add("element_base64", utf8: Base64.encode(element))
        }
        return record.finish()
    }

    /// `nil` for bytes that no `cancel` wrote.
    init?(_ bytes: [UInt8]) {
        guard let record = try? JSONValue.parse(bytes) else { return nil }
        guard
            let element = record["element"]?.stringValue.map({ Array($0.utf8) })
                ?? record["element_base64"]?.stringValue.flatMap({ Base64.decode(Array($0.utf8)) })
        else { return nil }
        (self.element, due, at) = (element, record["due"]?.stringValue, record["at"]?.integerValue ?? 0)
        pass = record["pass"]?.integerValue
    }
}
