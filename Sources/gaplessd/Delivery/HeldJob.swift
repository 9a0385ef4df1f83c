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
    /// Whether it comes from its slot.
    let isFromSlot: Bool
    /// The position of its claim, unless the job itself has an earlier one.
    let rank: UInt64
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
    /// When it was claimed, and the times of its last attempt.
    let claimed: Instant
    var times: AttemptTimes?
    /// Of a token of a campaign.
    let campaign: CampaignJob?

    init(
        _ job: consuming Job, _ claim: ClaimedJob, list: Int, app: Int, campaign: CampaignJob? = nil,
        _ turn: borrowing Turn
    ) {
        self.campaign = campaign
        campaign?.held += 1
        expiration = job.expiration(now: turn.wallClock.unixSeconds)
        self.job = job
        (self.list, self.claim, isAlone) = (list, claim.id, claim.isAlone)
        (isFromSlot, rank) = (claim.isFromSlot, claim.rank)
        self.app = app
        claimed = turn.now
    }

    deinit { if let campaign { campaign.held -= 1 } }

    /// Sends so far: the first one, the counted resends and the uncounted resends.
    var sends: Int { job.attempts + 1 + job.doubtful + resends }

    /// Seconds from the first send to the deadline, if the next send is the first; 0 without a deadline, or with a fixed one.
    var lifetime: Int64 {
        guard resends == 0, job.deadline == nil, case .after(let seconds) = job.expiry else { return 0 }
        return seconds
    }

    /// Uncounted resends so far that may have caused a duplicate.
    var doubtful: Int { job.doubtful + maybeDuplicates }

    /// The deadline to write into the job, so that a resend keeps that of the first send: without it, a relative expiry would
    /// start again.
    var deadlineToKeep: Int64? {
        if case .after(let seconds) = job.expiry, seconds > 0 { expiration } else { nil }
    }

    /// Whether a 429 sets the pace of its channel, or of the token of its Live Activity.
    var isPaced: Bool { job.namesChannel || isFromSlot && job.pushType == "liveactivity" }

    var identifier: String { job.identifierInLog }

    var token: String { job.text(of: job.tokens[0]) }

    /// Returns whether the filter of the settings stops the job. If it masks words instead, the job gets a masked payload.
    @inline(__always)
    func isStopped(by turn: borrowing Turn) -> Bool {
        for match in turn.plan.matches where match.matches(job.data, of: job.bytes) { return true }
        guard let filter = turn.plan.filter else { return false }
        switch filter.judge(job.data, of: job.bytes) {
        case .clean: return false
        case .stopped: return true
        case .masked(let payload):
            maskedPayload = payload
            return false
        }
    }

    /// Equal for the same job after its return to the list, whatever marks it has.
    var fingerprint: HoldCulprits.Fingerprint {
        var hasher = Hasher()
        hasher.combine(token)
        hasher.combine(job.identifierJSON)
        hasher.combine(job.topic)
        hasher.combine(job.bytes[job.data])
        return hasher.finalize()
    }
}

/// The number of a held job: its app, a slot of `HeldJobs`, and how often that slot has been used. A notification carries it as
/// its `id`.
struct JobID: Hashable, Sendable {
    /// The most apps of a process, removed ones included.
    static let mostApps = 1 << 20

    /// 20 bits of the use, 20 of the app, 24 of the slot.
    let rawValue: UInt64

    init(_ rawValue: UInt64) { self.rawValue = rawValue }

    init(app: Int = 0, slot: Int, use: UInt32) {
        precondition(slot < 1 << 24 && app < Self.mostApps, "no job has the slot \(slot) of app \(app)")
        rawValue = UInt64(use & 0xF_FFFF) << 44 | UInt64(app) << 24 | UInt64(slot)
    }

    var slot: Int { Int(rawValue & 0xFF_FFFF) }
    var app: Int { Int(rawValue >> 24 & 0xF_FFFF) }
    var use: UInt32 { UInt32(rawValue >> 44) }
}

/// The jobs that an app holds, by `JobID`. A slot is used again under another number, so that a late response to a settled job
/// finds nothing. Look-ups neither hash nor allocate.
struct HeldJobs {
    private struct Slot {
        var use: UInt32 = 0
        var job: HeldJob?
    }

    private let app: Int
    private var slots: [Slot] = []
    private var free: [UInt32] = []
    private(set) var count = 0

    init(app: Int) { self.app = app }

    /// Keeps `job` and returns its number.
    mutating func insert(_ job: HeldJob) -> JobID {
        count += 1
        let slot: Int
        if let reused = free.popLast() {
            slot = Int(reused)
        } else {
            slot = slots.count
            slots.append(Slot())
        }
        let id = JobID(app: app, slot: slot, use: slots[slot].use &+ 1)
        slots[slot].use = id.use
        slots[slot].job = job
        return id
    }

    /// The job, if it is still held.
    subscript(id: JobID) -> HeldJob? {
        let slot = id.slot
        guard slot < slots.count, slots[slot].use == id.use else { return nil }
        return slots[slot].job
    }

