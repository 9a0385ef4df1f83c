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
    /// The apps with slots have changed: these have some now.
    case slots([String])
    /// The apps whose side lists have jobs have changed: these have some now. Reported before `connected` if there are any.
    case aside([String])
    /// The apps that daemons of the list have had, with their topics. Reported once, before `connected`.
    case apps([String: String])
    /// The campaigns whose jobs are known have changed. Tokens can be claimed from the active ones.
    case campaigns([Campaign], active: Set<String>)
    /// Redis does not know this campaign: it ended more than a day ago, or was lost with the data.
    case campaignMissing(String)
    /// Redis has answered `JobQueue.launch`. The owner settles the job.
    case launched(ClaimedJob, CampaignStart)
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

/// A feature that a server lacks, and for which the queue has a slower substitute.
public enum MissingFeature: Sendable, Hashable, CustomStringConvertible {
    /// No BLMOVE, which Redis 6.2 added.
    case blockingMove
    case waitRefused(ErrorReply)
    /// LPOP takes no count, which Redis 6.2 added.
    case popCount
    /// SORT or MEMORY USAGE is refused.
    case copying
    /// A command or key of a campaign is refused.
    case campaigns(ErrorReply)

    public var description: String {
        switch self {
        case .blockingMove: "it has no BLMOVE (added in Redis 6.2): the list is polled every 5 to 50 ms instead"
        case .waitRefused(let reply): "waiting for jobs is refused: the list is polled every 50 ms instead (\(reply))"
        case .copying: "SORT or MEMORY USAGE is refused: a script copies the jobs instead, which takes more time of Redis"
        case .campaigns(let reply): "a campaign waits, because a command or key is refused (\(reply))"
        case .popCount: "LPOP takes one job at a time (Redis 6.2 added a count)"
        }
    }
}

/// A list of records beside the queue, with a maximum of its own.
public enum RecordList: Sendable, CaseIterable {
    case deadLetters, feedback

    /// Without a maximum, the number of records is reported at every multiple of this.
    var step: Int {
        switch self {
        case .deadLetters: 10_000
        case .feedback: 100_000
        }
    }
}
