internal import JSONBytes

/// Finds what APNs accepts in a payload and producers rarely mean. Calls search every payload; the daemon only one that
/// `Job.hasMistake` marks.
enum PayloadMistakes {
    /// Keys of `aps` with hyphens ("Generating a remote notification").
    private static let hyphenated: Set<String> = [
        "content-available", "mutable-content", "thread-id", "target-content-id", "interruption-level", "relevance-score",
        "content-state", "stale-date", "dismissal-date", "attributes-type", "filter-criteria",
    ]
    /// Keys that APNs reads in `aps` only.
    private static let keysOfAPS: Set<String> = ["alert", "badge", "sound", "content-available", "mutable-content", "category"]

    /// One sentence for each mistake in the payload of a valid job.
    static func find(in job: borrowing Job) -> [String] {
        guard let payload = try? JSONValue.parse(Array(job.bytes[job.data])), case .object(let members) = payload else {
            return []
        }
        guard case .object(let aps) = payload["aps"] else {
            let stray = members.map(\.key).filter(keysOfAPS.contains)
            if stray.count < 2 { return stray.map { "\($0) belongs in aps" } }
            return ["\(stray.joined(separator: " and ")): these belong in aps"]
        }
        var found: [String] = []
        for member in aps where member.key.contains("_") {
            let name = String(member.key.map { $0 == "_" ? "-" : $0 })
            if hyphenated.contains(name) { found.append("\(member.key) is not a key of aps; it is \(name)") }
        }
        let available = payload["aps"]?["content-available"]
        switch available {
        case nil, .number("1"), .number("0"), .bool(false), .bool(true), .null: break
        default: found.append("content-available is not the number 1, so that the push is not a background push")
        }
        let isBackgroundMeant = available == .number("1") || available == .bool(true)
        if isBackgroundMeant, payload["aps"]?["sound"] == .string("") {
            found.append("sound is empty: leave it out of a background push, because with it the push is an alert")
        }
        let alert = payload["aps"]?["alert"]
        if isBackgroundMeant, alert == .object([]) || alert == .string("") {
            found.append("alert is empty: leave it out of a background push, because with it the push is an alert")
        } else if alert == .object([]) {
            found.append("alert is empty, so that the push shows no text")
        }
        return found
    }
}

extension Job {
    /// Hints at what is valid and rarely meant, for calls that show or take a job.
    var hints: [String] { [notBeforeHint, expiryHint?.text].compactMap(\.self) + PayloadMistakes.find(in: self) }
}
