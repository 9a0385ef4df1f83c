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
            Selects jobs by --token, --identifier, --app, --topic and --campaign; all given conditions must hold. --app selects \
            the jobs that the daemon would send for the app, and reads the certificates of the settings for this. The \
            app may be one that the settings do not have any more.

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
    @Option("Only jobs for this token, in any case.", as: "X") var token: String?
    @Option("Only jobs with this identifier.", as: "X") var identifier: String?
    @OptionGroup var one: AppOption
    @Option("Only jobs that name this topic.", as: "X") var topic: String?
    @Option("Only jobs of this campaign.", as: "ID", completion: NameCompletion.campaigns) var campaign: String?
    @Flag(help: "Put cancelled jobs back.") var undo = false
    @Option("At most N jobs.", as: "N") var limit: Int?
    @OptionGroup var place: ListOption
    @Flag(help: "Do not ask for confirmation.") var yes = false
    @Flag(help: "Print JSON.") var json = false

    func validate() throws {
        if !undo, token == nil, identifier == nil, one.app == nil, topic == nil, campaign == nil {
            throw ValidationError("One of --token, --identifier, --app, --topic and --campaign is required.")
        }
        if let limit, limit < 1 { throw ValidationError("--limit must be at least 1.") }
    }

    func run() throws {
        let reading = try file.read()
        let settings = reading.settings
        let lists = try place.lists(of: settings, call: "cancel")
        let isKnown = one.isKnown(in: settings)
        var app = isKnown ? try one.selection(reading, of: file, call: "cancel") : nil
        let now = WallClock.now().unixSeconds
        try RedisAccess.run(settings) { client in
            if !isKnown {
                let former = try one.formerApps(settings, lists: lists, &client, call: "cancel")
                app = try one.selection(reading, of: file, former: former, call: "cancel")
            }
            let selection = JobSelection(
                token: token, identifier: identifier, app: app, topic: topic, campaign: campaign)
            let pauses = SearchPauses(of: undo ? [] : lists)
            var work = Work(
                call: self, walks: lists.map { CancelWalk(Keys(list: $0), selection, now: now, pauses) }, pauses: pauses)
            do {
                try work.run(&client)
            } catch {
                try? pauses.end(&client)
                throw error
            }
            try pauses.end(&client)
            work.report()
        }
    }

    /// The steps of the call, and their sums over all lists.
    private struct Work {
        let call: Cancel
        let walks: [CancelWalk]
        let pauses: SearchPauses
        private var matched = 0
        private var inFlight = 0
        private var changed = 0
        /// Whether no such job is left.
        private var isComplete = true
        private var bar = ProgressBar()

        init(call: Cancel, walks: [CancelWalk], pauses: SearchPauses) {
            (self.call, self.walks, self.pauses) = (call, walks, pauses)
        }

        mutating func run(_ client: inout RedisClient) throws {
            try settle(&client)
            // Without a question, and without a limit for all lists together, one search suffices.
            let isCounted = !call.yes || call.undo || call.limit != nil
            for walk in walks { try isCounted ? count(walk, &client) : change(walk, &client) }
            bar.clear()
            if !isCounted { matched = changed }
            let jobs = matched.counted("job")
            if !call.json {
                let rest = inFlight > 0 ? "; in flight and left alone: \(inFlight.grouped)" : ""
                StandardStreams.print(["\(jobs) to \(call.undo ? "restore" : "cancel")\(rest)"])
            }
            if matched == 0 || !isCounted { return }
            if !call.yes {
                try Confirmation.ask("\(call.undo ? "Restore" : "Cancel") \(jobs)?", refusal: "Nothing was changed.")
            }
            // The pause may have ended while the question was open.
            try settle(&client)
            for walk in walks { try change(walk, &client) }
            bar.clear()
        }

        /// Pauses the lists, and waits until the daemons have returned the jobs that they had not sent.
        private mutating func settle(_ client: inout RedisClient) throws(RedisError) {
            if call.undo { return }
            let end = Instant.now + Cancel.mostSettling
            while true {
                try pauses.renew(&client)
                inFlight = 0
                for walk in walks { inFlight += try walk.countInFlight(&client) }
                if inFlight == 0 || end <= .now { return }
                bar.update(share: nil, "\(inFlight.counted("job")) in flight")
                Poller.sleep(.milliseconds(100))
            }
        }

        private mutating func count(_ walk: CancelWalk, _ client: inout RedisClient) throws(RedisError) {
            let most = call.limit ?? .max
            if call.undo {
                matched += try walk.countCancelled(limit: most - matched, &client)
                return
            }
            try walk.count(limit: most - matched, &client) {
                matched += $0
                bar.update(share: nil, "\(matched.counted("job")) found")
            }
        }

        private mutating func change(_ walk: CancelWalk, _ client: inout RedisClient) throws(RedisError) {
            let most = call.limit.map { $0 - changed } ?? .max
            if most <= 0 { return }
            if call.undo {
                try walk.restore(&client, limit: most) { add($0) }
            } else if try !walk.cancel(&client, limit: most, progress: { add($0) }) {
                isComplete = false
            }
        }

        private mutating func add(_ count: Int) {
            changed += count
            if matched == 0 { return bar.update(share: nil, changed.counted("job")) }
            bar.update(share: Double(changed) / Double(matched), "\(changed.grouped) of \(matched.counted("job"))")
        }

        func report() {
            if call.json {
                return StandardStreams.print([
                    "matched": .integer(matched), "changed": .integer(changed), "in_flight": .integer(inFlight),
                    "complete": .bool(isComplete),
                ])
            }
            StandardStreams.print(["\(changed.grouped) \(call.undo ? "restored" : "cancelled")"])
            if !isComplete { StandardStreams.print(["More such jobs arrive: pause the app or the list, and repeat the call."]) }
        }
    }
}

