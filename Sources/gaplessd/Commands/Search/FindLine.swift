import JSONBytes
import RedisQueue

/// Formats a push that `find` has found.
struct FindLine {
    var list: String
    var entry: QueueScan.Entry

    /// `apns_queue  waiting, position 12  ID 154  token 071c…  57 bytes`.
    ///
    /// - Parameter redacts: `log_redact`.
    func text(redacts: Bool) -> String { "\(list)  \(location)  \(content(redacts))".printable }

    private var location: String {
        switch entry.place {
        case .waiting, .recovered, .dead, .feedback: "\(entry.place.words), position \(entry.position ?? 0)"
        case .delayed: "delayed until \(LocalTime.text(of: (entry.due ?? 0) / 1000))"
        case .inFlight: "in flight at worker \(entry.worker ?? "")"
        case .results: "result \(entry.stream ?? "")"
        }
    }

    private func content(_ redacts: Bool) -> String {
        let bytes = entry.content.first ?? []
        switch entry.place {
        case .waiting, .recovered, .delayed, .inFlight:
            return JobLine(position: 0, due: nil, job: bytes).summary(redacts: redacts)
        case .dead: return DeadLetterLine.text((bytes, DeadLetter(record: bytes)), redacts: redacts)
        case .feedback: return FeedbackLine.text(bytes, redacts: redacts)
        case .results:
            return fields.filter { !$0.value.isEmpty }.map { name, value in
                "\(name) \(redacts && name == "token" ? String(value.prefix(8)) : value)"
            }.joined(separator: "  ")
        }
    }

    private var fields: [(name: String, value: String)] {
        let texts = entry.content.map { String(decoding: $0, as: UTF8.self) }
        return stride(from: 0, to: texts.count - 1, by: 2).map { (texts[$0], texts[$0 + 1]) }
    }

    var object: JSONValue {
        var members: [(String, JSONValue)] = [("list", .string(list)), ("place", .string(entry.place.rawValue))]
        if let position = entry.position { members.append(("position", .integer(position))) }
        if let due = entry.due { members.append(("due", .number("\(Double(due) / 1000)"))) }
        if let worker = entry.worker { members.append(("worker", .string(worker))) }
        if let stream = entry.stream { members.append(("id", .string(stream))) }
        switch entry.place {
        case .results:
            members.append(
                ("result", .object(fields.map { JSONMember(key: $0.name, value: .string($0.value), offset: 0) })))
        case .dead, .feedback: members.append(member("record"))
        case .waiting, .recovered, .delayed, .inFlight: members.append(member("job"))
        }
        return .object(members.map { JSONMember(key: $0.0, value: $0.1, offset: 0) })
    }

    /// The bytes as text, or as base64 if they are not UTF-8.
    private func member(_ name: String) -> (String, JSONValue) {
        let bytes = entry.content.first ?? []
        if isValidUTF8(bytes) { return (name, .string(String(decoding: bytes, as: UTF8.self))) }
        return (name + "_base64", .string(String(decoding: Base64.encode(bytes), as: UTF8.self)))
    }
}
