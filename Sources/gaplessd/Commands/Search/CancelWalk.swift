import RedisQueue
import SystemTime
import Threads

/// Cancels the selected jobs of one list, or puts them back, from the tail to the head: a place that is counted from the tail
/// never moves past the reader.
struct CancelWalk {
    private let jobs: CancelledJobs
    private let selection: JobSelection
    /// Unix seconds.
    private let now: Int64
    /// After each step the walk rests for this many times its duration, so that Redis can serve the daemons.
    private static let rest = 3
    /// Passes over all jobs: each finds the jobs that returned to the list during the pass before it.
    private static let mostPasses = 3
    /// Steps in a row that may find that others have changed the list.
    private static let mostRetries = 1000

    init(_ keys: Keys, _ selection: JobSelection, now: Int64) {
        (jobs, self.selection, self.now) = (CancelledJobs(keys), selection, now)
    }

    /// Counts the selected jobs of a source.
    func count(_ source: WaitingJobs.Source, _ client: inout RedisClient) throws(RedisError) -> Int {
        var (read, count) = (0, 0)
        while true {
            let page = try jobs.page(of: source, skipping: read, &client)
            if page.isEmpty { return count }
            read += page.count
            count += page.count { selection.matches(CancelledRecord($0, at: now).job) }
        }
    }

    /// Cancels the selected jobs of all sources. Passes the number of each step to `progress`.
    ///
    /// - Returns: whether the last pass found none.
    func cancel(_ client: inout RedisClient, progress: (Int) -> Void) throws(RedisError) -> Bool {
        for _ in 0..<Self.mostPasses {
            var found = 0
            for source in WaitingJobs.Source.allCases {
                try cancel(source, &client) { count in
                    found += count
                    progress(count)
                }
            }
            if found == 0 { return true }
        }
        return false
    }

    /// Cancels the selected jobs of a source. Passes the number of each step to `progress`.
    private func cancel(
        _ source: WaitingJobs.Source, _ client: inout RedisClient, progress: (Int) -> Void
    ) throws(RedisError) {
        var (read, retries) = (0, 0)
        while true {
            let begun = Instant.now
            let page = try jobs.page(of: source, skipping: read, &client)
            if page.isEmpty { return }
            var moves: [CancelledJobs.Move] = []
            var seen = 0
            for entry in page where moves.count < CancelledJobs.mostJobs {
                seen += 1
                let record = CancelledRecord(entry, at: now)
                guard selection.matches(record.job) else { continue }
                moves.append(.init(fromTail: read + seen, element: entry.element, record: record.bytes()))
            }
            if try jobs.cancel(moves, from: source, &client) {
                (read, retries) = (read + seen - moves.count, 0)
                if !moves.isEmpty { progress(moves.count) }
            } else {
                retries += 1
                guard retries < Self.mostRetries else { throw .timedOut(.jobs) }
            }
            if !moves.isEmpty { Poller.sleep((Instant.now - begun) * Self.rest) }
        }
    }

    /// Counts the selected cancelled jobs.
    func countCancelled(_ client: inout RedisClient) throws(RedisError) -> Int {
        var (read, count) = (0, 0)
        while true {
            let page = try jobs.records(skipping: read, &client)
            if page.isEmpty { return count }
            read += page.count
            count += page.count { CancelledRecord($0).map { selection.matches($0.job) } ?? false }
        }
    }

    /// Puts the selected cancelled jobs back: the last one first, so that the jobs of one call are in their former order.
    func restore(_ client: inout RedisClient, progress: (Int) -> Void) throws(RedisError) {
        var (read, retries) = (0, 0)
        while true {
            let page = try jobs.records(skipping: read, &client)
            if page.isEmpty { return }
            var steps: [CancelledJobs.Restore] = []
            var seen = 0
            for record in page where steps.count < CancelledJobs.mostJobs {
                seen += 1
                guard let job = CancelledRecord(record), selection.matches(job.job) else { continue }
                steps.append(.init(fromTail: read + seen, record: record, element: job.element, due: job.due))
            }
            if try jobs.restore(steps, &client) {
                (read, retries) = (read + seen - steps.count, 0)
                if !steps.isEmpty { progress(steps.count) }
            } else {
                retries += 1
                guard retries < Self.mostRetries else { throw .timedOut(.jobs) }
            }
        }
    }
}
