import RedisQueue
import SystemTime
import Threads

/// Cancels the selected jobs of one list, or puts them back, from the tail to the head: a place that is counted from the tail
/// never moves past the reader.
struct CancelWalk {
    private let jobs: CancelledJobs
    private let waiting: WaitingJobs
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
        (jobs, waiting, self.selection, self.now) = (CancelledJobs(keys), WaitingJobs(keys), selection, now)
    }

    /// Counts the selected jobs of all sources.
    func count(_ client: inout RedisClient) throws(RedisError) -> Int {
        var count = 0
        for source in try waiting.sources(&client) { count += try self.count(source, &client) }
        return count
    }

    private func count(_ source: WaitingJobs.Source, _ client: inout RedisClient) throws(RedisError) -> Int {
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
            let pass = Int64(WallClock.now().seconds * 1e6)
            for source in try waiting.sources(&client) {
                try cancel(source, pass: pass, &client) { count in
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
        _ source: WaitingJobs.Source, pass: Int64, _ client: inout RedisClient, progress: (Int) -> Void
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
                let record = CancelledRecord(entry, at: now, pass: pass)
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

    /// Puts the selected cancelled jobs back. The passes of `cancel` follow each other in their order, and the last job of a pass
    /// comes first, because a pass goes from the tail of the list to its head.
    func restore(_ client: inout RedisClient, progress: (Int) -> Void) throws(RedisError) {
        for places in try passes(&client).reversed() { try restore(places, &client, progress: progress) }
        // The places have moved if others have cancelled jobs meanwhile.
        try restore(0..<Int.max, &client, progress: progress)
    }

    /// Returns the places, counted from the tail, of each pass that has selected jobs. The latest comes first.
    private func passes(_ client: inout RedisClient) throws(RedisError) -> [Range<Int>] {
        var passes: [Range<Int>] = []
        var (read, start, isSelected) = (0, 0, false)
        var pass: Int64?
        func end() { if isSelected { passes.append(start..<read) } }
        while true {
            let page = try jobs.records(skipping: read, &client)
            if page.isEmpty { break }
            for record in page.map(CancelledRecord.init) {
                if record?.pass != pass {
                    end()
                    (pass, start, isSelected) = (record?.pass, read, false)
                }
                if let record, !isSelected { isSelected = selection.matches(record.job) }
                read += 1
            }
        }
        end()
        return passes
    }

    private func restore(
        _ places: Range<Int>, _ client: inout RedisClient, progress: (Int) -> Void
    ) throws(RedisError) {
        var (read, end, retries) = (places.lowerBound, places.upperBound, 0)
        while read < end {
            let page = try jobs.records(skipping: read, most: end - read, &client)
            if page.isEmpty { return }
            var steps: [CancelledJobs.Restore] = []
            var seen = 0
            for record in page where steps.count < CancelledJobs.mostJobs {
                seen += 1
                guard let job = CancelledRecord(record), selection.matches(job.job) else { continue }
                steps.append(.init(fromTail: read + seen, record: record, element: job.element, due: job.due))
            }
            if try jobs.restore(steps, &client) {
                (read, end, retries) = (read + seen - steps.count, end - steps.count, 0)
                if !steps.isEmpty { progress(steps.count) }
            } else {
                retries += 1
                guard retries < Self.mostRetries else { throw .timedOut(.jobs) }
            }
        }
    }
}
