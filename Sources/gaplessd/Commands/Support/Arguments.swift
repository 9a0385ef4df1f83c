import ArgumentParser
import Glibc
import JSONBytes
import RedisQueue

/// The first argument of every call: the settings file.
struct SettingsArgument: ParsableArguments {
    /// The environment variable that names the settings file, and the file without it.
    private static let standard = (variable: "GAPLESSD_SETTINGS", path: "/etc/gaplessd/settings.json")

    @Argument(
        help: ArgumentHelp(
            "The settings file, a JSON object. Default: that of \(standard.variable), else \(standard.path).",
            valueName: "SETTINGS.json"),
        completion: .file(extensions: ["json"]))
    var given: String?

    var settings: String { given ?? Self.standardPath ?? "" }

    /// The file of a call without one; `nil` if there is none.
    static var standardPath: String? {
        if let path = unsafe getenv(standard.variable).map({ unsafe String(cString: $0) }), !path.isEmpty { return path }
        return unsafe access(standard.path, F_OK) == 0 ? standard.path : nil
    }

    func validate() throws {
        if given == nil, Self.standardPath == nil {
            throw ValidationError(
                "SETTINGS.json is missing: name the settings file, set \(Self.standard.variable), or create "
                    + "\(Self.standard.path).")
        }
    }

    /// Takes the given file for the first of `files`, which follow the settings, if it contains a job. Then the settings were
    /// left out.
    mutating func passOn(to files: inout [String]) {
        guard let given, Self.standardPath != nil, Self.containsJob(given) else { return }
        files.insert(given, at: 0)
        self.given = nil
    }

    /// Whether the first line of a file, or all of it, is an object with the key `data`, which is none of the settings.
    private static func containsJob(_ path: String) -> Bool {
        if path == "-" { return true }
        guard let bytes = try? FileBytes.read(path, atMost: 64 << 20).withoutByteOrderMark else { return false }
        let line = bytes.drop { $0 <= 0x20 }.prefix { $0 != 0x0A }
        return [Array(line), bytes].contains { text in (try? JSONValue.parse(text))?["data"] != nil }
    }

    /// Reads the settings without the credentials, for calls that use only Redis. Reports faults as `load` does.
    func loadSettings() throws -> Settings { try read().settings }

    /// Reads the settings and the names of the credential files. Reports faults as `load` does.
    func read() throws -> Configuration {
        do {
            return try Configuration.read(SettingsFile(path: settings))
        } catch {
            throw reported(error)
        }
    }

    /// Prints every fault on stderr, one per line, and returns the exit code.
    func reported(_ errors: SettingsErrors) -> ExitCode {
        StandardStreams.print(errors.lines, to: STDERR_FILENO)
        return .settingsFault
    }

    /// Reads the settings and credentials. Prints every fault on stderr, one per line, and then throws the exit code.
    ///
    /// - Parameters:
    ///   - holdsFaultyApps: as in `Configuration.load`.
    ///   - report: called before the faults are printed.
    func load(
        holdsFaultyApps: Bool = false, beforeFaults report: (SettingsErrors) -> Void = { _ in }
    ) throws -> Configuration {
        do {
            return try Configuration.load(SettingsFile(path: settings), holdsFaultyApps: holdsFaultyApps)
        } catch {
            report(error)
            throw reported(error)
        }
    }
}

extension Option {
    /// An optional option, whose value may begin with a hyphen.
    init<T: ExpressibleByArgument>(
        _ help: String, as valueName: String? = nil, name: NameSpecification = .long, completion: CompletionKind? = nil
    ) where Value == T? {
        self.init(name: name, parsing: .unconditional, help: ArgumentHelp(help, valueName: valueName), completion: completion)
    }
}

/// The option that selects one of the lists in `redis_queue_key`.
struct ListOption: ParsableArguments {
    @Option("Use only this list of redis_queue_key.", as: "NAME", completion: NameCompletion.lists) var list: String?

