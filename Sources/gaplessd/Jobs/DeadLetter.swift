internal import JSONBytes

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
    /// The number of sends.
    var attempts: Int
    /// Unix seconds.
    var at: Int64
    var worker: String?
    /// The last state of the job.
    var job: [UInt8]

    /// Returns the bytes of the record. A job that is not UTF-8 is stored in `job_base64`.
    func record() -> [UInt8] {
        var object = RecordWriter(capacity: job.count + job.count / 8 + 256)
        object.add("reason", text: reason)
        object.add("status", number: status.map(Int64.init))
        object.add("apns_id", text: apnsID)
        object.add("identifier", json: identifier)
        object.add("token", text: token)
        if let trace { object.add("trace", text: trace) }
        object.add("attempts", number: Int64(attempts))
        object.add("at", number: at)
        object.add("worker", text: worker)
        if isValidUTF8(job) {
            object.add("job", utf8: job)
        } else {
            object.add("job_base64", utf8: Base64.encode(job))
        }
        return object.finish()
    }
}

extension DeadLetter {
    /// Parses a record. An absent member counts as `null`. Returns `nil` for bytes that are not a JSON object, or have neither
    /// `job` nor `job_base64`.
    init?(record: [UInt8]) {
        let span = record.span
        var fields: [String: JSONSlice] = [:]
        do {
            var cursor = JSONCursor()
            try cursor.enterObject(in: span)
            while let key = try cursor.nextKey(in: span) {
                fields[key.text(in: span)] = try cursor.value(in: span)
            }
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
        guard let job = bytes("job") ?? bytes("job_base64").flatMap(Base64.decode) else { return nil }
        self.init(
            reason: text("reason") ?? "", status: number("status").flatMap(Int.init(exactly:)), apnsID: text("apns_id"),
            identifier: fields["identifier"].flatMap { $0.kind == .null ? nil : Array(record[$0.range]) },
            token: text("token"), trace: text("trace"), attempts: number("attempts").flatMap(Int.init(exactly:)) ?? 0,
            at: number("at") ?? 0,
            worker: text("worker"), job: job)
    }
}
