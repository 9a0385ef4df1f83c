internal import JSONBytes
import RedisQueue

/// The record of a job that will not be sent: one element of the list `dead`.
struct DeadLetter: Sendable, Equatable {
    /// The reason of APNs or of the daemon.
    var reason: String
    /// The HTTP status of APNs; `nil` if the job was not sent.
    var status: Int?
    var apnsID: String?
    /// The JSON of an integer or a string; `nil` if unknown.
    var identifier: [UInt8]?
    var token: String?
    /// `trace` of the job. The record omits an absent one.
    var trace: String?
    /// `campaign` of the job. The record omits an absent one.
    var campaign: String?
    /// The number of sends.
    var attempts: Int
    /// Unix seconds.
    var at: Int64
    var worker: String?
    /// The last state of the job, or the beginning of a job that is stored in the hash of large jobs.
    var job: [UInt8]
    /// The number of bytes of a job of which `job` is only the beginning.
    var fullSize: Int?
    /// The field of the hash of large jobs that has the job.
    var field: String?

    /// A record contains a job of at most this size.
    static let mostJobBytes = ClaimedJob.mostBytes
    /// As `mostJobBytes`, for a job that may be suspect because its record took longer than a lease to reach Redis.
    static let mostSuspectBytes = 1 << 20
    /// A text of at most this size is never stored in base64.
    static let mostEscapedBytes = 1 << 16
    /// Bytes of the beginning that the record of a larger job contains.
    static let headBytes = 1024

    /// Returns the end of a claimed job. Redis moves a job that is too large for a record into the hash of large jobs.
    func effect(of claim: ClaimID, isExpired: Bool, most: Int = mostJobBytes) -> Settlement.Effect {
        guard fullSize != nil || job.count > most else { return .deadLetter(record: record(), isExpired: isExpired) }
        var short = self
        let field = "\(worker ?? ""):\(claim)"
        (short.fullSize, short.field) = (fullSize ?? job.count, field)
        short.job = Array(job.prefix(Self.headBytes))
        return .deadLetter(record: short.record(), isExpired: isExpired, storingJobUnder: field)
    }

    /// Returns the bytes of the record. A job that is not UTF-8 is stored in `job_base64`, and so is a large one that consists
    /// mostly of control characters.
    func record() -> [UInt8] {
        var object = RecordWriter(capacity: job.count + job.count / 8 + 256)
        object.add("reason", text: reason)
        object.add("status", number: status.map(Int64.init))
        object.add("apns_id", text: apnsID)
        object.add("identifier", json: identifier)
        object.add("token", text: token)
        if let trace { object.add("trace", text: trace) }
        if let campaign { object.add("campaign", text: campaign) }
        object.add("attempts", number: Int64(attempts))
        object.add("at", number: at)
        object.add("worker", text: worker)
        if let fullSize, let field {
            object.add("job_head", text: String(decoding: job, as: UTF8.self))
            object.add("job_bytes", number: Int64(fullSize))
            object.add("job_field", text: field)
        } else if isValidUTF8(job), !isMostlyControls {
            object.add("job", utf8: job)
        } else {
            object.add("job_base64", utf8: Base64.encode(job))
        }
        return object.finish()
    }

    /// Whether control characters that take six bytes each make a large text longer than base64: its record would have up to six
    /// times the size of the job. JSON has no such characters, and its escapes double it at most.
    private var isMostlyControls: Bool {
        job.count > Self.mostEscapedBytes && 5 * countLongEscapes(job) > job.count / 3
    }
}

extension DeadLetter {
    /// Parses a record. An absent member counts as `null`. Returns `nil` for bytes that are not a JSON object, or have none of
    /// `job`, `job_base64` and `job_field`.
    init?(record: [UInt8]) {
        let span = record.span
        var fields: [String: JSONSlice] = [:]
        do {
            var cursor = JSONCursor()
            try cursor.enterObject(in: span)
            while let (key, value) = try cursor.nextMember(in: span) { fields[key.text(in: span)] = value }
            try cursor.finish(in: span)
        } catch {
            return nil
        }
        func text(_ name: String) -> String? {
            fields[name].flatMap { $0.kind == .string ? $0.text(in: record.span) : nil }
        }
        func number(_ name: String) -> Int64? {
            if case .exact(let number) = fields[name]?.integer(in: record.span) { number } else { nil }
        }
        func bytes(_ name: String) -> [UInt8]? {
            fields[name].flatMap { $0.kind == .string ? $0.utf8(in: record.span) : nil }
        }
        let field = text("job_field")
        let head = field == nil ? nil : bytes("job_head")
        guard let job = bytes("job") ?? bytes("job_base64").flatMap(Base64.decode) ?? head else { return nil }
        self.init(
            reason: text("reason") ?? "", status: number("status").flatMap(Int.init(exactly:)), apnsID: text("apns_id"),
            identifier: fields["identifier"].flatMap { $0.kind == .null ? nil : Array(record[$0.range]) },
            token: text("token"), trace: text("trace"), campaign: text("campaign"),
            attempts: number("attempts").flatMap(Int.init(exactly:)) ?? 0,
            at: number("at") ?? 0, worker: text("worker"), job: job,
            fullSize: field == nil ? nil : number("job_bytes").flatMap(Int.init(exactly:)), field: field)
    }
}

/// The members of a dead letter in front of its job. The end of the record may be missing.
struct DeadLetterBrief: Sendable, Equatable {
    /// `nil` if the record is unreadable.
    var reason: String?
    var status: Int?
    /// The JSON of an integer or a string.
    var identifier: String?
    var token: String?
    /// Unix seconds.
    var at: Int64?

    /// The bytes that contain these members of nearly every record of the daemon.
    static let bytes = 2048

    init(record: [UInt8]) {
        let span = record.span
        var cursor = JSONCursor()
        do {
            try cursor.enterObject(in: span)
            while let (key, value) = try cursor.nextMember(in: span) {
                switch key.text(in: span) {
                case "reason": reason = value.kind == .string ? value.text(in: span) : reason
                case "status": status = number(value, in: record).flatMap { Int(exactly: $0) }
                case "identifier":
                    identifier = value.kind == .null ? nil : String(decoding: record[value.range], as: UTF8.self)
                case "token": token = value.kind == .string ? value.text(in: span) : nil
                case "at": at = number(value, in: record)
                default: break
                }
            }
            // The record is complete.
            if DeadLetter(record: record) == nil { reason = nil }
        } catch {
            // The record ends within its job.
        }
    }

    private func number(_ value: JSONSlice, in record: [UInt8]) -> Int64? {
        if case .exact(let number) = value.integer(in: record.span) { number } else { nil }
    }
}
