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

    /// Passes each page to `body`, until it returns `false`. Ignores dead letters that are added during the walk.
    func forEachPage(_ client: inout RedisClient, _ body: ([Entry]) throws -> Bool) throws {
        let count = try letters.count(&client)
        var index = 0
        while index < count {
            let page = try page(from: index, &client)
            if page.isEmpty { return }
            guard try body(page) else { return }
            index += page.count
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

    /// Changes the oldest `limit` matching dead letters, one page per step. Passes the number of each step to `progress`.
    ///
    /// Restarts from the oldest dead letter if another client removes dead letters during a step.
    func change(_ action: Action, limit: Int, _ client: inout RedisClient, progress: (Int) -> Void) throws(RedisError) {
        var left = limit
        var index = 0
        var restarts = 0
        while left > 0 {
            let page = try page(from: index, &client)
            if page.isEmpty { return }
            let most = min(left, mostPerStep)
            let (steps, walked) = try steps(page, at: index, action, most: most, &client)
            guard try letters.apply(steps, &client) else {
                restarts += 1
                // Reached only if other clients empty the list continuously.
                guard restarts < 1000 else { throw .timedOut(.deadLetters) }
                index = 0
                continue
            }
            left -= steps.count
            // After a full step, the rest of the page is read again.
            let end = steps.count == most ? steps.last.map { $0.index + 1 } : nil
            index = (end ?? index + walked) - steps.count
            if !steps.isEmpty {
                restarts = 0
                progress(steps.count)
            }
        }
    }

    /// Returns the steps for the page, or for its beginning up to a letter whose job is large, and the number of these letters.
    private func steps(
        _ page: [Entry], at start: Int, _ action: Action, most: Int, _ client: inout RedisClient
    ) throws(RedisError) -> (steps: [DeadLetterList.Step], walked: Int) {
        var steps: [DeadLetterList.Step] = []
        for (offset, entry) in page.enumerated() where steps.count < most {
            guard let letter = entry.letter, matches(letter) else { continue }
            let change: DeadLetterList.Change =
                switch action {
                case .requeue: try requeue(letter, &client)
                case .delete: .drop
                }
            steps.append(DeadLetterList.Step(index: start + offset, record: entry.record, change: change, field: letter.field))
            if letter.field != nil { return (steps, offset + 1) }
        }
        return (steps, page.count)
    }

    /// A job that is too large to be claimed has no marks.
    private func requeue(_ letter: DeadLetter, _ client: inout RedisClient) throws(RedisError) -> DeadLetterList.Change {
        guard let field = letter.field else { return .requeue(job: Job.unmarked(letter.job)) }
        guard let size = letter.fullSize, size <= ClaimedJob.mostBytes, let job = try letters.storedJob(field, &client) else {
            return .requeueStored
        }
        return .requeue(job: Job.unmarked(job))
    }
}
