import ArgumentParser
import Glibc
import JSONBytes
import Platform
import PushPool
import RedisQueue

/// `gaplessd channel`: creates, lists and deletes broadcast channels at APNs.
struct Channel: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "channel",
        abstract: "Creates, lists and deletes broadcast channels at APNs, and compares them with the record in Redis.",
        discussion: """
            create  creates the channel NAME and records it; --storage is none or latest (default: that of 'channels', else none)
            show    prints the record of NAME, and whether APNs has the channel with the same storage
            list    prints all channels: those with a record, and those that APNs alone has
            delete  deletes the channel NAME at APNs and its record; asks for confirmation on a terminal, unless --yes is given
            sweep   prints what can be deleted, and deletes it with --yes:
                      ended      channels after their end and the time of delete_after_end, or --older
                      forgotten  channels without an end that are older than --older (default: 30d)
                      missing    records of channels that APNs does not have
                      unknown    channels at APNs without a record, only with --unknown: other programs may use them

            Without --app, create, show and delete use the app of the top level, or the only app; list and sweep use all apps. \
            The calls go to apns_management_server with the credential of the app, through apns_proxy. The record is the hash \
            '{LIST}:gapless:channels' of the first list.

            --json prints the record with "state" (active, ended, missing or unknown), 'list' one on each line. 'sweep' prints \
            one object: "ended", "forgotten", "missing" and "unknown" (arrays of channels), "unknown_count", and "deleted".

            Exit status: 0 success, 64 wrong usage, 69 Redis or APNs did not respond or failed TLS, 78 a fault in the settings \
            or credentials, or Redis refused access; 1 APNs refused a call, the name exists already ('create') or does not \
            exist ('show', 'delete'), or the deletion was not confirmed.
            """)

    enum Action: String, ExpressibleByArgument, CaseIterable {
        case create, show, list, delete, sweep

        var needsName: Bool { self == .create || self == .show || self == .delete }
    }

    @OptionGroup var file: SettingsArgument

    @Argument(help: ArgumentHelp("The action: create, show, list, delete or sweep.", valueName: "ACTION"))
    var action: Action

    @Argument(help: ArgumentHelp("The name of the channel, with 'create', 'show' and 'delete'.", valueName: "NAME"))
    var name: String?

    @Option("Name of an app in the settings; '\(PauseNote.topLevel)' is the top level.", as: "A", completion: NameCompletion.apps)
    var app: String?

    @Option(help: ArgumentHelp("With 'create': none or latest.", valueName: "S"))
    var storage: ChannelCall.Storage?

    @Option(help: ArgumentHelp("With 'list' and 'sweep', only older channels: 90s, 10m, 2h or 1d.", valueName: "D"))
    var older: SpanArgument?

    @Flag(help: "With 'sweep', also the channels at APNs without a record.") var unknown = false
    @Flag(help: "Delete: 'sweep' then deletes, and 'delete' does not ask.") var yes = false
    @Flag(help: "Print JSON.") var json = false

    func validate() throws {
        if action.needsName {
            guard let name else { throw ValidationError("'\(action.rawValue)' requires the NAME of the channel.") }
            let isValid =
                (1...ChannelName.longest).contains(name.utf8.count) && name.utf8.first != 0x20 && name.utf8.last != 0x20
                && !name.unicodeScalars.contains(where: \.isControl)
            guard isValid else {
                throw ValidationError(
                    "NAME has 1 to \(ChannelName.longest) bytes, no control character and no space at either end.")
            }
        } else if name != nil {
            throw ValidationError("'\(action.rawValue)' takes no NAME.")
        }
        if storage != nil, action != .create { throw ValidationError("--storage is an option of 'create'.") }
        if older != nil, action != .list, action != .sweep {
            throw ValidationError("--older is an option of 'list' and 'sweep'.")
        }
        if unknown, action != .sweep { throw ValidationError("--unknown is an option of 'sweep'.") }
        if yes, action != .sweep, action != .delete { throw ValidationError("--yes is an option of 'delete' and 'sweep'.") }
    }

    func run() throws {
        let configuration = try file.load()
        let settings = configuration.settings
        let apps = try apps(of: settings)
        let records = ChannelRecords(Keys(list: settings.lists[0]))
        try RedisAccess.run(settings) { client in
            do {
                switch action {
                case .create: try create(in: apps[0], settings, records, &client)
                case .show: try show(in: apps[0], records, &client)
                case .list: try list(apps, records, &client)
                case .delete: try delete(in: apps[0], records, &client)
                case .sweep: try sweep(apps, settings, records, &client)
                }
            } catch let failure as ChannelCall.Failure {
                let code: ExitCode = if case .rejected = failure { .failure } else { .serviceUnavailable }
                throw code.because("apns: \(failure.description.printable)")
            }
        }
    }

    /// The apps whose channels are meant: one, except for `list` and `sweep`.
    private func apps(of settings: Settings) throws -> [Settings.App] {
        if let app {
            guard let index = settings.appNames.firstIndex(of: app) else {
                throw AppOption.unknown(app, in: settings, call: "channel")
            }
            return [settings.apps[index]]
        }
        if !action.needsName { return settings.apps }
        if let top = settings.apps.first(where: { $0.name == nil }) { return [top] }
        guard settings.apps.count == 1 else {
            throw ExitCode.wrongUsage("--app is required: the settings have no top-level credential.", of: "channel")
        }
        return settings.apps
    }

    private func name(in app: Settings.App) -> ChannelName { ChannelName(app: app.name ?? "", name: name ?? "") }

    private func refuse(_ text: String) -> ExitCode { .failure.because(text.printable) }

    private func print(_ channel: ListedChannel) { StandardStreams.print([json ? channel.object.line : channel.line]) }

    // MARK: Actions

    private func create(
        in app: Settings.App, _ settings: Settings, _ records: ChannelRecords, _ client: inout RedisClient
    ) throws {
        let name = name(in: app)
        try checkFree(try ChannelEntry.read(name, records, &client), in: app)
        guard try records.beginCreation(name.fields[1], for: app.channelLease, &client) == .own else {
            throw refuse("Another process is creating the channel \(name.text), or died doing so; try again in a minute.")
        }
        var entry = try ChannelEntry.read(name, records, &client)
        try checkFree(entry, in: app)
        let storage = storage ?? settings.channelRule(of: name.name)?.storage ?? .none
        let session = ManagementClient(app)
        let made = session.create(storage)
        if case .failure = made { try records.endCreation(name.fields[1], &client) }
        let id = try made.get()
        let record = ChannelRecord(
            name, id: id, storage: storage, environment: app.environment, created: WallClock.now().unixSeconds)
        while try !records.make(entry.change(to: record), &client) {
            entry = try ChannelEntry.read(name, records, &client)
            if entry.record(in: app.environment) != nil { try session.delete(id) }
            try checkFree(entry, in: app)
        }
        print(ListedChannel(record: record, id: id, state: .active))
    }

    private func checkFree(_ entry: ChannelEntry, in app: Settings.App) throws {
        guard let record = entry.record(in: app.environment) else { return }
        throw refuse("Channel \(record.name.text) exists already: \(record.id).")
    }

    private func known(
        in app: Settings.App, _ records: ChannelRecords, _ client: inout RedisClient
    ) throws -> (entry: ChannelEntry, record: ChannelRecord) {
        let name = name(in: app)
        let entry = try ChannelEntry.read(name, records, &client)
        guard let record = entry.record else { throw refuse("There is no record of the channel \(name.text).") }
        guard record.environment == app.environment else {
            throw refuse("Channel \(name.text) is one of \(record.environment), and the app uses \(app.environment).")
        }
        return (entry, record)
    }

    private func show(in app: Settings.App, _ records: ChannelRecords, _ client: inout RedisClient) throws {
        let record = try known(in: app, records, &client).record
        let storage = try ManagementClient(app).storage(of: record.id)
        if let storage, storage != record.storage {
            StandardStreams.print(
                ["warning: the record has the storage \(record.storage.rawValue), and APNs \(storage.rawValue)"],
                to: STDERR_FILENO)
        }
        print(ListedChannel(record: record, id: record.id, state: storage == nil ? .missing : .init(record)))
    }

    private func list(_ apps: [Settings.App], _ records: ChannelRecords, _ client: inout RedisClient) throws {
        let before = older.map { WallClock.now().unixSeconds - $0.seconds }
        var count = 0
        for app in apps {
            let comparison = try ChannelComparison(app, ManagementClient(app), records, &client)
            for channel in comparison.channels where before.map({ channel.isOlder(than: $0) }) ?? true {
                print(channel)
                count += 1
            }
        }
        if count == 0, !json { StandardStreams.print(["0 channels"], to: STDERR_FILENO) }
    }

    private func delete(in app: Settings.App, _ records: ChannelRecords, _ client: inout RedisClient) throws {
        let (entry, record) = try known(in: app, records, &client)
        if !yes {
            try Confirmation.ask(
                "Delete the channel \(record.name.text) and its subscriptions permanently?", refusal: "Nothing was deleted.")
        }
        try ManagementClient(app).delete(record.id)
        guard try records.make(entry.change(to: nil), &client) else {
            throw refuse("The channel \(record.id) is deleted, but its record has changed meanwhile.")
        }
        if json {
            StandardStreams.print(["deleted": .integer(1)])
        } else {
            StandardStreams.print(["1 deleted"])
        }
    }

    private func sweep(
        _ apps: [Settings.App], _ settings: Settings, _ records: ChannelRecords, _ client: inout RedisClient
    ) throws {
        var plan = ChannelSweep(older: older.map(\.seconds), now: WallClock.now().unixSeconds)
        for app in apps {
            let management = ManagementClient(app)
            plan.add(try ChannelComparison(app, management, records, &client), of: management) {
                settings.channelRule(of: $0)?.deleteAfterEnd.map { Int64($0 / .seconds(1)) }
            }
        }
        if !json { StandardStreams.print(plan.lines(unknown: unknown)) }
        var deleted = 0
        for item in plan.items where yes && (unknown || item.channel.state != .unknown) {
            if item.channel.state != .missing { try item.management.delete(item.channel.id) }
            guard let record = item.channel.record else {
                deleted += 1
                continue
            }
            // The record may have changed meanwhile: then it is that of another channel.
            let entry = try ChannelEntry.read(record.name, records, &client)
            if entry.record?.id == record.id, try records.make(entry.change(to: nil), &client) { deleted += 1 }
        }
        if json {
            StandardStreams.print([plan.object(unknown: unknown, deleted: deleted).line])
        } else if yes {
            StandardStreams.print(["\(deleted) deleted"])
        }
    }
}