/// The pauses of all lists while `cancel` searches one of them.
final class SearchPauses {
    private var all: [PauseList.SearchPause]

    init(of lists: [String]) {
        let details = Pause.details(reason: "gaplessd cancel")
        all = lists.map { PauseList.SearchPause(Keys(list: $0), details: details) }
    }

    func renew(_ client: inout RedisClient) throws(RedisError) { for index in all.indices { try all[index].renew(&client) } }

    func end(_ client: inout RedisClient) throws(RedisError) { for index in all.indices { try all[index].end(&client) } }
}

/// Cancels the selected jobs of one list, or puts them back.
struct CancelWalk {
    private let jobs: CancelledJobs
    private let waiting: WaitingJobs
    private let scan: QueueScan
    private let selection: JobSelection
    /// Unix seconds.
    private let now: Int64
    /// Renewed before each page of jobs.
    private let pauses: SearchPauses
    private let campaigns: CampaignList
    private let figures: CampaignTally
    /// Passes over all jobs: each finds the jobs that returned to the list during the pass before it.
    private static let mostPasses = 3
    /// A step that took longer is followed by a smaller one: in a long list, each job in its middle takes Redis a while to reach.
    private static let longStep = Duration.milliseconds(8)

    init(_ keys: Keys, _ selection: JobSelection, now: Int64, _ pauses: SearchPauses = SearchPauses(of: [])) {
        (jobs, waiting, scan) = (CancelledJobs(keys), WaitingJobs(keys), QueueScan(keys, resultsKey: nil))
        (self.selection, self.now, self.pauses) = (selection, now, pauses)
        campaigns = CampaignList(keys)
        figures = CampaignTally(campaigns)
    }

    /// The campaigns of which the tokens that were not claimed are selected: the only condition, or all of them without one.
    private func selectedCampaigns(_ client: inout RedisClient) throws(RedisError) -> [String] {
        if let only = selection.onlyCampaign { return [only] }
        return selection.isEmpty ? try campaigns.names(most: .max, &client) : []
    }

    /// Counts the selected jobs in flight.
    func countInFlight(_ client: inout RedisClient) throws(RedisError) -> Int {
        var count = 0
        _ = try scan.read(.inFlight, &client) { page in
            count += page.count { $0.content.first.map(selection.matches) ?? false }
            return true
        }
        return count
    }

    /// Counts the selected jobs, up to `limit`. Passes the number in each source to `progress`.
    func count(limit: Int, _ client: inout RedisClient, progress: (Int) -> Void) throws(RedisError) {
        var left = limit
        for id in try selectedCampaigns(&client) {
            let count = min(left, try campaigns.count(.cancel, of: id, &client))
            left -= count
            progress(count)
        }
        for source in try waiting.sources(&client) {
            var count = 0
            var walk = PagedWalk()
            try walk.read(
                &client, to: left > 0 ? .max : 0,
                page: { (read, client) throws(RedisError) in
                    try pauses.renew(&client)
                    return try waiting.page(of: source, from: read, &client)
                },
                { page, _ in
                    count += page.count { selection.matches($0.job) }
                    return count < left
                })
            count = min(count, left)
            left -= count
            progress(count)
        }
    }

