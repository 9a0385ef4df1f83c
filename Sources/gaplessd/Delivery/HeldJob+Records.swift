import Platform
import PushPool
import RedisQueue

extension HeldJob {
    /// Sends so far: the first one, the counted resends and the uncounted resends.
    var sends: Int { job.attempts + 1 + job.doubtful + resends }

    /// Seconds from the first send to the deadline, if the next send is the first; 0 without a deadline, or with a fixed one.
    var lifetime: Int64 {
        guard resends == 0, job.deadline == nil, case .after(let seconds) = job.expiry else { return 0 }
        return seconds
    }

    /// Uncounted resends so far that may have caused a duplicate.
    var doubtful: Int { job.doubtful + maybeDuplicates }

    /// The deadline to write into the job, so that a resend keeps that of the first send.
    var deadlineToKeep: Int64? { job.keepsDeadline ? expiration : nil }

    /// The identifier as the log shows it: the number, or the string with its quotes.
    var identifier: String { String(decoding: job.identifierJSON, as: UTF8.self) }

    /// Equal for the same job after its return to the list, whatever marks it has.
    var fingerprint: HoldCulprits.Fingerprint {
        var hasher = Hasher()
        hasher.combine(token)
        hasher.combine(job.identifierJSON)
        hasher.combine(job.topic)
        hasher.combine(job.bytes[job.data])
        return hasher.finalize()
    }

    var token: String { job.text(of: job.tokens[0]) }

    /// `nil` for a job with `tokens` that ends as a whole.
    private var tokenOfRecords: String? { if case .tokens = job.target { nil } else { token } }

    func deadLetter(_ end: JobEnd, at time: WallClock, worker: String, wasSent: Bool) -> DeadLetter {
        DeadLetter(
            reason: end.reason, status: end.status, apnsID: end.apnsID ?? job.apnsID, identifier: job.identifierJSON,
            token: tokenOfRecords, trace: job.trace, attempts: wasSent ? sends : sends - 1, at: time.unixSeconds, worker: worker,
            job: job.bytes)
    }

    func feedback(_ end: JobEnd, topic: String?, verdict: TokenVerdict) -> [UInt8] {
        FeedbackRecord(
            token: token, topic: topic, reason: end.reason, status: end.status ?? 0, timestamp: end.timestamp,
            identifier: job.identifierJSON, verdict: verdict
        ).record()
    }

    func result(_ end: JobEnd, at time: WallClock, wasSent: Bool) -> ResultEntry {
        let channel: String? = if case .channel(let id, _) = job.target { id } else { nil }
        return ResultEntry(
            identifier: job.identifierJSON, token: tokenOfRecords, status: end.status, reason: end.reason,
            apnsID: end.apnsID ?? job.apnsID,
            attempts: wasSent ? sends : sends - 1, at: time.unixSeconds, pushType: job.pushType, channel: channel,
            timestamp: end.timestamp, trace: job.trace)
    }
}

extension Job {
    /// Whether a resend must carry the first deadline: without it, a relative expiry would start again.
    var keepsDeadline: Bool {
        if case .after(let seconds) = expiry { seconds > 0 } else { false }
    }
}