extension ChannelCall.Storage: ExpressibleByArgument {}

extension SpanArgument {
    fileprivate var seconds: Int64 { Int64(min(duration / .seconds(1), 1e12)) }
}

/// A session to the management API of an app, for a command: opened by the first call, and kept for the others.
final class ManagementClient {
    private let app: Settings.App
    private var session: SingleSession?
    private var calls: UInt64 = 0

    init(_ app: Settings.App) { self.app = app }

    deinit { session?.close() }

    func run(_ action: ChannelCall.Action) throws(ChannelCall.Failure) -> ChannelCall.Reply {
        guard let topic = app.defaultTopic, let call = ChannelCall(action, topic: topic) else {
            throw .notProcessed("the app has no bundle ID as its topic")
        }
        let session = try open()
        calls += 1
        let outcome: Outcome?
        do throws(SingleSession.End) {
            outcome = try session.outcome(of: call.request(id: calls))
        } catch {
            throw .maybeProcessed("\(error.address): \(error.fault.logText)")
        }
        guard let outcome else { throw .maybeProcessed("\(app.management.text): no response in time") }
        return try call.reply(outcome)
    }

    private func open() throws(ChannelCall.Failure) -> SingleSession {
        if let session { return session }
        let new: SingleSession
        do {
            new = try SingleSession(app, at: app.managementPool)
        } catch {
            throw .notProcessed(error.reason)
        }
        session = new
        switch new.opening() {
        case .opened: return new
        case .ended(let address, let fault): throw .notProcessed("\(address): \(fault.logText)")
        case nil: throw .notProcessed("\(app.management.text): no session in time")
        }
    }

