import Platform
import RedisQueue

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
