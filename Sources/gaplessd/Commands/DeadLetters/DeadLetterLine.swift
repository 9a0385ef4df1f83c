import JSONBytes

/// Formats a dead letter for `dead list`.
enum DeadLetterLine {
    /// `2026/11/20 22:50:09  410 Unregistered  ID 154  token 071c…  1 attempt  job of 57 bytes`.
    ///
    /// - Parameter redacts: `log_redact`.
    static func text(_ entry: DeadLetterWalk.Entry, redacts: Bool) -> String {
        guard let letter = entry.letter else { return "unreadable, \(entry.record.count.counted("byte"))" }
        let token = letter.token.map { redacts ? String($0.prefix(8)) : $0 }
        let identifier = letter.identifier.map { String(decoding: $0, as: UTF8.self) }
        let parts = [
            LocalTime.text(of: letter.at),
            letter.statusAndReason, identifier.map { "ID \($0)" }, token.map { "token \($0)" },
            letter.attempts.counted("attempt"), "job of \((letter.fullSize ?? letter.job.count).counted("byte"))",
        ]
        return parts.compactMap { $0 }.joined(separator: "  ").printable
    }

    /// Returns the members of the record, one on each line, and the job last.
    static func full(_ entry: DeadLetterWalk.Entry, redacts: Bool) -> [String] {
        guard let letter = entry.letter else { return [text(entry, redacts: redacts)] }
        let rows: [(String, String?)] = [
            ("at", LocalTime.text(of: letter.at)), ("reason", letter.statusAndReason), ("apns-id", letter.apnsID),
            ("ID", letter.identifier.map { String(decoding: $0, as: UTF8.self) }),
            ("token", letter.token.map { redacts ? String($0.prefix(8)) : $0 }), ("attempts", "\(letter.attempts)"),
            ("worker", letter.worker),
            ("job", redacts ? letter.job.count.counted("byte") : String(decoding: letter.job, as: UTF8.self)),
        ]
        return rows.compactMap { name, value in
            value.map { name + String(repeating: " ", count: 12 - name.count) + $0.printable }
        }
    }

    /// Returns the record on one line. An unreadable record becomes base64, so that every line is JSON.
    static func json(_ entry: DeadLetterWalk.Entry) -> String {
        if entry.letter != nil, isValidUTF8(entry.record) { return String(decoding: Job.onOneLine(entry.record), as: UTF8.self) }
        let encoded = String(decoding: Base64.encode(entry.record), as: UTF8.self)
        return JSONValue.members(["unreadable_base64": .string(encoded)]).line
    }
}