    func create(_ storage: ChannelCall.Storage) -> Result<String, ChannelCall.Failure> {
        Result { () throws(ChannelCall.Failure) in
            guard case .created(let id) = try run(.create(storage)) else { throw .malformed("no channel") }
            return id
        }
    }

    /// `nil` if APNs has no such channel.
    func storage(of id: String) throws(ChannelCall.Failure) -> ChannelCall.Storage? {
        do throws(ChannelCall.Failure) {
            guard case .found(let storage) = try run(.read(id)) else { throw .malformed("no storage policy") }
            return storage
        } catch  where error.isMissing {
            return nil
        }
    }

    /// A channel that APNs does not have is deleted.
    func delete(_ id: String) throws(ChannelCall.Failure) {
        do throws(ChannelCall.Failure) {
            _ = try run(.delete(id))
        } catch  where error.isMissing {
            return
        }
    }
}

/// A channel with a record, at APNs, or both.
struct ListedChannel: Equatable {
    enum State: String {
        case active, ended
        /// APNs does not have it.
        case missing
        /// It has no record.
        case unknown

        init(_ record: ChannelRecord) { self = record.ended == nil ? .active : .ended }
    }

    var record: ChannelRecord?
    var id: String
    var state: State

    /// - Parameter time: Unix seconds. Apple tells no age: a channel without a record is not older.
    func isOlder(than time: Int64) -> Bool { record.map { ($0.ended ?? $0.created) < time } ?? false }

    var line: String {
        guard let record else { return "\(id)  unknown: no record" }
        let parts = [
            record.name.name, record.name.app.isEmpty ? nil : "app \(record.name.app)", id, state.rawValue,
            "storage \(record.storage.rawValue)", record.environment, "created \(LocalTime.zoned(record.created))",
            record.ended.map { "ended \(LocalTime.zoned($0))" },
        ]
        return parts.compactMap(\.self).joined(separator: "  ").printable
    }

