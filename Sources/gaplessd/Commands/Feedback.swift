import ArgumentParser
import JSONBytes
import RedisQueue

/// `gaplessd feedback`: prints the feedback entries, and removes those that were printed.
struct Feedback: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "feedback",
        abstract: "Prints or takes the entries about unregistered and suspect tokens.",
        discussion: """
            list  prints one line for each entry, oldest first; with --json, the entries as JSON lines
            take  prints the entries as JSON lines and removes them; each leaves Redis only after its line was written

            If standard output is closed or cannot be written, 'take' stops, and the entries that were not written stay. After a \
            crash, or beside a second 'take', entries may be printed twice. Without --list, all lists are read.

            Exit status: 0 success, 64 wrong usage, 69 Redis did not respond, 78 a fault in the settings, or Redis refused \
            access; 1 standard output could not be written. 'list' into a closed pipe is a success.
            """)

    enum Action: String, ExpressibleByArgument, CaseIterable {
        case list, take
    }

    @OptionGroup var file: SettingsArgument

    @Argument(help: ArgumentHelp("The action: list or take.", valueName: "ACTION"))
    var action: Action

    @Option("At most N entries, oldest first.", as: "N") var limit: Int?
    @OptionGroup var place: ListOption
    @Flag(help: "Print JSON; 'take' always does.") var json = false

    func validate() throws {
        if let limit, limit < 1 { throw ValidationError("--limit must be at least 1.") }
    }

    func run() throws {
        let settings = try file.loadSettings()
        let lists = try place.lists(of: settings, call: "feedback")
        try RedisAccess.run(settings) { client in
            var (left, isWritten) = (limit ?? .max, true)
            for list in lists where left > 0 && isWritten {
                let entries = FeedbackList(Keys(list: list))
                var walk = PagedWalk(restFactor: 0)
                try walk.read(
                    &client,
                    page: { (index, client) throws(RedisError) in
                        // Printed entries are removed: the next ones are at the beginning.
                        try entries.page(from: action == .take ? 0 : index, most: min(left, FeedbackList.mostEntries), &client)
                    },
                    { (page, client) throws(RedisError) in
                        let isText = action == .list && !json
                        isWritten = StandardStreams.print(
                            page.map { isText ? FeedbackLine.text($0, settings.log.redaction) : FeedbackLine.json($0) })
                        if !isWritten { return false }
                        // 0: the list has changed, for example another 'take' was faster.
                        if action == .take { _ = try entries.remove(page, &client) }
                        left -= page.count
                        return left > 0
                    })
            }
            if !isWritten, let status = StandardStreams.lostOutput(allowsClosedPipe: action == .list) { throw status }
        }
    }
}

/// Formats an entry of the feedback list.
enum FeedbackLine {
    /// `410 Unregistered  dead  token 071c…  topic com.example.app  ID 154`.
    static func text(_ entry: [UInt8], _ redaction: Redaction) -> String {
        guard let record = try? JSONValue.parse(entry), case .object = record else {
            return "unreadable, \(entry.count.counted("byte"))"
        }
        func text(_ key: String) -> String? {
            switch record[key] {
            case .string(let text): text
            case .number(let digits): digits
            default: nil
            }
        }
        let status = [text("status"), text("reason")].compactMap(\.self).joined(separator: " ")
        let parts: [String?] = [
            status, text("verdict"), text("token").map { "token \(redaction.token($0))" }, text("topic").map { "topic \($0)" },
            text("identifier").map { "ID \($0)" },
        ]
        return parts.compactMap(\.self).joined(separator: "  ").printable
    }

    static func json(_ entry: [UInt8]) -> String {
        JSONValue.line(of: entry, isReadable: (try? JSONValue.parse(entry)) != nil)
    }
}
