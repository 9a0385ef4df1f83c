import ArgumentParser
import JSONBytes
import Platform
import PushPool
import RedisQueue

/// `gaplessd explain`: prints the request that a job produces, without sending it.
struct Explain: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "explain",
        abstract: "Prints the request that a job produces, or why the job becomes a dead letter. Sends nothing.",
        discussion: """
            Reads one job from FILE or standard input. Prints the app and why it is chosen, the server, the path, the headers \
            and the size of the payload, as the daemon with these settings sends them now. Uses neither Redis nor APNs.

            --json prints one object: "app", "chosen_by", "server", "path", "headers", "derived" (the origin of each header that \
            the job does not name), "payload_bytes", "payload_limit", "requests" (the number of valid tokens), "bad_tokens", \
            "tokens_from", "channel_name", "creates_channel" (whether 'channels' creates it at its first use), "not_before", \
            "masked" (whether the filter changes the payload), "replaces" and "hints" (at what is valid and rarely meant); or \
            "dead_letter" with the reason.

            Exit status: 0 success, 65 the job becomes a dead letter, 64 wrong usage, 78 a fault in the settings or credentials; \
            1 the file cannot be read.
            """)

    @OptionGroup var file: SettingsArgument

    @Argument(
        help: ArgumentHelp("A file with one job. '-', or no file, is standard input.", valueName: "FILE"), completion: .file())
    var job = "-"

    @Flag(help: "Print JSON.") var json = false

    func run() throws {
        var (file, files) = (file, [job].filter { $0 != "-" })
        file.passOn(to: &files)
        let configuration = try file.load()
        do {
            let explanation = try Explanation(read(files.first ?? "-"), configuration, now: WallClock.now().unixSeconds)
            StandardStreams.print(json ? [explanation.object.line] : explanation.lines)
        } catch let error as Explanation.Rejection {
            if json {
                StandardStreams.print(["dead_letter": .string(error.reason)])
            } else {
                StandardStreams.print(["dead letter: \(error.reason.printable)"])
            }
            throw ExitCode.badInput
        }
    }

    /// Returns the bytes of the file without the line ends at its end.
    private func read(_ job: String) throws -> [UInt8] {
        var bytes: [UInt8] = []
        do {
            var reader = try LineReader(job)
            reading: while true {
                switch try reader.next() {
                case .line(let line): bytes += (bytes.isEmpty ? [] : [UInt8(ascii: "\n")]) + line
                case .tooLong: throw Explanation.Rejection.tooLarge
                case .pause: continue
                case nil: break reading
                }
            }
        } catch let fault as FileBytes.Fault {
            throw ExitCode.failure.because("\(job.printable): \(fault)")
        }
        while bytes.last == UInt8(ascii: "\n") { bytes.removeLast() }
        return bytes
    }
}

/// The request that a job produces.
struct Explanation {
    /// The reason why the job becomes a dead letter.
    struct Rejection: Error {
        /// As in the record of the dead letter.
        var reason: String

        static let tooLarge = Rejection(reason: "JobTooLarge")
    }

    private let app: String
    private let choice: String
    private let server: String
    private let path: String
    private let headers: [(name: String, value: String)]
    private let payloadBytes: Int
    private let payloadLimit: Int
    private let requests: Int
    private let badTokens: [String]
    /// The key with the tokens of a campaign; `nil` for another job.
    private let source: String?
    /// The name of the channel, and the storage with which `channels` creates it; `nil` if it does not.
    private let channel: (name: String, created: ChannelCall.Storage?)?
    private let expiration: Int64
    private let notBefore: Double?
    private let isMasked: Bool
    private let replaces: String?
    private let hints: [String]
    /// The headers that the job does not name, with the members from which they come.
    private let derived: [(name: String, origin: String)]