    /// Cancels at most `limit` selected jobs of all sources. Passes the number of each step to `progress`.
    ///
    /// - Returns: whether the last pass found none, or the limit is reached.
    func cancel(_ client: inout RedisClient, limit: Int = .max, progress: (Int) -> Void) throws(RedisError) -> Bool {
        var left = limit
        func moved(_ count: Int) {
            left -= count
            progress(count)
        }
        try move(.cancel, limit, &client, moved)
        for _ in 0..<Self.mostPasses where left > 0 {
            let before = left
            let pass = self.pass()
            // An interrupted call may have left jobs there.
            while try jobs.returnSwept(to: .waiting, &client) > 0 {}
            for source in try waiting.sources(&client) where left > 0 {
                if limit == .max, let length = try jobs.isLong(source, &client) {
                    try sweep(source, length, &client, moved)
                } else {
                    try cancel(source, pass: pass, limit: left, &client, moved)
                }
            }
            if left == before || left == 0 { return true }
        }
        return left == 0
    }

    /// Cancels or restores tokens of campaigns that were not claimed.
    private func move(
        _ direction: CampaignList.Direction, _ limit: Int, _ client: inout RedisClient, _ progress: (Int) -> Void
    ) throws(RedisError) {
        var (walk, left) = (PagedWalk(restFactor: 1), limit)
        for id in try selectedCampaigns(&client) {
            while left > 0 {
                let most = left
                let moved = try walk.call { () throws(RedisError) in try campaigns.move(direction, most, of: id, &client) }
                if moved == 0 { break }
                left -= moved
                progress(moved)
                walk.rest()
            }
        }
    }

    /// The number of a pass: microseconds since 1970.
    private func pass() -> Int64 { Int64(WallClock.now().seconds * 1e6) }

    /// Cancels the selected jobs among the first `length` ones of a long list, from the head to the tail. Each step is a pass of
    /// its own, so that they are restored in their order.
    private func sweep(
        _ source: WaitingJobs.Source, _ length: Int, _ client: inout RedisClient, _ progress: (Int) -> Void
    ) throws(RedisError) {
        var walk = PagedWalk(restFactor: 1)
        var (read, last) = (0, Int64.min)
        while read < length {
            try pauses.renew(&client)
            let page = try walk.call { () throws(RedisError) in try jobs.head(of: source, &client) }
            if page.isEmpty { break }
            last = max(last + 1, pass())
            var moves: [CancelledJobs.Sweep] = []
            for (place, element) in page.enumerated() where selection.matches(element) {
                let entry = CancelledJobs.Entry(element: element)
                moves.append((place, CancelledRecord(entry, at: now, pass: last).bytes()))
            }
            if try walk.change(.jobs, { () throws(RedisError) in try jobs.sweep(page[...], moves, from: source, &client) }) {
                read += page.count
                try figures.add(.cancel, moves.map { page[$0.place] }, &client)
                if !moves.isEmpty { progress(moves.count) }
            }
            walk.rest()
        }
        while try walk.call({ () throws(RedisError) in try jobs.returnSwept(to: source, &client) }) > 0 { walk.rest() }
    }

    /// Cancels the selected jobs of a source, from the tail to the head: a place that is counted from the tail never moves past
    /// the reader.
    private func cancel(
        _ source: WaitingJobs.Source, pass: Int64, limit: Int, _ client: inout RedisClient, _ progress: (Int) -> Void
    ) throws(RedisError) {
        var (read, done, most) = (0, 0, CancelledJobs.mostJobs)
        var walk = PagedWalk()
        while done < limit {
            try pauses.renew(&client)
            let page = try walk.call { () throws(RedisError) in try jobs.page(of: source, skipping: read, &client) }
            if page.isEmpty { break }
            var moves: [CancelledJobs.Move] = []
            var cancelled: [[UInt8]] = []
            var seen = 0
            for entry in page where moves.count < min(most, limit - done) {
                seen += 1
                let record = CancelledRecord(entry, at: now, pass: pass)
                guard selection.matches(record.job) else { continue }
                moves.append(.init(fromTail: read + seen, element: entry.field ?? entry.element, record: record.bytes()))
                cancelled.append(record.job)
            }
            if try walk.change(.jobs, { () throws(RedisError) in try jobs.cancel(moves, from: source, &client) }) {
                read += seen - moves.count
                done += moves.count
                try figures.add(.cancel, cancelled, &client)
                if !moves.isEmpty { progress(moves.count) }
            }
            if walk.lastCall > Self.longStep { most = max(5, moves.count / 2) }
            if walk.lastCall < Self.longStep / 2 { most = min(CancelledJobs.mostJobs, most * 2) }
            walk.rest()
        }
    }

