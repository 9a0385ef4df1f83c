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
        let members = NamedMembers(record)
        guard members.isWhole else { return nil }
        let field = members.text("job_field")
        let head = field == nil ? nil : members.utf8("job_head")
        guard let job = members.utf8("job") ?? members.utf8("job_base64").flatMap(Base64.decode) ?? head else { return nil }
        self.init(
            reason: members.text("reason") ?? "", status: members.int("status"), apnsID: members.text("apns_id"),
            identifier: members.json("identifier"), token: members.text("token"), trace: members.text("trace"),
            campaign: members.text("campaign"), attempts: members.int("attempts") ?? 0, at: members.number("at") ?? 0,
            worker: members.text("worker"), job: job, fullSize: field == nil ? nil : members.int("job_bytes"), field: field)
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
        let members = NamedMembers(record)
        let isReadable = !members.isWhole || DeadLetter(record: record) != nil
        reason = isReadable ? members.text("reason") : nil
        (status, token, at) = (members.int("status"), members.text("token"), members.number("at"))
        identifier = members.json("identifier").map { String(decoding: $0, as: UTF8.self) }
    }
}

/// The members of a record or a job by name, up to the first byte that is not JSON.
struct NamedMembers {
    private let bytes: [UInt8]
    private var values: [String: JSONSlice] = [:]
    /// Whether the bytes are a JSON object.
    private(set) var isWhole = false

    init(_ bytes: [UInt8]) {
        self.bytes = bytes
        var cursor = JSONCursor()
        do {
            try cursor.enterObject(in: bytes.span)
            while let (key, value) = try cursor.nextMember(in: bytes.span) {
                // The name of every member that counts is short.
                if key.range.count < 32 { values[key.text(in: bytes.span)] = value }
            }
            try cursor.finish(in: bytes.span)
            isWhole = true
        } catch {
            // The end is missing, or it is no object.
        }
    }

    subscript(name: String) -> JSONSlice? { values[name] }

    func text(_ name: String) -> String? { string(name)?.text(in: bytes.span) }
    func utf8(_ name: String) -> [UInt8]? { string(name)?.utf8(in: bytes.span) }
    func int(_ name: String) -> Int? { number(name).flatMap(Int.init(exactly:)) }
    func json(_ name: String) -> [UInt8]? { values[name].flatMap { $0.kind == .null ? nil : Array(bytes[$0.range]) } }

    func number(_ name: String) -> Int64? {
        if case .exact(let number) = values[name]?.integer(in: bytes.span) { number } else { nil }
    }

    private func string(_ name: String) -> JSONSlice? { values[name].flatMap { $0.kind == .string ? $0 : nil } }
}

/// Writes one JSON object, member by member.
struct RecordWriter {
    private var bytes: [UInt8] = []

    init(capacity: Int) { bytes.reserveCapacity(capacity) }

    mutating func add(_ key: String, text: String?) {
        add(key)
        if let text { bytes.appendJSONString(text) } else { addNull() }
    }

    mutating func add(_ key: String, number: Int64?) {
        add(key)
        if let number { bytes.append(contentsOf: "\(number)".utf8) } else { addNull() }
    }

    /// Adds a value that is already JSON.
    mutating func add(_ key: String, json: [UInt8]?) {
        add(key)
        if let json { bytes += json } else { addNull() }
    }

    mutating func add(_ key: String, utf8: [UInt8]) {
        add(key)
        bytes.appendJSONString(utf8: utf8)
    }

    consuming func finish() -> [UInt8] {
        bytes.append(UInt8(ascii: "}"))
        return bytes
    }

    private mutating func add(_ key: String) {
        bytes.append(contentsOf: (bytes.isEmpty ? "{\"" : ", \"").utf8)
        bytes.append(contentsOf: key.utf8)
        bytes.append(contentsOf: "\": ".utf8)
    }

    private mutating func addNull() { bytes.append(contentsOf: "null".utf8) }
}
