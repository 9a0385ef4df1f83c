import ArgumentParser
import Glibc
import JSONBytes

/// One push, to see whether a credential, a topic and a token fit together.
struct Send: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "send",
        abstract: "Sends one push straight to APNs, without Redis.",
        discussion: """
            The push obeys the rules of a job in the queue: what is not given is worked out as there. With --channel it is a \
            broadcast to all who subscribed to that channel.

            Prints one line: status, reason, apns-id, milliseconds from the request to its answer. --json prints an object with \
            "status", "reason", "apns_id", "timestamp" (of a 410), "milliseconds" and "connect_milliseconds".

            Exit status: 0 APNs has accepted it, 1 APNs has refused it, or the word filter has stopped it, 64 wrong usage (a bad token among it), 69 APNs did not \
            answer, or TLS failed; 78 a fault in the settings or credentials.
            """)

    @OptionGroup var file: SettingsArgument
    @OptionGroup var push: PushOptions

    @Flag(help: "Print JSON.")
    var json = false

    func run() throws {
        let configuration = try file.load()
        let names = Set(configuration.settings.apps.compactMap(\.name))
        let job: Job
        do {
            var reader = JobReader(retryLimit: configuration.settings.retryLimit, appNames: names)
            job = try reader.read(push.job)
        } catch {
            // A place in the job that we made of the options says nothing to who gave them.
            throw ExitCode.wrongUsage("\(error.text.withoutOffset.printable).", of: "send")
        }
        guard !job.isExpired(now: WallClock.now().unixSeconds) else { throw ExitCode.wrongUsage("--expires-at is in the past.", of: "send") }
        guard let app = SingleSend.route(job, configuration) else {
            throw ExitCode.wrongUsage(Self.whyNoApp(job, configuration), of: "send")
        }
        var masked: [UInt8]?
        switch configuration.filter?.judge(job.data, of: job.bytes) {
        case .clean, nil: break
        case .masked(let payload): masked = payload
        case .stopped:
            StandardStreams.print(["Filtered: a word of filter_words must not reach a device."], to: STDERR_FILENO)
            throw ExitCode.failure
        }
        do {
            let answer = try SingleSend(configuration, app: app, masked: masked).run(job)
            StandardStreams.print([json ? answer.object.line : answer.line])
            if answer.status != 200 { throw ExitCode.failure }
        } catch let fault as SingleSend.Fault {
            StandardStreams.print(["apns: \(fault.description.printable)"], to: STDERR_FILENO)
            throw ExitCode.serviceUnavailable
        }
    }
}

extension Send {
    /// What is missing for the choice of an app and a topic.
    private static func whyNoApp(_ job: Job, _ configuration: Configuration) -> String {
        if let topic = job.topic { return "No app has the topic \(topic.printable)." }
        let apps = zip(configuration.settings.apps, configuration.credentials)
        guard job.app == nil, apps.allSatisfy({ $0.0.name != nil }) else { return "--topic is needed: the settings name none." }
        // Without --app the topic would find none of them.
        let option = apps.contains { $0.1.topic != nil } ? "--app or --topic is needed" : "--app and --topic are needed"
        let names = apps.compactMap(\.0.name?.orQuotes.printable).joined(separator: ", ")
        return "\(option): the settings have no credential at the top level, only apps (\(names))."
    }
}

/// What the push is made of.
struct PushOptions: ParsableArguments {
    @Option(parsing: .unconditional, help: ArgumentHelp("Device token, hex digits.", valueName: "T"))
    var token: String?

    @Option(parsing: .unconditional, help: ArgumentHelp("In its place a broadcast channel, base64; with --data, since a broadcast is more than a text.", valueName: "ID"))
    var channel: String?

    @Option(parsing: .unconditional, help: ArgumentHelp("A payload that shows this text.", valueName: "TEXT"))
    var alert: String?

    @Option(parsing: .unconditional, help: ArgumentHelp("The whole payload.", valueName: "JSON"))
    var data: String?

    @Option(parsing: .unconditional, help: "apns-topic; that of the settings or the certificate unless given.")
    var topic: String?

    @Option(parsing: .unconditional, help: ArgumentHelp("apns-push-type; worked out from the payload unless given.", valueName: "type"))
    var pushType: String?

    @Option(parsing: .unconditional, help: "apns-priority: 1, 5 or 10.")
    var priority: Int?

    @Option(parsing: .unconditional, help: ArgumentHelp("Seconds that APNs keeps it for a device that is away; 0: it tries once.", valueName: "seconds"))
    var expiry: Int64?

    @Option(parsing: .unconditional, help: ArgumentHelp("The same as a Unix time.", valueName: "time"))
    var expiresAt: Int64?

    @Option(name: .customLong("collapse-id"), parsing: .unconditional, help: ArgumentHelp("apns-collapse-id, at most 64 bytes.", valueName: "id"))
    var collapseID: String?

    @Option(name: .customLong("apns-id"), parsing: .unconditional, help: ArgumentHelp("apns-id, a UUID; APNs makes one unless given.", valueName: "uuid"))
    var apnsID: String?

    @Option(parsing: .unconditional, help: ArgumentHelp("Which of the settings' apps.", valueName: "name"))
    var app: String?

    func validate() throws {
        if token != nil && channel != nil { throw ValidationError("Only one of --token and --channel may be given.") }
        if token == nil && channel == nil { throw ValidationError("Either --token or --channel is needed.") }
        if channel != nil && alert != nil { throw ValidationError("--alert is for a device: a broadcast is given by --data.") }
        if alert != nil && data != nil { throw ValidationError("Only one of --alert and --data may be given.") }
        if alert == nil && data == nil { throw ValidationError("Either --alert or --data is needed.") }
        if let data {
            // By itself, so that nothing but a value can come of it.
            let bytes = Array(data.utf8)
            var cursor = JSONCursor()
            do {
                _ = try cursor.value(in: bytes.span)
                try cursor.finish(in: bytes.span)
            } catch {
                throw ValidationError("--data is no JSON: \(error.description).")
            }
        }
    }

    /// As a producer would write it.
    var job: [UInt8] {
        let strings = [
            ("token", token), ("channel", channel), ("topic", topic), ("push_type", pushType), ("collapse_id", collapseID), ("apns_id", apnsID),
            ("app", app),
        ]
        let numbers = [("priority", priority.map(Int64.init)), ("expiry", expiry), ("expires_at", expiresAt)]
        var members = strings.compactMap { name, text in text.map { (name, JSONValue.string($0).bytes) } }
        members += numbers.compactMap { name, number in number.map { (name, Array("\($0)".utf8)) } }
        members.append(("data", data.map { Array($0.utf8) } ?? Self.payload(alert ?? "")))
        let texts = members.map { Array("\"\($0)\": ".utf8) + $1 }
        return Array("{".utf8) + texts.joined(separator: Array(", ".utf8)) + Array("}".utf8)
    }

    private static func payload(_ alert: String) -> [UInt8] {
        JSONValue.members(["aps": .members(["alert": .string(alert)])]).bytes
    }
}

extension String {
    /// A fault's text without its last words, ` at byte 30`.
    fileprivate var withoutOffset: String {
        let words = split(separator: " ")
        guard words.count > 3, words.suffix(3).prefix(2) == ["at", "byte"] else { return self }
        return words.dropLast(3).joined(separator: " ")
    }
}
