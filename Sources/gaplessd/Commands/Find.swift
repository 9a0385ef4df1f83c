import ArgumentParser
import JSONBytes
import RedisQueue

/// `gaplessd find`: prints the location of a push.
struct Find: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "find",
        abstract: "Prints the location of a push: waiting, in flight, delayed, dead or done.",
        discussion: """
            Searches the waiting, recovered, delayed and in-flight jobs, the dead letters, the feedback list and the stream of \
            results (redis_results_key), in this order, so that a job that moves on during the search is found later. \
            Exactly one of --token, --identifier, --apns-id, --trace and --campaign is required. A token is found in any case, \
            and also in "tokens". A step reads at most a thousand elements of a list, or a megabyte. The last line states how \
            much was searched.

            --json prints one object per line for each push: "list", "place", "position", "scope", "due", "worker", "id" (of the \
            result) and "job", "record" or "result"; and then one object with "found" and "searched".

            Exit status: 0 found, 1 not found, 64 wrong usage, 69 Redis did not respond, 78 a fault in the settings, or Redis \
            refused access.
            """)

    @OptionGroup var file: SettingsArgument
    @Option("A device token, or the channel of a broadcast.", as: "X") var token: String?
    @Option("The identifier of a job.", as: "X") var identifier: String?
    @Option("The apns-id of a push.", as: "X", name: .customLong("apns-id")) var apnsID: String?
    @Option("The trace of a job.", as: "X") var trace: String?
    @Option("The campaign of a job.", as: "X", completion: NameCompletion.campaigns) var campaign: String?
    @OptionGroup var place: ListOption
    @Flag(help: "Print JSON.") var json = false

    private var queries: [PushQuery] {
        let given: [(PushQuery.Key, String?)] = [
            (.token, token), (.identifier, identifier), (.apnsID, apnsID), (.trace, trace),
            (.campaign, campaign),
        ]
        return given.compactMap { key, value in value.map { PushQuery(key, $0) } }
    }

    func validate() throws {
        if queries.count != 1 {
            throw ValidationError("Exactly one of --token, --identifier, --apns-id, --trace and --campaign is required.")
        }
    }

    func run() throws {
        let settings = try file.loadSettings()
        let lists = try place.lists(of: settings, call: "find")
        var found = 0
        try RedisAccess.run(settings) { client in
            for (index, list) in lists.enumerated() {
                // All lists share the stream of results.
                let results = index == 0 ? settings.redis.resultsKey : nil
                found += try search(list, QueueScan(Keys(list: list), resultsKey: results), settings, &client)
            }
        }
        if found == 0 { throw ExitCode.failure }
    }

    private func search(
        _ list: String, _ scan: QueueScan, _ settings: Settings, _ client: inout RedisClient
    ) throws -> Int {
        let query = queries[0]
        var (found, isWritten) = (0, true)
        var searched: [(place: QueueScan.Place, count: Int)] = []
        for place in QueueScan.Place.allCases where isWritten {
            let count = try scan.read(place, &client) { page in
                let matching = page.filter(query.matches)
                found += matching.count
                let lines = matching.map { entry in
                    let line = FindLine(list: list, entry: entry)
                    return json ? line.object.line : line.text(settings.log.redaction)
                }
                if !lines.isEmpty { isWritten = StandardStreams.print(lines) }
                return isWritten
            }
            searched.append((place, count))
        }
        if json {
            let counts = searched.map { JSONMember($0.place.rawValue, .integer($0.count)) }
            StandardStreams.print(["list": .string(list), "found": .integer(found), "searched": .object(counts)])
        } else {
            let counts = searched.map { "\($0.place.words) \($0.count.grouped)" }.joined(separator: ", ")
            StandardStreams.print(["\(list.printable): \(found.grouped) found; searched: \(counts)"])
        }
        return found
    }
}

extension QueueScan.Place {
    /// `in flight`.
    var words: String { self == .inFlight ? "in flight" : rawValue }
}

/// The push that an operator looks for: one value of a job, a record or a result.
struct PushQuery: Equatable {
    enum Key: String {
        case token, identifier
        case apnsID = "apns_id"
        case trace, campaign
    }

    let key: Key
    private let value: String

    init(_ key: Key, _ value: String) {
        self.key = key
        // Tokens and ids are hex digits in any case.
        self.value = key == .token || key == .apnsID ? Job.bareToken(value).lowercased() : value
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
        case .campaign: return facts.campaign == value
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

/// Formats a push that `find` has found.
struct FindLine {
    var list: String
    var entry: QueueScan.Entry

    /// `apns_queue  waiting, position 12  ID 154  token 071c…  57 bytes`.
    func text(_ redaction: Redaction) -> String { "\(list)  \(location)  \(content(redaction))".printable }

    private var location: String {
        switch entry.place {
        case .waiting where entry.scope != nil: "waiting as the newest state"
        case .waiting, .recovered, .dead, .feedback: "\(entry.place.words), position \(entry.position ?? 0)"
        case .delayed: "delayed until \(LocalTime.zoned((entry.due ?? 0) / 1000))"
        case .inFlight: "in flight at worker \(entry.worker ?? "")"
        case .results: "result \(entry.stream ?? "")"
        }
    }

    private func content(_ redaction: Redaction) -> String {
        let bytes = entry.content.first ?? []
        switch entry.place {
        case .waiting, .recovered, .delayed, .inFlight:
            return JobLine(position: 0, due: nil, job: bytes).summary(redaction)
        case .dead: return DeadLetterLine.text((bytes, DeadLetter(record: bytes)), redaction)
        case .feedback: return FeedbackLine.text(bytes, redaction)
        case .results:
            return fields.filter { !$0.value.isEmpty }.map { name, value in
                "\(name) \(name == "token" ? redaction.token(value) : value)"
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
        if let scope = entry.scope { members.append(JSONMember("scope", .string(scope))) }
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
