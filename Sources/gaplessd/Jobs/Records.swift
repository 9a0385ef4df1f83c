internal import JSONBytes

/// What is kept of a job that will not be sent: one element of the list `dead`.
struct DeadLetter: Sendable, Equatable {
    /// APNs' reason, or ours.
    var reason: String
    /// APNs' HTTP status; `nil` where APNs never saw it.
    var status: Int?
    var apnsID: String?
    /// Raw JSON, an integer or a string; `nil` where it can't be told.
    var identifier: [UInt8]?
    var token: String?
    /// How often it was sent.
    var attempts: Int
    /// Unix seconds.
    var at: Int64
    var worker: String?
    /// As it came, or as it last stood.
    var job: [UInt8]

    /// The record's bytes. A job that is no UTF-8 goes into `job_base64`.
    func record() -> [UInt8] {
        var object = RecordWriter(capacity: job.count + job.count / 8 + 256)
        object.add("reason", text: reason)
        object.add("status", number: status.map(Int64.init))
        object.add("apns_id", text: apnsID)
        object.add("identifier", json: identifier)
        object.add("token", text: token)
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
    /// Reads a record back; what another program left out of it is as good as `null`. `nil` for bytes that hold no job: no JSON
    /// object, or one without `job` or `job_base64`.
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
            token: text("token"), attempts: number("attempts").flatMap(Int.init(exactly:)) ?? 0, at: number("at") ?? 0,
            worker: text("worker"), job: job)
    }
}

/// What APNs says against a token: one element of the list `feedback`.
struct FeedbackRecord: Sendable, Equatable {
    enum Verdict: String, Sendable {
        /// 410: APNs knows that the token is gone.
        case dead
        /// The token or the environment is wrong; APNs doesn't say which.
        case suspect
    }

    var token: String
    var topic: String?
    var reason: String
    var status: Int
    /// Milliseconds since 1970, as APNs sent it with a 410.
    var timestamp: Int64?
    /// Raw JSON, an integer or a string.
    var identifier: [UInt8]?
    var verdict: Verdict

    func record() -> [UInt8] {
        var object = RecordWriter(capacity: 512)
        object.add("token", text: token)
        object.add("topic", text: topic)
        object.add("reason", text: reason)
        object.add("status", number: Int64(status))
        object.add("timestamp", number: timestamp)
        object.add("identifier", json: identifier)
        object.add("verdict", text: verdict.rawValue)
        return object.finish()
    }
}

/// A final outcome: one entry of the stream of results, whose fields are all text. What is unknown is an empty text.
struct ResultEntry: Sendable, Equatable {
    /// Raw JSON, an integer or a string; in the stream a string stands without its quotes and escapes.
    var identifier: [UInt8]?
    var token: String?
    /// 200 for a delivered push; `nil` where APNs never answered.
    var status: Int?
    var reason: String?
    var apnsID: String?
    /// How often it was sent.
    var attempts: Int
    /// Unix seconds.
    var at: Int64

    /// Field, value, field, value … as XADD takes them.
    func fields() -> [[UInt8]] {
        let values: [(String, [UInt8])] = [
            ("identifier", identifierText()),
            ("token", Array((token ?? "").utf8)),
            ("status", Array((status.map { "\($0)" } ?? "").utf8)),
            ("reason", Array((reason ?? "").utf8)),
            ("apns_id", Array((apnsID ?? "").utf8)),
            ("attempts", Array("\(attempts)".utf8)),
            ("at", Array("\(at)".utf8)),
        ]
        return values.flatMap { [Array($0.utf8), $1] }
    }

    private func identifierText() -> [UInt8] {
        guard let identifier, identifier.first == UInt8(ascii: "\"") else { return identifier ?? [] }
        var cursor = JSONCursor()
        return (try? cursor.value(in: identifier.span))?.utf8(in: identifier.span) ?? identifier
    }
}

/// Writes one JSON object, member by member.
private struct RecordWriter {
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

    /// A value that is JSON already.
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
