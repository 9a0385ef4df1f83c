internal import JSONBytes

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