    /// - Parameter now: Unix seconds.
    init(_ bytes: [UInt8], _ configuration: Configuration, now: Int64) throws(Rejection) {
        if bytes.count > ClaimedJob.mostBytes { throw .tooLarge }
        var plan = DispatchPlan(configuration, now: now)
        var job: Job
        let number: Int
        do throws(JobError) {
            job = try plan.reader.read(bytes)
            number = try plan.routes.app(for: job)
        } catch {
            throw Rejection(reason: error.reason)
        }
        if job.isExpired(now: now) { throw Rejection(reason: "Expired") }
        let settings = configuration.settings
        var payload = job.data.count
        var isMasked = false
        if settings.matches.contains(where: { $0.matches(job.data, of: bytes) }) { throw Rejection(reason: "Filtered") }
        switch plan.filter?.judge(job.data, of: bytes) {
        case .stopped: throw Rejection(reason: "Filtered")
        case .masked(let masked): (payload, isMasked) = (masked.count, true)
        case .clean, nil: break
        }
        let tokens = job.tokens
        let valid = tokens.filter { $0.fault == nil }
        let recipient: String
        channel = job.channelName.map { name in
            let rule = settings.channelRule(of: name)
            job.found(channel: "<id of \(name)>", rule?.storage ?? .none, now: now)
            return (name, rule.flatMap { $0.creates ? $0.storage : nil })
        }
        if case .audience(let audience) = job.target {
            (recipient, source) = ("<token>", audience.key)
        } else if let first = valid.first {
            (recipient, source) = (job.text(of: first), nil)
        } else {
            throw Rejection(reason: "no token of the job is valid")
        }
        badTokens = tokens.filter { $0.fault != nil }.map { "\(job.text(of: $0)): \($0.fault?.description ?? "")" }
        let chosen = settings.apps[number]
        let topic = job.topic(ofApp: plan.apps[number].topic)
        app = chosen.name ?? PauseNote.topLevel
        choice = plan.routes.choice(of: number, for: job)
        server = "\(chosen.pool.host):\(chosen.pool.port)"
        path = job.namesChannel ? "/4/broadcasts/apps/\(topic ?? "")" : "/3/device/\(recipient)"
        expiration = job.expiration(now: now)
        headers = Self.headers(of: job, to: recipient, topic: topic, expiration: expiration)
        payloadBytes = payload
        payloadLimit = job.namesChannel ? PayloadLimit.ofBroadcast : PayloadLimit.toDevice(pushType: job.pushType)
        (requests, notBefore, self.isMasked, hints) = (valid.count, job.notBefore, isMasked, job.hints)
        derived = plan.reader.derivedHeaders(of: bytes)
        replaces = job.replaces
    }

    private static func headers(
        of job: Job, to recipient: String, topic: String?, expiration: Int64
    ) -> [(name: String, value: String)] {
        let isBroadcast = job.namesChannel
        let all = [
            isBroadcast ? ("apns-channel-id", recipient) : ("apns-topic", topic), ("apns-push-type", job.pushType),
            ("apns-priority", "\(job.priority)"), ("apns-expiration", "\(expiration)"), ("apns-collapse-id", job.collapseID),
            (isBroadcast ? "apns-request-id" : "apns-id", job.apnsID),
        ]
        return all.compactMap { name, value in value.map { (name, $0) } }
    }

    var lines: [String] {
        var lines = [row("app", app), row("chosen by", choice), row("server", server), row("path", path)]
        for (name, value) in headers {
            let isTime = name == "apns-expiration" && expiration > 0
            lines.append(row(name, value + (isTime ? "  \(LocalTime.zoned(expiration))" : "")))
        }
        for (name, origin) in derived { lines.append(row("derived", "\(name) from \(origin)")) }
        let size = "\(payloadBytes.counted("byte")) of at most \(payloadLimit.grouped)"
        lines.append(row("payload", size + (isMasked ? ", masked" : "")))
        if requests > 1 || !badTokens.isEmpty { lines.append(row("requests", "\(requests), one for each valid token")) }
        if badTokens.count > Job.mostSeparateFaults {
            lines.append(row("dead letter", "\(badTokens.count.grouped) invalid tokens together; first fault: \(badTokens[0])"))
        } else {
            for token in badTokens { lines.append(row("dead letter", token)) }
        }
        if let source { lines.append(row("tokens from", source)) }
        if let channel {
            let origin = channel.created.map { "created at its first use without a record, storage \($0.rawValue)" }
            lines.append(row("channel", "\"\(channel.name)\", \(origin ?? "which needs a record: channels creates none")"))
        }
        if let notBefore { lines.append(row("not before", LocalTime.zoned(Int64(notBefore)))) }
        if let replaces { lines.append(row("replaces", "older jobs of \"\(replaces)\" that have not left")) }
        return lines + hints.map { row("hint", $0) }
    }

    private func row(_ name: String, _ value: String) -> String { name.padded(to: 18) + value.printable }

    var object: JSONValue {
        .members([
            "app": .string(app), "chosen_by": .string(choice), "server": .string(server), "path": .string(path),
            "headers": .object(headers.map { JSONMember($0.name, .string($0.value)) }),
            "derived": .object(derived.map { JSONMember($0.name, .string($0.origin)) }), "payload_bytes": .integer(payloadBytes),
            "payload_limit": .integer(payloadLimit), "requests": .integer(requests),
            "bad_tokens": .array(badTokens.map(JSONValue.string)),
            "tokens_from": .optional(source), "channel_name": .optional(channel?.name),
            "creates_channel": channel.map { .bool($0.created != nil) } ?? .null,
            "not_before": notBefore.map { .number("\($0)") } ?? .null, "masked": .bool(isMasked),
            "replaces": replaces.map(JSONValue.string) ?? .null,
            "hints": .array(hints.map(JSONValue.string)),
        ])
    }
}
