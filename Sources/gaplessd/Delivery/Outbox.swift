import PushPool

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
