/// The claim that is sent behind the blocking command, on the second connection.
///
/// Redis leaves what follows a blocking command in its buffer until the command ends, and then runs it before it writes a reply
/// (`processUnblockedClients` in its source). The first job for an idle worker is therefore claimed when it is pushed, and
/// wake-up and job arrive together, which saves a round trip. A wait that ends without a job is followed by a claim without jobs.
///
/// If the second connection is dead, Redis has jobs in the list, or in the chunk of this claim, and no reply arrives. Inspections
/// look for them, and after some in a row the connection counts as lost. The next connection fetches the jobs.
struct PiggybackedClaim {
    /// Most jobs. The number of free places is older than the claim, so the claim is kept small.
    static let mostJobs = 32
    /// The time between inspections while jobs are there. A reply may be on its way, and on a slow link for long.
    static let inspectionInterval = Duration.milliseconds(250)
    private static let mostMisses = 4

    /// The number of its chunk, from the wait until its jobs have arrived.
    private(set) var chunk: UInt64?
    /// Inspections in a row that found jobs.
    private var misses = 0

    var isOutstanding: Bool { chunk != nil }

    /// A wait begins, with or without a claim behind it.
    mutating func begin(chunk: UInt64?) { (self.chunk, misses) = (chunk, 0) }

    /// Its jobs have arrived, or it brought none, or the connection was lost.
    mutating func end() { begin(chunk: nil) }

    enum Finding { case complete, missing, lost }

    /// - Parameter found: the number of keys with jobs that should have arrived.
    mutating func inspected(found: Int64) -> Finding {
        misses = found > 0 ? misses + 1 : 0
        return misses == 0 ? .complete : misses > PiggybackedClaim.mostMisses ? .lost : .missing
    }
}
