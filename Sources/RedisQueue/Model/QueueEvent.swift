/// What the queue tells its owner.
public enum QueueEvent: Sendable, Equatable {
    /// Registered, reconciled and ready; `warnings` name what the operator should mend (no AOF, eviction of any key).
    case connected(warnings: [String])
    /// No connection, or a server that does not serve now. It tries again by itself; one line for the log.
    case disconnected(String)
    /// The server answers, and refuses: wrong password, missing right, wrong type at a key. Said again only when it changes.
    case refused(String)
    /// The server lacks something that another way makes up for, as this sentence says. Once for each.
    case limited(String)
    /// Jobs that are now this worker's.
    case claimed([ClaimedJob])
    /// Jobs that brought down their workers three times, the last time alone. They are this worker's now: bury them.
    case suspects([ClaimedJob])
    /// No longer ours: drop what is not on the wire. Whatever answer comes is settled all the same, and then counts as
    /// `maybe_duplicate`.
    case disowned([ClaimID])
    /// Contact was lost for so long that others may take our jobs over: put nothing more on the wire until `.connected`.
    case leaseInDoubt
    /// Dead letters beyond the maximum were dropped.
    case deadLettersTrimmed(Int)
    /// There are so many dead letters, and no maximum trims them.
    case deadLettersMany(Int)
    /// Jobs of a dead worker came back to the list of the recovered.
    case recovered(worker: String, jobs: Int)
    /// Nothing is outstanding any more: all settlements are confirmed (only after `stop`).
    case stopped
}
