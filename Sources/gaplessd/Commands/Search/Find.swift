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
            Exactly one of --token, --identifier, --apns-id and --trace is required. A token is found in any case, and also in \
            "tokens". A step reads at most a thousand elements of a list, or a megabyte. The last line states how much was \
            searched.

            --json prints one object per line for each push: "list", "place", "position", "due", "worker", "id" (of the \
            result) and "job", "record" or "result"; and then one object with "found" and "searched".

            Exit status: 0 found, 1 not found, 64 wrong usage, 69 Redis did not respond, 78 a fault in the settings, or Redis \
            refused access.
            """)

    @OptionGroup var file: SettingsArgument

    @Option(parsing: .unconditional, help: ArgumentHelp("A device token, or the channel of a broadcast.", valueName: "X"))
    var token: String?

    @Option(parsing: .unconditional, help: ArgumentHelp("The identifier of a job.", valueName: "X"))
    var identifier: String?

    @Option(name: .customLong("apns-id"), parsing: .unconditional, help: ArgumentHelp("The apns-id of a push.", valueName: "X"))
    var apnsID: String?

    @Option(parsing: .unconditional, help: ArgumentHelp("The trace of a job.", valueName: "X"))
    var trace: String?

    @OptionGroup var place: ListOption

    @Flag(help: "Print JSON.")
    var json = false

    private var queries: [PushQuery] {
        let given: [(PushQuery.Key, String?)] = [
            (.token, token), (.identifier, identifier), (.apnsID, apnsID), (.trace, trace),
        ]
        return given.compactMap { key, value in value.map { PushQuery(key, $0) } }
    }

    func validate() throws {
        if queries.count != 1 {
            throw ValidationError("Exactly one of --token, --identifier, --apns-id and --trace is required.")
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
                    return json ? line.object.line : line.text(redacts: settings.log.redacts)
                }
                if !lines.isEmpty { isWritten = StandardStreams.print(lines) }
                return isWritten
            }
            searched.append((place, count))
        }
        if json {
            let counts = searched.map { JSONMember(key: $0.place.rawValue, value: .integer($0.count), offset: 0) }
            let summary: JSONValue = .members([
                "list": .string(list), "found": .integer(found), "searched": .object(counts),
            ])
            StandardStreams.print([summary.line])
        } else {
            let counts = searched.map { "\($0.place.words) \($0.count)" }.joined(separator: ", ")
            StandardStreams.print(["\(list.printable): \(found) found; searched: \(counts)"])
        }
        return found
    }
}

extension QueueScan.Place {
    /// `in flight`.
    var words: String { self == .inFlight ? "in flight" : rawValue }
}
