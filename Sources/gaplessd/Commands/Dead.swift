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
            list     prints the numbers of dead letters by reason, and then one line for each, oldest first; with --json, only \
            the records
            show     prints one dead letter with its job; N counts as 'list' does, from 1, the oldest; 1 is the default
            requeue  appends the jobs to their list, without the marks of the daemon
            purge    deletes the dead letters; asks for confirmation on a terminal, unless --yes is given

            --reason selects dead letters by their exact reason, as 'list' prints it, with or without the status. --app, \
            --token, --campaign, --older and --newer select further; all conditions must hold. --app selects the jobs that \
            the daemon would send for the app, and reads the certificates of the settings for this. --limit selects the \
            oldest N; without it, 'list' prints \(mostLines) lines, and the number of the others. 'list' with the same \
            options prints the dead letters \
            that requeue or purge would change. Without --list, all lists are searched.

            requeue and purge first print the number of matching dead letters; if none has the given reason, also the reasons \
            that there are. They work in small atomic steps: an interruption \
            at any moment loses no dead letter and duplicates no job. Unreadable dead letters are skipped and counted. \
            requeue does the same with a dead letter whose large job is missing in Redis.

            requeue --rate N requeues at most N jobs per second.

            With --json, requeue and purge print one object at the end: "matched", "changed", "unreadable", and "reasons" (their \
            numbers) if none has the given reason.

            Exit status: 0 success, 64 wrong usage, 69 Redis did not respond, 78 a fault in the settings or in a \
            certificate, or Redis refused access; 1 the deletion was not confirmed, or 'show' found no such dead letter.
            """)

    enum Action: String, ExpressibleByArgument, CaseIterable {
        case list, show, requeue, purge
    }

    /// Lines of `list` without --limit.
    private static let mostLines = 100

    @OptionGroup var file: SettingsArgument

    @Argument(help: ArgumentHelp("The action: list, show, requeue or purge.", valueName: "ACTION"))
    var action: Action

    @Argument(help: ArgumentHelp("With 'show', the number of the dead letter.", valueName: "N"))
    var number: Int?

    @Option("Only dead letters with this reason.", as: "R") var reason: String?
    @OptionGroup var one: AppOption
    @Option("Only dead letters of this token.", as: "T") var token: String?
    @Option("Only dead letters of this campaign.", as: "ID", completion: NameCompletion.campaigns) var campaign: String?

    @Option(help: ArgumentHelp("Only dead letters that are older: 90s, 10m, 2h or 1d.", valueName: "D"))
    var older: SpanArgument?

    @Option(help: ArgumentHelp("Only dead letters that are not older: 90s, 10m, 2h or 1d.", valueName: "D"))
    var newer: SpanArgument?

    @Option("Requeue at most N jobs per second.", as: "N") var rate: Int?
    @Option("At most N dead letters, oldest first.", as: "N") var limit: Int?
    @OptionGroup var which: ListOption
    @Flag(help: "Print JSON.") var json = false
    @Flag(help: "Purge without asking for confirmation.") var yes = false

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
            reason: reason, app: try one.selection(reading, of: file, call: "dead"), token: token,
            campaign: campaign, before: older.map(Self.time), from: newer.map(Self.time))
        try RedisAccess.run(settings) { client in
            switch action {
            case .show: try show(lists, filter, settings, &client)
            case .list: try list(lists, filter, reading, &client)
            case .requeue, .purge: try change(lists, filter, settings, &client)
            }
        }
    }

    /// Unix seconds, a span ago.
    private static func time(before span: SpanArgument) -> Int64 {
        WallClock.now().unixSeconds - Int64(min(span.duration / .seconds(1), 1e12))
    }

    /// Prints the N-th of the selected dead letters.
    private func show(
        _ lists: [String], _ filter: DeadLetterFilter, _ settings: Settings, _ client: inout RedisClient
    ) throws {
        let wanted = number ?? 1
        var seen = 0
        for list in lists {
            var found: DeadLetterWalk.Entry?
            try DeadLetterWalk(Keys(list: list), filter).read(&client) { page in
                let matching = page.filter(filter.matches)
                if seen + matching.count >= wanted { found = matching[wanted - seen - 1] }
                seen += matching.count
                return found == nil
            }
            guard let found else { continue }
            let lines = json ? [DeadLetterLine.json(found)] : DeadLetterLine.full(found, settings.log.redaction)
            StandardStreams.print(lines)
            return
        }
        throw ExitCode.failure.because("There is no dead letter \(wanted); \(seen.letters) found.")
    }

    private func list(
        _ lists: [String], _ filter: DeadLetterFilter, _ reading: Configuration, _ client: inout RedisClient
    ) throws {
        let redaction = reading.settings.log.redaction
        let routes = json ? nil : AppTopics(reading.settings.apps).routes
        var left = limit ?? (json ? .max : Self.mostLines)
        for list in lists where left > 0 {
            let walk = DeadLetterWalk(Keys(list: list), filter)
            var hidden = 0
            if !json {
                let found = try walk.count(&client, limit: .max)
                hidden = found.matching - left
                let title = lists.count > 1 ? ["\(list.printable):"] : []
                let isNone = found.matching == 0 && found.unreadable == 0
                let lines = isNone ? DeadLetterReasons.none(found, asked: reason) : DeadLetterReasons.lines(found)
                // Standard output has only what there is.
                guard StandardStreams.print(title + lines, to: isNone ? STDERR_FILENO : STDOUT_FILENO) else { return }
            }
            try walk.read(&client) { page in
                let matching = page.filter(filter.matches).prefix(left)
                left -= matching.count
                let lines = matching.map { entry in
                    json ? DeadLetterLine.json(entry) : DeadLetterLine.text(entry, redaction, routes)
                }
                return StandardStreams.print(lines) && left > 0
            }
            if hidden > 0 { StandardStreams.print(["and \(hidden.grouped) more; --limit N prints the oldest N"]) }
        }
    }

    private func change(
        _ lists: [String], _ filter: DeadLetterFilter, _ settings: Settings, _ client: inout RedisClient
    ) throws {
        let (verb, done) = action == .purge ? ("delete", "deleted") : ("requeue", "requeued")
        var plan: [(walk: DeadLetterWalk, count: Int)] = []
        var (left, unreadable) = (limit ?? .max, 0)
        // Of all letters that meet the other conditions.
        var others: [String: Int] = [:]
        for list in lists {
            var walk = DeadLetterWalk(Keys(list: list), filter)
            // Ten steps per second, so that the rate is even.
            if let rate { walk.mostPerStep = max(1, min(DeadLetterList.mostLetters, rate / 10)) }
            let found = try walk.count(&client, limit: left)
            plan.append((walk, found.matching))
            left -= found.matching
            unreadable += found.unreadable
            others.merge(found.otherReasons, uniquingKeysWith: +)
        }
        let matched = plan.reduce(0) { $0 + $1.count }
        let reasons = matched == 0 && reason != nil ? DeadLetterReasons.sorted(others) : []
        if !json {
            StandardStreams.print(["\(matched.letters) to \(verb)" + (reason.map { ", reason \($0.printable)" } ?? "")])
            if !reasons.isEmpty { StandardStreams.print(["The reasons are:"] + DeadLetterReasons.rows(reasons)) }
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
        report(changed, done, of: matched, unreadable: unreadable, reasons)
    }

    private func report(
        _ changed: Int, _ done: String, of matched: Int, unreadable: Int, _ reasons: [(reason: String, count: Int)]
    ) {
        if json {
            var members = [
                JSONMember("matched", .integer(matched)), JSONMember("changed", .integer(changed)),
                JSONMember("unreadable", .integer(unreadable)),
            ]
            if !reasons.isEmpty {
                members.append(JSONMember("reasons", .object(reasons.map { JSONMember($0.reason, .integer($0.count)) })))
            }
            StandardStreams.print([JSONValue.object(members).line])
        } else {
            let rest = unreadable > 0 ? ", \(unreadable.grouped) unreadable skipped" : ""
            StandardStreams.print(["\(changed.grouped) \(done)\(rest)"])
        }
    }
}

extension Int {
    fileprivate var letters: String { counted("dead letter") }
}

/// Walks the dead letters of a list in pages, oldest first.
struct DeadLetterWalk {
    /// Dead letters of one step of `change`, at most `DeadLetterList.mostLetters`.
    var mostPerStep = DeadLetterList.mostLetters

    private let filter: DeadLetterFilter
    private let letters: DeadLetterList

    init(_ keys: Keys, _ filter: DeadLetterFilter = DeadLetterFilter()) {
        letters = DeadLetterList(keys)
        self.filter = filter
    }

    /// A record and its content; the content is `nil` if the record is unreadable.
    typealias Entry = (record: [UInt8], letter: DeadLetter?)

    private static func entry(_ record: [UInt8]) -> Entry { (record, DeadLetter(record: record)) }

    /// Passes each page to `body`, until it returns `false`. Ignores dead letters that are added during the walk.
    func read(_ client: inout RedisClient, _ body: ([Entry]) -> Bool) throws(RedisError) {
        let count = try letters.count(&client)
        var walk = PagedWalk()
        try walk.read(
            &client, to: count,
            page: { (index, client) throws(RedisError) in try letters.page(from: index, &client).map(Self.entry) },
            { page, _ in body(page) })
    }

    /// The numbers of dead letters.
    struct Count {
        /// Those that match, up to a limit.
        var matching = 0
        var unreadable = 0
        /// The reasons of those that match, with their status.
        var reasons: [String: Int] = [:]
        /// The reasons of those that meet every other condition than that of the reason.
        var otherReasons: [String: Int] = [:]
        /// Different reasons that are counted apart: those of bad jobs contain offsets.
        static let mostReasons = 1000

        fileprivate mutating func add(_ letter: DeadLetter, matches: Bool) {
            let name = letter.statusAndReason
            if matches {
                matching += 1
                Self.add(name, to: &reasons)
            } else {
                Self.add(name, to: &otherReasons)
            }
        }

        private static func add(_ name: String, to counts: inout [String: Int]) {
            counts[counts.count < mostReasons || counts[name] != nil ? name : "others", default: 0] += 1
        }
    }

    /// Counts the dead letters.
    func count(_ client: inout RedisClient, limit: Int) throws(RedisError) -> Count {
        var count = Count()
        let otherwise = filter.withoutReason
        try read(&client) { page in
            for (_, letter) in page {
                guard let letter else {
                    count.unreadable += 1
                    continue
                }
                let matches = filter.matches(letter)
                if matches || otherwise.matches(letter) { count.add(letter, matches: matches) }
            }
            return true
        }
        count.matching = min(count.matching, limit)
        return count
    }

    enum Action { case requeue, delete }

    /// Changes the oldest `limit` matching dead letters, one page per step. Passes the number of each step to `progress`. The
    /// walk goes from the head to the tail, and puts the letters back that it has passed.
    ///
    /// - Returns: the number of those that were kept because their jobs are missing.
    func change(
        _ action: Action, limit: Int, _ client: inout RedisClient, progress: (Int) -> Void
    ) throws(RedisError) -> Int {
        var (left, kept) = (limit, 0)
        var walk = PagedWalk()
        try walk.putBack { () throws(RedisError) in try letters.putBack(&client) }
        while left > kept {
            let page = try walk.call { () throws(RedisError) in try letters.head(&client) }.map(Self.entry)
            if page.isEmpty { break }
            let part = try steps(page, action, most: min(left - kept, mostPerStep), &client)
            if try walk.change(.deadLetters, { () throws(RedisError) in try letters.apply(part.steps, &client) }) {
                (left, kept) = (left - part.changed, kept + part.kept)
                if part.changed > 0 { progress(part.changed) }
            }
            walk.rest()
        }
        try walk.putBack { () throws(RedisError) in try letters.putBack(&client) }
        return kept
    }

    /// The changes for the first letters of a page: for all of them, or up to a full step or a letter whose job is large.
    private struct Part {
        var steps: [DeadLetterList.Step] = []
        var changed = 0
        /// Letters whose jobs are missing.
        var kept = 0
    }

    private func steps(
        _ page: [Entry], _ action: Action, most: Int, _ client: inout RedisClient
    ) throws(RedisError) -> Part {
        var part = Part()
        for entry in page where part.changed + part.kept < most {
            var step = DeadLetterList.Step(record: entry.record, change: .keep)
            if let letter = entry.letter, filter.matches(letter) {
                if let change = try action == .delete ? .drop : requeue(letter, &client) {
                    (step.change, step.field) = (change, letter.field)
                    part.changed += 1
                } else {
                    part.kept += 1
                }
            }
            part.steps.append(step)
            if step.field != nil { break }
        }
        return part
    }

    /// A job that is too large to be claimed has no marks. `nil` if the job is missing.
    private func requeue(_ letter: DeadLetter, _ client: inout RedisClient) throws(RedisError) -> DeadLetterList.Change? {
        guard let field = letter.field else { return .requeue(job: Job.unmarked(letter.job)) }
        guard let size = letter.fullSize, size <= ClaimedJob.mostBytes else {
            return try letters.hasStoredJob(field, &client) ? .requeueStored : nil
        }
        return try letters.storedJob(field, &client).map { .requeue(job: Job.unmarked($0)) }
    }
}

/// Selects dead letters. Without any condition it selects all.
struct DeadLetterFilter {
    /// The exact reason, with or without the status.
    var reason: String?
    var app: AppSelection?
    /// A token of the job, in any case.
    var token: String?
    var campaign: String?
    /// Unix seconds: only letters from before.
    var before: Int64?
    /// Unix seconds: only letters from then on.
    var from: Int64?

    private var isEmpty: Bool {
        reason == nil && app == nil && token == nil && campaign == nil && before == nil && from == nil
    }

    fileprivate var withoutReason: DeadLetterFilter {
        var filter = self
        filter.reason = nil
        return filter
    }

    /// An unreadable record meets no condition.
    func matches(_ entry: DeadLetterWalk.Entry) -> Bool { entry.letter.map(matches) ?? isEmpty }

    func matches(_ letter: DeadLetter) -> Bool {
        if let reason, ![letter.reason, letter.shownReason, letter.statusAndReason].contains(reason) { return false }
        if let before, letter.at >= before { return false }
        if let from, letter.at < from { return false }
        if let token {
            let tokens = [letter.token].compactMap(\.self) + (JobFacts(letter.job)?.tokens ?? [])
            if !tokens.contains(where: { $0.lowercased() == token.lowercased() }) { return false }
        }
        if let campaign, letter.campaign != campaign, JobFacts(letter.job)?.campaign != campaign { return false }
        return app?.matches(letter.job) ?? true
    }
}

extension DeadLetter {
    fileprivate var shownReason: String { reason.isEmpty ? "no reason" : reason }

    /// `410 Unregistered`, or the reason alone if there is no status.
    var statusAndReason: String { (status.map { "\($0) " } ?? "") + shownReason }
}

/// Formats a dead letter for `dead list`.
enum DeadLetterLine {
    /// `2026/11/20 22:50:09 +01:00  410 Unregistered  app news  topic com.example.news  ID 154  token 071c…  1 attempt  job of 57
    /// bytes`.
    ///
    /// - Parameter routes: select the app of the job; `nil` names only an app of the job.
    static func text(_ entry: DeadLetterWalk.Entry, _ redaction: Redaction, _ routes: AppRoutes? = nil) -> String {
        guard let letter = entry.letter else { return "unreadable, \(entry.record.count.counted("byte"))" }
        let identifier = letter.identifier.map { String(decoding: $0, as: UTF8.self) }
        let facts = JobFacts(letter.job)
        let number = facts.flatMap { routes?.app(name: $0.app, topic: $0.topic) }
        let app = number.map { routes?.name(of: $0) ?? PauseNote.topLevel } ?? facts?.app
        let topic = facts?.topic ?? number.flatMap { routes?.topic(of: $0) }
        let parts = [
            LocalTime.zoned(letter.at),
            letter.statusAndReason, app.map { "app \($0)" }, topic.map { "topic \($0)" }, identifier.map { "ID \($0)" },
            letter.token.map { "token \(redaction.token($0))" },
            letter.attempts.counted("attempt"), "job of \((letter.fullSize ?? letter.job.count).counted("byte"))",
        ]
        return parts.compactMap { $0 }.joined(separator: "  ").printable
    }

    /// Returns the members of the record, one on each line, and the job last.
    static func full(_ entry: DeadLetterWalk.Entry, _ redaction: Redaction) -> [String] {
        guard let letter = entry.letter else { return [text(entry, redaction)] }
        let rows: [(String, String?)] = [
            ("at", LocalTime.zoned(letter.at)), ("reason", letter.statusAndReason), ("apns-id", letter.apnsID),
            ("ID", letter.identifier.map { String(decoding: $0, as: UTF8.self) }),
            ("token", letter.token.map(redaction.token)), ("attempts", "\(letter.attempts)"),
            ("worker", letter.worker),
            (
                "job",
                redaction.content(letter.job).map { String(decoding: $0, as: UTF8.self) } ?? letter.job.count.counted("byte")
            ),
        ]
        return rows.compactMap { name, value in value.map { name.padded(to: 12) + $0.printable } }
    }

    static func json(_ entry: DeadLetterWalk.Entry) -> String {
        JSONValue.line(of: entry.record, isReadable: entry.letter != nil)
    }
}

/// The numbers of dead letters by reason, most frequent first.
enum DeadLetterReasons {
    /// Rows of a summary.
    private static let mostRows = 20

    static func sorted(_ counts: [String: Int]) -> [(reason: String, count: Int)] {
        counts.map { (reason: $0.key, count: $0.value) }.sorted { ($1.count, $0.reason) < ($0.count, $1.reason) }
    }

    /// The summary above a list.
    static func lines(_ count: DeadLetterWalk.Count) -> [String] {
        var rows = sorted(count.reasons)
        if count.unreadable > 0 { rows.append(("(unreadable)", count.unreadable)) }
        return [count.matching.letters] + self.rows(rows) + [""]
    }

    /// The note in the place of a list. If no dead letter has the reason that was asked for, it names the reasons that there are.
    static func none(_ count: DeadLetterWalk.Count, asked reason: String?) -> [String] {
        let others = reason == nil ? [] : sorted(count.otherReasons)
        return [count.matching.letters] + (others.isEmpty ? [] : ["The reasons are:"] + rows(others))
    }

    static func rows(_ reasons: [(reason: String, count: Int)]) -> [String] {
        var rows = reasons.prefix(mostRows).map { ($0.count.grouped, $0.reason.printable) }
        let others = reasons.dropFirst(mostRows)
        if !others.isEmpty {
            rows.append((others.reduce(0) { $0 + $1.count }.grouped, "for \(others.count.counted("other reason"))"))
        }
        let width = rows.map(\.0.count).max() ?? 0
        return rows.map { "  \($0.padded(leftTo: width))  \($1)" }
    }
}