    var object: JSONValue {
        guard case .object(let members) = record?.json else {
            return .members(["id": .string(id), "state": .string(state.rawValue)])
        }
        return .object(members + [JSONMember("state", .string(state.rawValue))])
    }
}

/// The channels of one app at APNs, compared with the records.
struct ChannelComparison {
    /// Records first.
    let channels: [ListedChannel]

    /// - Parameters:
    ///   - records: of the app and its environment, as read before the list of APNs.
    ///   - later: the ids of all records as read after it. A channel that is created meanwhile is in one of them.
    init(records: [ChannelRecord], atAPNs: [String], later: Set<String>) {
        let present = Set(atAPNs)
        let known = records.filter { later.contains($0.id) }.map { record in
            ListedChannel(
                record: record, id: record.id, state: present.contains(record.id) ? .init(record) : .missing)
        }
        channels =
            known.sorted { ($0.record?.created ?? 0, $0.id) < ($1.record?.created ?? 0, $1.id) }
            + atAPNs.filter { !later.contains($0) }.sorted().map { ListedChannel(record: nil, id: $0, state: .unknown) }
    }

    /// The time between two looks for the end of creations.
    private static let pause = Duration.milliseconds(500)

    /// Reads the records, then the list of APNs, then the records again. A channel has no record while it is being created: the
    /// list counts only if no creation was in progress after it.
    init(
        _ app: Settings.App, _ management: ManagementClient, _ records: ChannelRecords, _ client: inout RedisClient
    ) throws {
        let deadline = Instant.now + Settings.App.longestChannelLease + .seconds(1)
        while true {
            let before = try records.all(&client).compactMap { ChannelRecord($0.record) }
            guard case .list(let ids) = try management.run(.list) else { throw ChannelCall.Failure.malformed("no list") }
            if try records.creations(&client) > 0, .now < deadline {
                Poller.sleep(Self.pause)
                continue
            }
            let later = try records.all(&client).compactMap { ChannelRecord($0.record) }
            let own = before.filter { $0.name.app == (app.name ?? "") && $0.environment == app.environment }
            self.init(records: own, atAPNs: ids, later: Set(later.map(\.id)))
            return
        }
    }
}

/// The channels that can be deleted.
struct ChannelSweep {
    /// Seconds after which a channel without an end counts as forgotten. An activity ends after 8 hours at the latest.
    static let forgottenAfter: Int64 = 30 * 86_400

    private let older: Int64?
    private let now: Int64
    private(set) var items: [(channel: ListedChannel, management: ManagementClient, reason: String)] = []

    /// - Parameters:
    ///   - older: seconds, instead of the usual times.
    ///   - now: Unix seconds.
    init(older: Int64?, now: Int64) { (self.older, self.now) = (older, now) }

    /// - Parameter deleteAfterEnd: the seconds that a name's rule gives a channel after its end.
    mutating func add(_ comparison: ChannelComparison, of management: ManagementClient, deleteAfterEnd: (String) -> Int64?) {
        for channel in comparison.channels {
            switch channel.state {
            case .missing: items.append((channel, management, "missing"))
            case .unknown: items.append((channel, management, "unknown"))
            case .ended:
                let wait = older ?? channel.record.flatMap { deleteAfterEnd($0.name.name) } ?? 0
                if (channel.record?.ended ?? now) <= now - wait { items.append((channel, management, "ended")) }
            case .active:
                if (channel.record?.created ?? now) <= now - (older ?? Self.forgottenAfter) {
                    items.append((channel, management, "forgotten"))
                }
            }
        }
    }

    private func channels(_ reason: String) -> [ListedChannel] { items.filter { $0.reason == reason }.map(\.channel) }

    func lines(unknown: Bool) -> [String] {
        var lines = items.filter { unknown || $0.reason != "unknown" }.map { "\($0.reason.padded(to: 10))\($0.channel.line)" }
        let hidden = unknown ? 0 : channels("unknown").count
        if hidden > 0 { lines.append("\(hidden.counted("channel")) at APNs without a record; --unknown includes them") }
        return lines.isEmpty ? ["nothing to delete"] : lines
    }

    func object(unknown: Bool, deleted: Int) -> JSONValue {
        func array(_ reason: String) -> JSONValue { .array(channels(reason).map(\.object)) }
        return .members([
            "ended": array("ended"), "forgotten": array("forgotten"), "missing": array("missing"),
            "unknown": unknown ? array("unknown") : .array([]), "unknown_count": .integer(channels("unknown").count),
            "deleted": .integer(deleted),
        ])
    }
}
