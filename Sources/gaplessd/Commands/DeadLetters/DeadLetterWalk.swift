import RedisQueue

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

    func matches(_ letter: DeadLetter) -> Bool { filter.matches(letter) }

    /// Passes each page to `body`, until it returns `false`. Ignores dead letters that are added during the walk. Rests after
    /// each page: in a long list, Redis needs a while to reach its middle.
    func forEachPage(_ client: inout RedisClient, _ body: ([Entry]) throws -> Bool) throws {
        let count = try letters.count(&client)
        var index = 0
        var rest = RedisRest()
        while index < count {
            rest.begin()
            let page = try page(from: index, &client)
            rest.end()
            if page.isEmpty { return }
            guard try body(page) else { return }
            index += page.count
            if index < count { rest.sleep() }
        }
    }

    private func page(from index: Int, _ client: inout RedisClient) throws(RedisError) -> [Entry] {
        try letters.page(from: index, &client).map { ($0, DeadLetter(record: $0)) }
    }

    /// Counts the matching dead letters, up to `limit`, and the unreadable ones.
    func count(_ client: inout RedisClient, limit: Int) throws -> (matching: Int, unreadable: Int) {
        var (matching, unreadable) = (0, 0)
        try forEachPage(&client) { page in
            for (_, letter) in page {
                if let letter { matching += matches(letter) ? 1 : 0 } else { unreadable += 1 }
            }
            return true
        }
        return (min(matching, limit), unreadable)
    }

    static func unreadable(_ keys: Keys, _ client: inout RedisClient) throws -> Int {
        try DeadLetterWalk(keys).count(&client, limit: .max).unreadable
    }

    enum Action { case requeue, delete }

    /// Changes the oldest `limit` matching dead letters, one page per step. Passes the number of each step to `progress`. The
    /// walk goes from the head to the tail, and puts the letters back that it has passed. It rests after each step.
    ///
    /// - Returns: the number of those that were kept because their jobs are missing.
    func change(
        _ action: Action, limit: Int, _ client: inout RedisClient, progress: (Int) -> Void
    ) throws(RedisError) -> Int {
        var (left, kept, retries) = (limit, 0, 0)
        var rest = RedisRest()
        // A walk that was interrupted has passed them.
        try putBack(&client, &rest)
        while left > kept {
            rest.begin()
            let records = try letters.head(&client)
            rest.end()
            if records.isEmpty { break }
            let page = records.map { Entry($0, DeadLetter(record: $0)) }
            let part = try steps(page, action, most: min(left - kept, mostPerStep), &client)
            rest.begin()
            let isDone = try letters.apply(part.steps, &client)
            rest.end()
            if isDone {
                (left, kept, retries) = (left - part.changed, kept + part.kept, 0)
                if part.changed > 0 { progress(part.changed) }
            } else {
                retries += 1
                // Reached only if other clients empty the list continuously.
                guard retries < 1000 else { throw .timedOut(.deadLetters) }
            }
            rest.sleep()
        }
        try putBack(&client, &rest)
        return kept
    }

    private func putBack(_ client: inout RedisClient, _ rest: inout RedisRest) throws(RedisError) {
        while true {
            rest.begin()
            let count = try letters.putBack(&client)
            rest.end()
            if count == 0 { return }
            rest.sleep()
        }
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
            guard let letter = entry.letter, matches(letter) else {
                part.steps.append(DeadLetterList.Step(record: entry.record, change: .keep))
                continue
            }
            guard let change = try action == .delete ? .drop : requeue(letter, &client) else {
                part.kept += 1
                part.steps.append(DeadLetterList.Step(record: entry.record, change: .keep))
                continue
            }
            part.changed += 1
            part.steps.append(DeadLetterList.Step(record: entry.record, change: change, field: letter.field))
            if letter.field != nil { break }
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