    /// Returns the selected list, or all lists.
    func lists(of settings: Settings, call: String) throws -> [String] {
        guard let list else { return settings.lists }
        guard settings.lists.contains(list) else {
            let known = settings.lists.map(\.printable).joined(separator: ", ")
            throw ExitCode.wrongUsage("--list: '\(list.printable)' is not in redis_queue_key (\(known)).", of: call)
        }
        return [list]
    }
}

extension Settings {
    /// The names of the apps, with that of the top level.
    var appNames: [String] { apps.map { $0.name ?? PauseNote.topLevel } }
}

/// The option that selects one of the apps in the settings.
struct AppOption: ParsableArguments {
    @Option(
        "Only the jobs of this app; '\(PauseNote.topLevel)' is the app of the top level.", as: "A",
        completion: NameCompletion.apps)
    var app: String?

    /// Throws if the settings have no such app.
    func check(in settings: Settings, call: String) throws {
        if let app, !isKnown(in: settings) { throw Self.unknown(app, in: settings, call: call) }
    }

    static func unknown(_ app: String, in settings: Settings, call: String) -> ExitCode {
        let known = settings.appNames.map(\.printable).joined(separator: ", ")
        return .wrongUsage("--app: '\(app.printable)' is not an app of the settings (\(known)).", of: call)
    }

    func isKnown(in settings: Settings) -> Bool { app.map(settings.appNames.contains) ?? true }

    /// Returns the apps that daemons have had, with their topics.
    ///
    /// - Throws: if they and the settings lack the app.
    func formerApps(
        _ settings: Settings, lists: [String], _ client: inout RedisClient, call: String
    ) throws -> [String: String] {
        var former: [String: String] = [:]
        for list in lists { former.merge(try AppRecords.read(Keys(list: list), &client)) { $1 } }
        if app.map({ former[$0] == nil }) ?? false { try check(in: settings, call: call) }
        return former
    }

    /// Returns the selection of the app's jobs; `nil` without the option. Reports an unknown app, and a certificate that cannot
    /// be read: its topics select apps.
    ///
    /// - Parameter former: apps that the settings do not have any more, with their topics.
    func selection(
        _ reading: Configuration, of file: SettingsArgument, former: [String: String] = [:], call: String
    ) throws -> AppSelection? {
        if former.isEmpty { try check(in: reading.settings, call: call) }
        guard let app else { return nil }
        let topics = AppTopics(reading.settings.apps)
        guard topics.faults.isEmpty else {
            throw file.reported(SettingsErrors(file: file.settings, faults: topics.faults))
        }
        var routes = topics.routes
        routes.remember(former)
        return AppSelection(app, routes)
    }
}

/// The option that selects one campaign to pause or to resume.
struct CampaignOption: ParsableArguments {
    @Option("Only the jobs of this campaign.", as: "ID", completion: NameCompletion.campaigns) var campaign: String?

    /// - Parameter app: the value of `--app`.
    func scope(besides app: String?, call: String) throws -> QueuePause.Scope {
        guard let campaign else { return app.map { .app($0) } ?? .list }
        if app != nil { throw ExitCode.wrongUsage("--app and --campaign exclude each other.", of: call) }
        guard (1...JobReader.longestCampaign).contains(campaign.utf8.count) else {
            throw ExitCode.wrongUsage("--campaign: expected 1 to \(JobReader.longestCampaign) bytes.", of: call)
        }
        return .campaign(campaign)
    }
}

/// A span of time on the command line: `30`, `90s`, `10m`, `2h` or `1d`.
struct SpanArgument: ExpressibleByArgument, Equatable {
    let duration: Duration

    /// The longest span: 100 years.
    private static let mostSeconds = 3_155_760_000.0

    init?(argument: String) {
        let units: [Character: Double] = ["s": 1, "m": 60, "h": 3600, "d": 86_400]
        let unit = argument.last.flatMap { units[$0] }
        let digits = unit == nil ? argument[...] : argument.dropLast()
        guard let first = digits.first, first.isASCII, first.isNumber, digits.allSatisfy({ "0123456789.".contains($0) }),
            let number = Double(digits)
        else { return nil }
        let seconds = number * (unit ?? 1)
        guard seconds > 0, seconds <= Self.mostSeconds else { return nil }
        duration = .seconds(seconds)
    }
}
