/// An event that the queue reports to its owner.
public enum QueueEvent: Sendable, Equatable {
    /// Registered, reconciled and ready. `warnings` name dangerous settings of the server (no AOF, eviction of any key).
    case connected(warnings: [String])
    /// No connection, or a server that does not serve now. The queue retries; the text is for the log.
    case disconnected(String)
    /// As `.disconnected` and `.connected`, before a claim has worked since the last disconnection that was reported. Not worth a
    /// line in the log.
    case interrupted
    case resumed
    /// The server refuses: wrong password, missing right, wrong type at a key. Reported again only when the reason changes.
    case refused(RedisError)
    /// Reported once for each feature.
    case limited(MissingFeature)
    /// Jobs that this worker holds from now on.
    case claimed([ClaimedJob])
    /// Jobs that were in flight at four crashes of workers, the last time alone. This worker holds them: dead-letter them.
    case suspects([ClaimedJob])
    /// This worker does not have these jobs any more: drop what is not on the wire. A later response is settled, and then counts
    /// as `maybe_duplicate`.
    case disowned([ClaimID], Loss)
    /// Redis does not know this worker, and others may have its jobs: send nothing more until `.connected`.
    case registrationLost
    /// Another process uses the name of this worker, or its record in Redis, with this number, cannot be continued: it works
    /// under a new name from now on.
    case renamed(worker: String, number: String)
    /// No contact for so long that others may take over the jobs: send nothing more until `.connected`.
    case leaseInDoubt
    /// Records beyond the maximum were dropped.
    case recordsTrimmed(RecordList, Int)
    /// The number of records, reported at every multiple of 10,000 dead letters or 100,000 feedback entries where no maximum is
    /// set.
    case recordsMany(RecordList, Int)
    /// Jobs of a dead worker were moved to the lists of recovered jobs.
    case recovered(worker: String, jobs: Int)
    /// The pauses of the list have changed: these are in force now. Reported before the jobs of the same reply.
    case paused([QueuePause])
    /// The apps whose side lists have jobs have changed: these have some now. Reported before `connected` if there are any.
    case aside([String])
    /// After `stop`: all settlements are confirmed.
    case stopped

    /// Why this worker does not have jobs any more.
    public enum Loss: Sendable {
        /// Another worker has taken them over.
        case takenOver
        /// They are in the record of this worker that belongs to another process, or will be taken over from it.
        case otherProcess
        /// Redis was emptied or put back to an earlier state, and only the beginning of the jobs was in memory.
        case tooLarge
    }
}
