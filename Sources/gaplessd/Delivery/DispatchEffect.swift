import PushPool
import RedisQueue

/// The next action of the shell for `DispatchMachine`; the order counts.
enum DispatchEffect: Equatable {
    /// The notifications to take back from a pool's queue, and the next place of their jobs.
    enum Withdrawal: Equatable {
        /// All that no session has taken; their jobs go back to the list.
        case release
        /// The notifications of these jobs, which wait until the lease is certain again.
        case keep(Set<JobID>)
        /// The notifications of these jobs, which go back to their place in the list.
        case giveBack(Set<JobID>)
        /// The notifications of these jobs, which another worker holds now.
        case forget(Set<JobID>)
    }

    /// APNs accepted the job at the first attempt, and no result is recorded: the end of nearly all jobs.
    case acknowledge(ClaimID, list: Int)
    /// The same for a token of a campaign.
    case acknowledgeToken(ClaimID, CampaignJob)
    indirect case settle(Settlement, list: Int)
    /// Return the jobs of the side list of an app that the settings do not have.
    case restore(aside: String, list: Int)
    /// Begin the campaign of a claimed job. Answered by `QueueEvent.launched`.
    indirect case launch(CampaignOrder, ClaimedJob, list: Int)
    /// Ask for the job of a campaign of which a token was claimed.
    case describe(campaign: String, list: Int)
    /// Count an outcome that settles nothing.
    indirect case count(CampaignOutcome, list: Int)
    /// APNs may have accepted an attempt, and another one follows, here or by another worker.
    case countMaybeDuplicate(list: Int)
    /// A delivered job for its `Sent:` line, already redacted.
    case logSent([UInt8])
    indirect case log(LogEntry)
    /// Answered by `withdrew`.
    indirect case withdraw(Withdrawal, app: Int)
    /// Close the app's sessions and dial again.
    case reconnect(app: Int)
    /// Use the session no more: APNs refuses its credential, which was replaced.
    case retire(SessionID, app: Int)
    /// Sign a provider token. Answered by `renewedToken`.
    case renewToken(for: JobID, refusedOn: SessionID, app: Int)
    /// Sign no provider token for 20 minutes.
    case keepToken(app: Int)
    /// Make the pool of the app.
    case open(app: Int)
    /// End the pool of the app, once its streams have ended.
    case finish(app: Int)
    /// Read settings and credentials; if they can be adopted, answered by `adopted`.
    case readConfiguration
    /// Close every pool, with `withdrew` for its queue and `failed` for its attempts. Answered by `poolsClosed`.
    case closePools
    /// Confirm the last settlements. Answered by `stopped` of each list.
    case stopQueues
    /// Find a channel, answered by `answered`, or record its end.
    indirect case askKeeper(ChannelKeeper.Request)
}
