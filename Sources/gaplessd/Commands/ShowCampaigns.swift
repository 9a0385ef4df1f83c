import ArgumentParser
import Platform
import RedisQueue

/// `gaplessd campaign`: shows the campaigns.
struct ShowCampaigns: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "campaign",
        abstract: "Shows the campaigns: audience, sent, dead, remaining, rate and expected end. Reads only Redis.",
        discussion: """
            list     prints one line for each campaign: those that have not ended, the oldest first, and then those that ended \
            within a day, the newest first
            show ID  prints the figures of one campaign

            A campaign begins when a daemon claims a job with 'tokens_from'. Its state is running, paused or ended. 'gaplessd \
            pause', 'resume' and 'cancel' with --campaign ID stop it, continue it, and take its unsent tokens away.

            "remaining" are the tokens without a final outcome, those that wait for a retry included. "rate" is the number of \
            outcomes per second over the last seconds, and "expected end" follows from it, or from 'over'.

            --watch prints a new reading every second, until Ctrl-C; with 'show', until the campaign has ended. --json prints \
            one object per line for each campaign: "campaign", "list", "state", "paused", "audience", "waiting", "sent", "dead", \
            "dead_reasons", "expired", "retried", "cancelled", "remaining", "rate", "expected_end", "created", "ended" (Unix \
            seconds), "over" (seconds), "stop_at", "failures" and "outcomes" (of the last \(Campaign.window) pushes).

            Exit status: 0 success, 1 there is no such campaign, 64 wrong usage, 69 Redis did not respond, 78 a fault in the \
            settings, or Redis refused access.
            """)

    enum Action: String, ExpressibleByArgument, CaseIterable {
        case list, show
    }

    @OptionGroup var file: SettingsArgument

    @Argument(help: ArgumentHelp("The action: list or show.", valueName: "ACTION"))
    var action: Action

    @Argument(help: ArgumentHelp("With 'show', the campaign.", valueName: "ID"), completion: NameCompletion.campaigns)
    var id: String?

    @OptionGroup var place: ListOption
    @Flag(help: "Print JSON.") var json = false
    @Flag(help: "Print a new reading every second until Ctrl-C.") var watch = false

    /// Campaigns that `list` prints.
    private static let mostListed = 1000

    func validate() throws {
        if action == .show, id == nil { throw ValidationError("'show' needs the campaign.") }
        if action == .list, id != nil { throw ValidationError("A campaign is an argument of 'show'.") }
    }

    func run() throws {
        let settings = try file.loadSettings()
        let lists = try place.lists(of: settings, call: "campaign")
        if !watch { return try RedisAccess.run(settings) { _ = try show(lists, &$0) } }
        var signals = try SignalInbox()
        var client = try RedisAccess.open(settings)
        repeat {
            let due = Instant.now + .seconds(1)
            if try !show(lists, &client) || signals.stops(before: due) { return }
        } while true
    }

    /// Prints one reading. Returns whether another one may differ.
    private func show(_ lists: [String], _ client: inout RedisClient) throws -> Bool {
        let found = try read(lists, &client)
        if let id, found.isEmpty {
            throw ExitCode.failure.because("There is no campaign \(id.printable).")
        }
        let lines = found.flatMap { json ? [$0.object.line] : action == .show ? $0.lines : [$0.line] }
        let isWritten = StandardStreams.print(lines.isEmpty && !json ? ["There are no campaigns."] : lines)
        return isWritten && (id == nil || found.contains { $0.state != .ended })
    }

    private func read(_ lists: [String], _ client: inout RedisClient) throws(RedisError) -> [CampaignReport] {
        var all: [CampaignReport] = []
        for list in lists {
            let keys = Keys(list: list)
            let pauses = try PauseList(keys).read(&client)
            let campaigns: [CampaignStatus]
            if let id {
                campaigns = [try CampaignList(keys).status(of: id, &client)].compactMap(\.self)
            } else {
                campaigns = try CampaignList(keys).read(most: Self.mostListed, &client)
            }
            all += campaigns.map { CampaignReport($0, list: list, pauses) }
        }
        return all
    }
}
