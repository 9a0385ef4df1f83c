import Platform
import PushPool
import RedisQueue

/// A job that this process holds, from its claim to its settlement.
///
/// A class: as a value it would be a third of a kilobyte, copied at each step (measured: a fifth of the dispatcher's time). Only
/// the dispatcher's thread uses it.
final class HeldJob {
    /// A response that a wrong environment would explain. It waits for an acceptance of the app.
    struct SuspectResponse {
        var rejection: Rejection
        /// It came from a session with a credential that has been replaced, whose environment may have differed.
        var isStale = false
    }

    let job: Job
    /// The index of its list, and its claim there.
    let list: Int
    let claim: ClaimID
    /// Whether its list waits for its settlement: see `ClaimedJob.isAlone`.
    let isAlone: Bool
    /// The index of its app.
    let app: Int
    /// `apns-expiration`, fixed at the first send; 0 means one attempt without a deadline.
    var expiration: Int64
    /// Uncounted resends since its claim, and how many of them may have caused a duplicate.
    var resends = 0
    var maybeDuplicates = 0
    /// The payload to send instead of `data` when the filter has masked words in it.
    var maskedPayload: [UInt8]?
    /// The last session on which it failed.
    var avoiding: SessionID?
    /// Another worker has taken it over: its outcome is ignored here.
    var isDisowned = false
    var suspectResponse: SuspectResponse?
    /// Of its claim, and of its last attempt.
    let claimed: Instant
    var times: AttemptTimes?

    init(
        _ job: consuming Job, list: Int, claim: ClaimID, isAlone: Bool = false, app: Int, expiration: Int64, claimed: Instant
    ) {
        self.job = job
        self.list = list
        self.claim = claim
        self.isAlone = isAlone
        self.app = app
        self.expiration = expiration
        self.claimed = claimed
    }
}
