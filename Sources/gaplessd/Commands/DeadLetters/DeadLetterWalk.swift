import RedisQueue

/// From the oldest dead letter to the newest, by pages: what `dead` and `audit` do.
struct DeadLetterWalk {
    /// Which letters are meant: those with this reason, with or without the status before it, or all.
    var reason: String?

    private let letters: DeadLetterList

    init(_ keys: Keys, reason: String? = nil) {
        letters = DeadLetterList(keys)
        self.reason = reason
    }

    /// A record and what it says; `nil` where it cannot be read.
    typealias Entry = (record: [UInt8], letter: DeadLetter?)

    func isMeant(_ letter: DeadLetter) -> Bool { reason == nil || letter.reason == reason || letter.statusAndReason == reason }

    /// Shows every page, until `body` says that it is enough. Letters that come in meanwhile are not waited for.
    func forEachPage(
        _ client: inout RedisClient, _ body: ([Entry]) throws -> Bool
    ) throws {
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

    /// How many letters are meant, `limit` at most, and how many cannot be read.
    func count(_ client: inout RedisClient, limit: Int) throws -> (meant: Int, unreadable: Int) {
        var (meant, unreadable) = (0, 0)
        try forEachPage(&client) { page in
            for (_, letter) in page {
                if let letter { meant += isMeant(letter) ? 1 : 0 } else { unreadable += 1 }
            }
            return true
        }
        return (min(meant, limit), unreadable)
    }

    static func unreadable(_ keys: Keys, _ client: inout RedisClient) throws -> Int {
        try DeadLetterWalk(keys).count(&client, limit: .max).unreadable
    }

    /// What becomes of a letter that is meant.
    enum Action { case requeue, drop }

    /// Changes the oldest `limit` of the letters that are meant, a page a step. `progress` hears of each step's number of letters.
    ///
    /// Others may take letters from the list meanwhile; the walk then begins anew, as often as needed while it gets on.
    func change(_ action: Action, limit: Int, _ client: inout RedisClient, progress: (Int) -> Void) throws(RedisError) {
        var left = limit
        var index = 0
        var restarts = 0
        while left > 0 {
            let page = try page(from: index, &client)
            if page.isEmpty { return }
            let steps = steps(page, at: index, action, most: left)
            guard try letters.apply(steps, &client) else {
                restarts += 1
                // Only a list that others empty at full speed gets here.
                guard restarts < 1000 else { throw .timedOut("the dead letters change faster than they can be read") }
                index = 0
                continue
            }
            left -= steps.count
            index += page.count - steps.count
            if !steps.isEmpty {
                restarts = 0
                progress(steps.count)
            }
        }
    }

    private func steps(_ page: [Entry], at start: Int, _ action: Action, most: Int) -> [DeadLetterList.Step] {
        var steps: [DeadLetterList.Step] = []
        for (offset, entry) in page.enumerated() where steps.count < most {
            guard let letter = entry.letter, isMeant(letter) else { continue }
            let change: DeadLetterList.Change =
                switch action {
                case .requeue: .requeue(job: Job.unmarked(letter.job))
                case .drop: .drop
                }
            steps.append(DeadLetterList.Step(index: start + offset, record: entry.record, change: change))
        }
        return steps
    }
}

extension DeadLetter {
    /// `410 Unregistered`, or the reason alone where APNs gave no status.
    var statusAndReason: String { (status.map { "\($0) " } ?? "") + reason }
}
