import JSONBytes
import RedisQueue

/// Formats a waiting or delayed job for `peek`.
struct JobLine {
    var position: Int
    /// Milliseconds since 1970; `nil` for a job that is not delayed.
    var due: Int64?
    var job: [UInt8]

    /// `1  due 2026/11/20 22:50:01  ID 154  token 071c…  57 bytes`.
    ///
    /// - Parameter redacts: `log_redact`.
    func text(redacts: Bool) -> String {
        let due = due.map { ["due \(LocalTime.text(of: $0 / 1000))"] } ?? []
        return (["\(position)"] + due + [summary(redacts: redacts)]).joined(separator: "  ")
    }

    /// `ID 154  token 071c…  57 bytes`.
    func summary(redacts: Bool) -> String {
        guard let facts = JobFacts(job) else { return line(["no JSON object"]) }
        let tokens = facts.tokens.prefix(1).map { "token \(redacts ? String($0.prefix(8)) : $0)" }
        let others = facts.tokens.count > 1 ? ["and \((facts.tokens.count - 1).counted("other"))"] : []
        let identifier = facts.namesIdentifier ? facts.identifier : nil
        let names = [
            ("ID", identifier), ("app", facts.app), ("topic", facts.topic), ("trace", facts.trace), ("channel", facts.channel),
        ]
        return line(names.compactMap { name, value in value.map { "\(name) \($0)" } } + tokens + others)
    }

    private func line(_ parts: [String]) -> String {
        (parts + [job.count.counted("byte")]).joined(separator: "  ").printable
    }

    /// The job is text, or base64 if it is not UTF-8. A delayed job has its due time in Unix seconds.
    func object(list: String) -> JSONValue {
        let due = due.map { JSONMember("due", .number("\(Double($0) / 1000)")) }
        let place = [JSONMember("list", .string(list)), JSONMember("position", .integer(position))]
        return .object(place + [due].compactMap(\.self) + [JSONMember("job", bytes: job)])
    }
}
