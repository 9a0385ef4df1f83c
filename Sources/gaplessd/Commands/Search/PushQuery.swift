import JSONBytes
import RedisQueue

/// The push that an operator looks for: one value of a job, a record or a result.
struct PushQuery: Equatable {
    enum Key: String {
        case token, identifier
        case apnsID = "apns_id"
        case trace
    }

    let key: Key
    private let value: String

    init(_ key: Key, _ value: String) {
        self.key = key
        // Tokens and ids are hex digits in any case.
        self.value = key == .token || key == .apnsID ? value.lowercased() : value
    }

    func matches(_ entry: QueueScan.Entry) -> Bool {
        guard let first = entry.content.first else { return false }
        switch entry.place {
        case .waiting, .recovered, .delayed, .inFlight: return matches(job: first)
        case .dead: return matches(record: first) || DeadLetter(record: first).map { matches(job: $0.job) } ?? false
        case .feedback: return matches(record: first)
        case .results: return matches(fields: entry.content)
        }
    }

    func matches(job: [UInt8]) -> Bool {
        guard let facts = JobFacts(job) else { return false }
        switch key {
        case .token: return (facts.tokens + [facts.channel].compactMap(\.self)).contains { $0.lowercased() == value }
        case .identifier: return facts.identifier == value
        case .apnsID: return facts.apnsIDs.contains { $0.lowercased() == value }
        case .trace: return facts.trace == value
        }
    }

    /// A dead letter or a feedback entry, whose members have the names of the keys.
    private func matches(record: [UInt8]) -> Bool {
        guard let tree = try? JSONValue.parse(record) else { return false }
        switch tree[key.rawValue] {
        case .string(let text): return matches(text)
        case .number(let digits): return matches(digits)
        default: return false
        }
    }

    private func matches(fields: [[UInt8]]) -> Bool {
        let name = Array(key.rawValue.utf8)
        for index in stride(from: 0, to: fields.count - 1, by: 2) where fields[index] == name {
            return matches(String(decoding: fields[index + 1], as: UTF8.self))
        }
        return false
    }

    private func matches(_ text: String) -> Bool { (key == .token || key == .apnsID ? text.lowercased() : text) == value }
}
