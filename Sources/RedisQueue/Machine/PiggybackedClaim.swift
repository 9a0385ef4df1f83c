/// The claim that is sent behind the blocking command, on the second connection.
///
/// Redis leaves what follows a blocking command in its buffer until the command ends, and then runs it before it writes a reply
/// (`processUnblockedClients` in its source). The first job for an idle worker is therefore claimed when it is pushed, and
/// wake-up and job arrive together, which saves a round trip. A wait that ends without a job is followed by a claim without jobs.
///
/// A reply that is lost leaves jobs in the in-flight hash that this worker does not know. While a piggybacked claim is
/// outstanding, every second inspection therefore counts the hash. Unknown jobs there may be on their way; when a second count
/// finds them again, their reply is lost. The next connection compares the hash and fetches them.
struct PiggybackedClaim {
    /// The second count follows the first after this time.
    static let patience = Duration.milliseconds(250)

    /// Fields of the in-flight hash that this worker has not written.
    var foreignFields = 0
    private var countsNext = false
    /// Counts in a row that found more jobs in the hash than this worker knows.
    private var misses = 0

    mutating func reset() { misses = 0 }

    /// The next inspection.
    mutating func inspection(isOutstanding: Bool) -> Call {
        if !isOutstanding { return .inspect }
        defer { countsNext.toggle() }
        return countsNext || misses > 0 ? .countHeld : .inspect
    }

    enum Finding { case complete, missing, lost }

    /// - Parameters:
    ///   - count: the number of jobs in the hash.
    ///   - held: the number of jobs that this worker knows; `nil` where a claim explains the difference.
    mutating func counted(_ count: Int64, held: Int?) -> Finding {
        guard let held, count > Int64(held + foreignFields) else {
            misses = 0
            return .complete
        }
        misses += 1
        return misses > 1 ? .lost : .missing
    }
}
