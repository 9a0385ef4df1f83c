import PushPool
import RedisQueue

/// A job that this process holds, from its claim to its settlement.
///
/// A class: as a value it would be a third of a kilobyte, copied at each step (measured: a fifth of the dispatcher's time). The
/// dispatcher's thread alone has it.
final class HeldJob {
    let job: Job
    /// Which of the daemon's lists it came from, and its id there.
    let list: Int
    let claim: ClaimID
    /// Which app carries it.
    let app: Int
    /// `apns-expiration`, fixed at the first send; 0 is one attempt, and no deadline.
    var expiration: Int64
    /// Uncounted resends since its claim, and those of them after which APNs may have it twice.
    var resends = 0
    var maybeDuplicates = 0
    /// What is sent instead of `data`, where the filter has masked words in it.
    var maskedPayload: [UInt8]?
    /// The last session that failed it.
    var avoiding: SessionID?
    /// Another worker has it now: what becomes of it here is of no consequence.
    var isDisowned = false
    /// An answer that is settled only when the app has had its first acceptance.
    var suspectAnswer: SuspectAnswer?

    init(_ job: consuming Job, list: Int, claim: ClaimID, app: Int, expiration: Int64) {
        self.job = job
        self.list = list
        self.claim = claim
        self.app = app
        self.expiration = expiration
    }
}
