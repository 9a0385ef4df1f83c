internal import JSONBytes
import Platform
import PushPool
import RedisQueue

/// A response of APNs that rejects a token, for example a 410: one element of the list `feedback`. `RetryTable` says which
/// responses do, and `Settler.deadLetter` asks for the record.
struct FeedbackRecord: Sendable, Equatable {
    var token: String
    var topic: String?
    var reason: String
    var status: Int
    /// Milliseconds since 1970, from a 410.
    var timestamp: Int64?
    /// The JSON of an integer or a string.
    var identifier: [UInt8]?
    var verdict: TokenVerdict
    /// `campaign` of the job. The record omits an absent one.
    var campaign: String?

    func record() -> [UInt8] {
        var object = RecordWriter(capacity: 512)
        object.add("token", text: token)
        object.add("topic", text: topic)
        object.add("reason", text: reason)
        object.add("status", number: Int64(status))
        object.add("timestamp", number: timestamp)
        object.add("identifier", json: identifier)
        object.add("verdict", text: verdict.rawValue)
        if let campaign { object.add("campaign", text: campaign) }
        return object.finish()
    }
}

/// A final outcome: one entry of the stream of results. All fields are text; an unknown value is empty.
struct ResultEntry: Sendable, Equatable {
    /// The JSON of an integer or a string; the stream contains a string without its quotes and escapes.
    var identifier: [UInt8]?
    var token: String?
    /// 200 for a delivered push; `nil` without a response of APNs.
    var status: Int?
    var reason: String?
    var apnsID: String?
    /// The number of sends.
    var attempts: Int
    /// Unix seconds.
    var at: Int64
    /// The name of the app; empty for the top level.
    var app: String?
    var topic: String?
    var pushType: String?
    /// The id of a broadcast, which is also `token`.
    var channel: String?
    /// Of a 410: milliseconds since 1970.
    var timestamp: Int64?
    var trace: String?
    var worker: String?
    /// `apns-unique-id`, which only the sandbox sends.
    var uniqueID: String?
    /// The name of the channel, if the job names it.
    var channelName: String?
    /// Unix milliseconds of the claim, of the last request and of its response.
    var claimedAt: Int64?
    var sentAt: Int64?
    var respondedAt: Int64?
    /// `campaign` of the job. The entry omits an absent one.
    var campaign: String?

    /// Returns field, value, field, value … in the order of XADD.
    func fields() -> Arguments {
        var fields = Arguments(reservingBytes: 1024)
        fields.append("identifier")
        fields.append(identifierText())
        fields.add("token", token)
        fields.add("status", status.map(Int64.init))
        fields.add("reason", reason)
        fields.add("apns_id", apnsID)
        fields.add("attempts", Int64(attempts))
        fields.add("at", at)
        fields.add("app", app)
        fields.add("topic", topic)
        fields.add("push_type", pushType)
        fields.add("channel", channel)
        fields.add("timestamp", timestamp)
        fields.add("trace", trace)
        fields.add("worker", worker)
        fields.add("claimed_at", claimedAt)
        fields.add("sent_at", sentAt)
        fields.add("responded_at", respondedAt)
        if let uniqueID { fields.add("apns_unique_id", uniqueID) }
        if let channelName { fields.add("channel_name", channelName) }
        if let campaign { fields.add("campaign", campaign) }
        return fields
    }

    private func identifierText() -> [UInt8] {
        guard let identifier, identifier.first == UInt8(ascii: "\"") else { return identifier ?? [] }
        var cursor = JSONCursor()
        return (try? cursor.value(in: identifier.span))?.utf8(in: identifier.span) ?? identifier
    }
}

/// The final outcome of a job, as its records show it.
struct FinalOutcome {
    /// APNs' HTTP status; `nil` without a response.
    var status: Int?
    var reason: String
    var apnsID: String?
    var uniqueID: String?
    /// With 410: milliseconds since 1970.
    var timestamp: Int64?
    /// Whether the last send counts as an attempt.
    var wasSent = true
    var isExpired = false
    /// The reason as the log shows it.
    var logText: String

    init(reason: String, wasSent: Bool = true, isExpired: Bool = false) {
        (self.reason, self.wasSent, self.isExpired, logText) = (reason, wasSent, isExpired, reason)
    }

    init(_ acceptance: Acceptance?) {
        self.init(reason: "")
        (status, apnsID, uniqueID) = (200, acceptance?.apnsID, acceptance?.uniqueID)
    }

    /// - Parameter outcome: not an acceptance.
    init(_ outcome: Outcome) {
        self.init(reason: outcome.logText)
        if case .timedOut = outcome { reason = "Timeout" }
        guard case .rejected(let rejection) = outcome else { return }
        (status, reason, apnsID, timestamp) = (rejection.status, rejection.reason, rejection.apnsID, rejection.timestamp)
        uniqueID = rejection.uniqueID
    }

    func sends(of job: HeldJob) -> Int { wasSent ? job.sends : job.sends - 1 }
}

extension FeedbackRecord {
    init(_ job: HeldJob, _ end: FinalOutcome, _ verdict: TokenVerdict, _ turn: borrowing Turn) {
        self.init(
            token: job.token, topic: job.job.topic(ofApp: turn.plan.apps[job.app].topic), reason: end.reason,
            status: end.status ?? 0, timestamp: end.timestamp, identifier: job.job.identifierJSON, verdict: verdict,
            campaign: job.job.campaign)
    }
}

extension ResultEntry {
    init(_ job: HeldJob, _ end: FinalOutcome, worker: String, _ turn: borrowing Turn) {
        let channel: String? = if case .channel(let id, _) = job.job.target { id } else { nil }
        self.init(
            identifier: job.job.identifierJSON, token: job.tokenOfRecords, status: end.status, reason: end.reason,
            apnsID: end.apnsID ?? job.job.apnsID, attempts: end.sends(of: job), at: turn.wallClock.unixSeconds,
            app: turn.plan.apps[job.app].name ?? "", topic: job.job.topic(ofApp: turn.plan.apps[job.app].topic),
            pushType: job.job.pushType, channel: channel, timestamp: end.timestamp, trace: job.job.trace, worker: worker,
            uniqueID: end.uniqueID, channelName: job.job.channelName, claimedAt: turn.milliseconds(job.claimed),
            sentAt: turn.milliseconds(job.times?.sent),
            // The times of an attempt that broke are not those of a response.
            respondedAt: end.status == nil ? nil : turn.milliseconds(job.times?.ended), campaign: job.job.campaign)
    }
}

extension HeldJob {
    /// `nil` for a job with `tokens` that ends as a whole.
    var tokenOfRecords: String? {
        switch job.target {
        case .tokens, .audience: nil
        case .token, .escapedToken, .channel, .channelName, .member: token
        }
    }
}

extension Arguments {
    fileprivate mutating func add(_ field: String, _ value: String?) {
        append(field)
        append(value ?? "")
    }

    fileprivate mutating func add(_ field: String, _ value: Int64?) {
        append(field)
        if let value { append(Int(value)) } else { append("") }
    }
}
