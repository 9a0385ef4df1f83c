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
        var members = [JSONMember("list", .string(list)), JSONMember("place", .string(entry.place.rawValue))]
        if let position = entry.position { members.append(JSONMember("position", .integer(position))) }
        if let due = entry.due { members.append(JSONMember("due", .number("\(Double(due) / 1000)"))) }
        if let worker = entry.worker { members.append(JSONMember("worker", .string(worker))) }
        if let stream = entry.stream { members.append(JSONMember("id", .string(stream))) }
        let bytes = entry.content.first ?? []
        switch entry.place {
        case .results: members.append(JSONMember("result", .object(fields.map { JSONMember($0.name, .string($0.value)) })))
        case .dead, .feedback: members.append(JSONMember("record", bytes: bytes))
        case .waiting, .recovered, .delayed, .inFlight: members.append(JSONMember("job", bytes: bytes))
        }
        return .object(members)
    }
}
