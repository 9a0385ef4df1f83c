import Clocks
import PushPool

extension HeldJob {
    /// Sends so far: the first, the counted resends and the uncounted ones.
    private var sends: Int { job.attempts + 1 + job.doubtful + resends }

    /// Seconds that the deadline is away from the first send, where that is the next one; 0 where there is no such deadline, or it
    /// is fixed.
    var lifetime: Int64 {
        guard resends == 0, job.deadline == nil, case .after(let seconds) = job.expiry else { return 0 }
        return seconds
    }

    /// Uncounted resends so far after which APNs may have it twice.
    var doubtful: Int { job.doubtful + maybeDuplicates }

    /// What a resend must be told, so that the deadline of the first send stays.
    var deadlineToKeep: Int64? { job.keepsDeadline ? expiration : nil }

    /// As the log shows it: the number, or the string with its quotes.
    var identifier: String { String(decoding: job.identifierJSON, as: UTF8.self) }

    var token: String { job.text(of: job.tokens[0]) }

    func deadLetter(_ end: JobEnd, at time: WallClock, worker: String, wasSent: Bool = true) -> [UInt8] {
        DeadLetter(
            reason: end.reason, status: end.status, apnsID: end.apnsID ?? job.apnsID, identifier: job.identifierJSON,
            token: token, attempts: wasSent ? sends : sends - 1, at: time.unixSeconds, worker: worker, job: job.bytes
        ).record()
    }

    func feedback(_ end: JobEnd, topic: String?, verdict: RetryPolicy.Verdict) -> [UInt8] {
        FeedbackRecord(
            token: token, topic: topic, reason: end.reason, status: end.status ?? 0, timestamp: end.timestamp,
            identifier: job.identifierJSON, verdict: verdict
        ).record()
    }

    func result(_ end: JobEnd, at time: WallClock, wasSent: Bool = true) -> [[UInt8]] {
        ResultEntry(
            identifier: job.identifierJSON, token: token, status: end.status, reason: end.reason,
            apnsID: end.apnsID ?? job.apnsID,
            attempts: wasSent ? sends : sends - 1, at: time.unixSeconds
        ).fields()
    }
}

extension Job {
    /// Whether a resend must be told the deadline: a relative expiry would start anew with it.
    var keepsDeadline: Bool {
        if case .after(let seconds) = expiry { seconds > 0 } else { false }
    }

    /// How many tokens of one job go out together. A job with more is first cut into jobs of so many.
    static let tokensTogether = 250

    /// What a job for many devices becomes, or `nil` for a job with one token: a job for each token, or, where that would be too
    /// much at once, smaller jobs. Each is then claimed, pushed, judged and retried on its own, and survives a crash on its own.
    func parts() -> [[UInt8]]? {
        guard case .tokens(let tokens) = target else { return nil }
        if tokens.count <= Self.tokensTogether { return tokens.indices.map { single(tokenAt: $0) } }
        return stride(from: 0, to: tokens.count, by: Self.tokensTogether).map { start in
            chunk(start..<min(start + Self.tokensTogether, tokens.count))
        }
    }
}
