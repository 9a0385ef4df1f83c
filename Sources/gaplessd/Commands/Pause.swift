import ArgumentParser
import Glibc
import JSONBytes
import RedisQueue

/// `gaplessd pause`: stops the claims of all daemons of the lists.
struct Pause: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pause",
        abstract: "Pauses the lists, one app or one campaign: no daemon claims their jobs.",
        discussion: """
            The pause is stored in Redis: it survives restarts, and every daemon obeys with its next claim or heartbeat. \
            Requests on the wire complete; claimed jobs that were not sent return to the list. \
            'gaplessd resume' ends the pause. A second pause of the same app, campaign or list replaces the first one. \
            --campaign pauses the jobs whose key campaign has this value: they wait aside, in their order, and the other jobs \
            pass them.

            --for accepts seconds, or a number with s, m, h or d: 90s, 10m, 2h, 1d. Without it, the pause has no end. Without \
            --list, all lists are paused.

            --json prints one object for each list: the pause as 'status --json' has it under "paused".

            Exit status: 0 success, 64 wrong usage, 69 Redis did not respond, 78 a fault in the settings, or Redis refused access.
            """)

    @OptionGroup var file: SettingsArgument
    @OptionGroup var which: AppOption
    @OptionGroup var campaign: CampaignOption

    @Option(name: .customLong("for"), help: ArgumentHelp("Resume after this time: 30, 90s, 10m, 2h or 1d.", valueName: "D"))
    var span: SpanArgument?

    @Option("The reason, for the log and the status.", as: "TEXT") var reason: String?
    @OptionGroup var place: ListOption
    @Flag(help: "Print JSON.") var json = false

    func run() throws {
        let settings = try file.loadSettings()
        let lists = try place.lists(of: settings, call: "pause")
        try which.check(in: settings, call: "pause")
        let scope = try campaign.scope(besides: which.app, call: "pause")
        try RedisAccess.run(settings) { client in
            for list in lists {
                let pauses = PauseList(Keys(list: list))
                let pause = try pauses.pause(scope, for: span?.duration, details: Self.details(reason: reason), &client)
                let note = PauseNote(pause)
                StandardStreams.print([json ? note.object(list: list).line : "\(list): \(note.scopedSentence)".printable])
            }
        }
    }

    /// The members of the record after the times.
    static func details(reason: String?) -> [UInt8] {
        var bytes: [UInt8] = []
        for (key, value) in [("reason", reason), ("by", user)] {
            guard let value else { continue }
            bytes += Array(", ".utf8)
            bytes.appendJSONString(key)
            bytes += Array(": ".utf8)
            bytes.appendJSONString(value)
        }
        return bytes
    }

    /// `root@host`: the login name, or else the number of the user.
    private static var user: String {
        var name = [CChar](repeating: 0, count: 256)
        let host = unsafe gethostname(&name, name.count - 1) == 0 ? text(name) : "unknown"
        var entry = unsafe passwd()
        var found: UnsafeMutablePointer<passwd>?
        var memory = [CChar](repeating: 0, count: 4096)
        let isKnown = unsafe getpwuid_r(geteuid(), &entry, &memory, memory.count, &found) == 0 && found != nil
        let user = unsafe isKnown ? String(cString: entry.pw_name) : "\(geteuid())"
        return "\(user)@\(host)"
    }

    private static func text(_ characters: [CChar]) -> String {
        String(decoding: characters.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
}

extension PauseNote {
    /// The pause for `status` and `audit`. Times are Unix seconds.
    func object(list: String) -> JSONValue {
        .members([
            "list": .string(list), "app": .optional(app), "campaign": .optional(campaign),
            "until": until.map { .integer($0 / 1000) } ?? .null,
            "since": since.map { .integer($0 / 1000) } ?? .null, "reason": .optional(reason), "by": .optional(by),
        ])
    }
}
