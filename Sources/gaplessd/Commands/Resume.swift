import ArgumentParser
import JSONBytes
import RedisQueue

/// `gaplessd resume`: ends a pause.
struct Resume: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resume",
        abstract: "Ends a pause of the lists, of one app or of one campaign.",
        discussion: """
            The daemons claim again within a second. Without --app and --campaign, the pause of the whole list ends, and the \
            other pauses stay: the call prints them. Without --list, it concerns all lists.

            --json prints one object for each list: "list", "app", "resumed" (whether it was paused) and "paused" (the pauses \
            that are left).

            Exit status: 0 success, also if nothing was paused; 64 wrong usage, 69 Redis did not respond, 78 a fault in the \
            settings, or Redis refused access.
            """)

    @OptionGroup var file: SettingsArgument

    /// Not checked against the settings: a pause of an app that was removed from them can still be ended.
    @OptionGroup var which: AppOption
    @OptionGroup var campaign: CampaignOption
    @OptionGroup var place: ListOption
    @Flag(help: "Print JSON.") var json = false

    func run() throws {
        let settings = try file.loadSettings()
        let lists = try place.lists(of: settings, call: "resume")
        let scope = try campaign.scope(besides: which.app, call: "resume")
        try RedisAccess.run(settings) { client in
            for list in lists {
                let pauses = PauseList(Keys(list: list))
                let wasPaused = try pauses.resume(scope, &client)
                let left = try pauses.read(&client).map(PauseNote.init)
                if json {
                    StandardStreams.print([
                        "list": .string(list), "app": .optional(which.app), "campaign": .optional(campaign.campaign),
                        "resumed": .bool(wasPaused), "paused": .array(left.map { $0.object(list: list) }),
                    ])
                    continue
                }
                let rest = left.map { "  still \($0.scopedSentence)".printable }
                let name = which.app.map { "app \($0): " } ?? campaign.campaign.map { "campaign \($0): " } ?? ""
                let line = "\(list): \(name)\(wasPaused ? "resumed" : "was not paused")".printable
                StandardStreams.print([line] + rest)
            }
        }
    }
}