    /// Counts the selected cancelled jobs, up to `limit`.
    func countCancelled(limit: Int, _ client: inout RedisClient) throws(RedisError) -> Int {
        if limit <= 0 { return 0 }
        var count = 0
        for id in try selectedCampaigns(&client) { count += try campaigns.count(.undo, of: id, &client) }
        if count >= limit { return limit }
        var walk = PagedWalk()
        try walk.read(
            &client, page: { (read, client) throws(RedisError) in try jobs.records(from: read, &client) },
            { page, _ in
                count += page.count { isSelected(CancelledRecord($0)) }
                return count < limit
            })
        return min(count, limit)
    }

    private func isSelected(_ record: CancelledRecord?) -> Bool { record.map { selection.matches($0.job) } ?? false }

    /// Puts at most `limit` selected cancelled jobs back, the oldest first. The passes of `cancel` follow each other in their
    /// order, and the last job of a pass comes first, because a pass goes from the tail of the list to its head.
    func restore(_ client: inout RedisClient, limit: Int = .max, progress: (Int) -> Void) throws(RedisError) {
        var left = limit
        try move(.undo, limit, &client) {
            left -= $0
            progress($0)
        }
        var walk = PagedWalk()
        for _ in 0..<Self.mostPasses where left > 0 {
            let before = left
            try walk.putBack { () throws(RedisError) in try jobs.putBack(&client) }
            while left > 0, let (pass, selected) = try advance(&client, &walk) {
                left -= try restore(pass, min(selected, left), &client, &walk, progress)
            }
            if left == before { break }
        }
        try walk.putBack { () throws(RedisError) in try jobs.putBack(&client) }
    }

    /// Passes the records of one pass of `cancel`, those that follow each other. Returns the pass, and the number of its selected
    /// jobs; `nil` at the end of the list.
    private func advance(
        _ client: inout RedisClient, _ walk: inout PagedWalk
    ) throws(RedisError) -> (pass: Int64?, selected: Int)? {
        var found: (pass: Int64?, selected: Int)?
        while true {
            let page = try walk.call { () throws(RedisError) in try jobs.nextRecords(&client) }
            guard let first = page.first else { return found }
            if found == nil { found = (CancelledRecord(first)?.pass, 0) }
            let records = page.map(CancelledRecord.init)
            let ours = records.prefix { $0?.pass == found?.pass }
            if ours.isEmpty { return found }
            if try walk.change(.jobs, { () throws(RedisError) in try jobs.pass(Array(page.prefix(ours.count)), &client) }) {
                found?.selected += ours.count(where: isSelected)
                if ours.count < page.count { return found }
            }
            walk.rest()
        }
    }

    /// Restores jobs of the pass that was passed last, from its end on. Returns their number.
    private func restore(
        _ pass: Int64?, _ limit: Int, _ client: inout RedisClient, _ walk: inout PagedWalk, _ progress: (Int) -> Void
    ) throws(RedisError) -> Int {
        var done = 0
        while done < limit {
            let page = try walk.call { () throws(RedisError) in
                try jobs.passedRecords(most: CancelledJobs.mostJobs, &client)
            }
            if page.isEmpty { break }
            var steps: [CancelledJobs.Restore] = []
            var restored: [[UInt8]] = []
            for record in page where done + restored.count < limit {
                guard let job = CancelledRecord(record), job.pass == pass, selection.matches(job.job) else {
                    steps.append(.init(record: record, change: .keep))
                    continue
                }
                steps.append(
                    .init(record: record, change: job.due.map { .delay(job.element, due: $0) } ?? .push(job.element)))
                restored.append(job.job)
            }
            if try walk.change(.jobs, { () throws(RedisError) in try jobs.restore(steps, &client) }) {
                done += restored.count
                try figures.add(.undo, restored, &client)
                if !restored.isEmpty { progress(restored.count) }
            }
            walk.rest()
        }
        return done
    }
}

/// Counts cancelled and restored jobs in the figures of their campaigns.
private final class CampaignTally {
    private let list: CampaignList
    /// Names that are only a label of jobs: they have no figures.
    private var labels: Set<String> = []

    init(_ list: CampaignList) { self.list = list }

    func add(_ direction: CampaignList.Direction, _ jobs: [[UInt8]], _ client: inout RedisClient) throws(RedisError) {
        var counts: [String: (jobs: Int, tokens: Int)] = [:]
        for job in jobs {
            guard let facts = JobFacts(job), facts.tokens.count == 1, let id = facts.campaign, !labels.contains(id) else {
                continue
            }
            counts[id, default: (0, 0)].jobs += 1
            if CampaignToken(job) != nil { counts[id]?.tokens += 1 }
        }
        for (id, count) in counts {
            if try !list.count(direction, jobs: count.jobs, tokens: count.tokens, of: id, &client) { labels.insert(id) }
        }
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