    mutating func remove(_ id: JobID) -> HeldJob? {
        let slot = id.slot
        guard slot < slots.count, slots[slot].use == id.use, let job = slots[slot].job.take() else { return nil }
        free.append(UInt32(slot))
        count -= 1
        return job
    }

    /// The numbers of all jobs for which `condition` holds, in no order. Visits every slot: for rare events only.
    func ids(where condition: (HeldJob) -> Bool) -> [JobID] {
        slots.indices.compactMap { slot in
            guard let job = slots[slot].job, condition(job) else { return nil }
            return JobID(app: app, slot: slot, use: slots[slot].use)
        }
    }
}

/// The notifications of one app that its pool does not have: outgoing ones, and those whose list has a lease in doubt.
struct Outbox {
    private let app: Int
    private var outgoing: [Notification] = []
    private var suspended: [Notification] = []
    private var headers = SharedHeadersCache()

    init(app: Int) { self.app = app }

    var outgoingCount: Int { outgoing.count }
    var suspendedCount: Int { suspended.count }

    /// The held job goes out, for the first time or again.
    mutating func send(_ id: JobID, _ job: HeldJob, _ turn: borrowing Turn) { outgoing.append(notification(id, job, turn)) }

    /// The notification waits until the lease of its list is certain again.
    mutating func suspend(_ id: JobID, _ job: HeldJob, _ turn: borrowing Turn) {
        suspended.append(notification(id, job, turn))
    }

    /// Suspends the outgoing notifications for which `isInDoubt` holds.
    mutating func suspend(where isInDoubt: (JobID) -> Bool) {
        let doubtful = outgoing.filter { isInDoubt(JobID($0.id)) }
        if doubtful.isEmpty { return }
        outgoing.removeAll { isInDoubt(JobID($0.id)) }
        suspended += doubtful
    }

    /// Resumes suspended notifications for which `isCertain` holds, ahead of newer ones.
    mutating func resume(where isCertain: (JobID) -> Bool) {
        if suspended.isEmpty { return }
        outgoing = suspended.filter { isCertain(JobID($0.id)) } + outgoing
        suspended.removeAll { isCertain(JobID($0.id)) }
    }

    /// Moves the outgoing notifications to `batch`, which is empty.
    mutating func takeOutgoing(into batch: inout [Notification]) { swap(&outgoing, &batch) }

    /// Removes the notifications of these jobs, or all, and returns their numbers.
    mutating func remove(_ ids: Set<JobID>? = nil) -> [JobID] {
        func isWanted(_ notification: Notification) -> Bool { ids?.contains(JobID(notification.id)) ?? true }
        let removed = (outgoing + suspended).filter(isWanted).map { JobID($0.id) }
        outgoing.removeAll(where: isWanted)
        suspended.removeAll(where: isWanted)
        return removed
    }

    /// Looks up the parts of the job one by one: the job as a whole would be a copy.
    private mutating func notification(_ id: JobID, _ held: HeldJob, _ turn: borrowing Turn) -> Notification {
        let token: Range<Int>
        let channel: String?
        var isOwn = held.maskedPayload == nil
        switch held.job.target {
        case .token(let digits): (token, channel) = (digits, nil)
        case .escapedToken(_, let content): (token, channel, isOwn) = (content, nil, false)
        case .channel(let id, let content): (token, channel) = (content, id)
        case .member(let member): (token, channel) = (member.digits, nil)
        case .tokens, .audience: preconditionFailure("a job with several tokens was not split")
        case .channelName: preconditionFailure("the channel of a job was not found")
        }
        let topic = turn.plan.apps[app].topic
        if isOwn, case .member(let member) = held.job.target, let headers = held.campaign?.headers(topicOfApp: topic) {
            return Notification(
                id: id.rawValue, bytes: member.element, token: token, payload: held.job.data, headers: headers,
                expiration: held.expiration, lifetime: held.lifetime, apnsID: held.job.apnsID, collapseID: held.job.collapseID,
                avoiding: held.avoiding)
        }
        let headers = headers.shared(
            topic: held.job.topic(ofApp: topic), topicOfSettings: held.job.topic == nil ? topic : nil,
            pushType: held.job.pushType, priority: held.job.priority,
            channel: channel)
        if !isOwn, let other = held.job.rewritten(maskedPayload: held.maskedPayload) {
            return Notification(
                id: id.rawValue, bytes: other.bytes, token: other.token, payload: other.payload, headers: headers,
                expiration: held.expiration, lifetime: held.lifetime, apnsID: held.job.apnsID, collapseID: held.job.collapseID,
                avoiding: held.avoiding)
        }
        return Notification(
            id: id.rawValue, bytes: held.job.bytes, token: token, payload: held.job.data, headers: headers,
            expiration: held.expiration, lifetime: held.lifetime, apnsID: held.job.apnsID, collapseID: held.job.collapseID,
            avoiding: held.avoiding)
    }
}
