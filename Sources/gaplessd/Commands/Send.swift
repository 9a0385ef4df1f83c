import ArgumentParser
import Glibc
import JSONBytes
import Platform
import PushPool

/// `gaplessd send`: sends one push, to test a credential, topic and token.
struct Send: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "send",
        abstract: "Sends one push directly to APNs, without Redis.",
        discussion: """
            The rules and defaults of a job in the queue apply. With --channel, the push is a broadcast to the subscribers of \
            that channel.

            Prints one line: status, reason, apns-id, milliseconds from the request to the response. --json prints an object \
            with "status", "reason", "apns_id", "timestamp" (of a 410), "milliseconds" and "connect_milliseconds".

            Exit status: 0 APNs accepted the push; 1 APNs rejected it, or the word filter stopped it; 64 wrong usage, including \
            an invalid token; 69 APNs did not respond or failed TLS, 78 a fault in the settings or credentials.
            """)

    @OptionGroup var file: SettingsArgument
    @OptionGroup var push: PushOptions

    @Flag(help: "Print JSON.")
    var json = false

    func run() throws {
        let configuration = try file.load()
        let job: Job
        do {
            var reader = AppRoutes(configuration.settings.apps).reader(retryLimit: configuration.settings.retryLimit)
            job = try reader.read(push.job)
        } catch {
            // Without the offset: the user did not write the job.
            throw ExitCode.wrongUsage("\(error.problem.printable).", of: "send")
        }
        guard !job.isExpired(now: WallClock.now().unixSeconds) else {
            throw ExitCode.wrongUsage("--expires-at is in the past.", of: "send")
        }
        guard let app = SingleSend.route(job, configuration) else {
            throw ExitCode.wrongUsage(Self.missingOption(job, configuration), of: "send")
        }
        var masked: [UInt8]?
        if configuration.settings.matches.contains(where: { $0.matches(job.data, of: job.bytes) }) {
            StandardStreams.print(["Filtered: the payload has a value from filter_match."], to: STDERR_FILENO)
            throw ExitCode.failure
        }
        switch configuration.filter?.judge(job.data, of: job.bytes) {
        case .clean, nil: break
        case .masked(let payload): masked = payload
        case .stopped:
            StandardStreams.print(["Filtered: the payload contains a word from filter_words."], to: STDERR_FILENO)
            throw ExitCode.failure
        }
        do {
            let response = try SingleSend(configuration, app: app, masked: masked).run(job)
            StandardStreams.print([json ? response.object.line : response.line])
            if response.status != 200 { throw ExitCode.failure }
        } catch let error as SingleSend.SendError {
            StandardStreams.print(["apns: \(error.description.printable)"], to: STDERR_FILENO)
            throw ExitCode.serviceUnavailable
        }
    }

    /// Returns the message about the option without which no app or topic is selected.
    private static func missingOption(_ job: Job, _ configuration: Configuration) -> String {
        if let topic = job.topic { return "No app has the topic \(topic.printable)." }
        let apps = configuration.settings.apps
        guard job.app == nil, apps.allSatisfy({ $0.name != nil }) else {
            return "--topic is required: the settings define none."
        }
        // If no app has a topic, --topic alone selects none.
        let option = apps.contains { $0.defaultTopic != nil } ? "--app or --topic is required" : "--app and --topic are required"
        let names = apps.compactMap(\.name?.orQuotes.printable).joined(separator: ", ")
        return "\(option): the settings have no top-level credential, only apps (\(names))."
    }
}

/// The options of `send` that define the push.
struct PushOptions: ParsableArguments {
    @Option(parsing: .unconditional, help: ArgumentHelp("Device token, in hex.", valueName: "T"))
    var token: String?

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp(
            "Broadcast channel, in base64. Replaces --token and requires --data.", valueName: "ID"))
    var channel: String?

    @Option(parsing: .unconditional, help: ArgumentHelp("Text of an alert; makes the payload.", valueName: "TEXT"))
    var alert: String?

    @Option(parsing: .unconditional, help: ArgumentHelp("The complete payload.", valueName: "JSON"))
    var data: String?

    @Option(parsing: .unconditional, help: "apns-topic. Default: the topic of the settings or the certificate.")
    var topic: String?

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp("apns-push-type. Default: derived from the payload.", valueName: "type"))
    var pushType: String?

    @Option(parsing: .unconditional, help: "apns-priority: 1, 5 or 10.")
    var priority: Int?

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp(
            "Seconds that APNs stores the push for an offline device. 0: one delivery attempt.", valueName: "seconds"))
    var expiry: Int64?

    @Option(parsing: .unconditional, help: ArgumentHelp("The same limit as a Unix time.", valueName: "time"))
    var expiresAt: Int64?

    @Option(
        name: .customLong("collapse-id"), parsing: .unconditional,
        help: ArgumentHelp("apns-collapse-id, at most 64 bytes.", valueName: "id"))
    var collapseID: String?

    @Option(
        name: .customLong("apns-id"), parsing: .unconditional,
        help: ArgumentHelp("apns-id, a UUID. Default: created by APNs.", valueName: "uuid"))
    var apnsID: String?

    @Option(parsing: .unconditional, help: ArgumentHelp("Name of an app in the settings.", valueName: "name"))
    var app: String?

    func validate() throws {
        if token != nil && channel != nil { throw ValidationError("--token and --channel exclude each other.") }
        if token == nil && channel == nil { throw ValidationError("--token or --channel is required.") }
        if channel != nil && alert != nil { throw ValidationError("--channel requires --data; --alert is for a device token.") }
        if alert != nil && data != nil { throw ValidationError("--alert and --data exclude each other.") }
        if alert == nil && data == nil { throw ValidationError("--alert or --data is required.") }
        if let data {
            // The text must be a single value, because it is inserted into the job.
            let bytes = Array(data.utf8)
            var cursor = JSONCursor()
            do {
                _ = try cursor.value(in: bytes.span)
                try cursor.finish(in: bytes.span)
            } catch {
                throw ValidationError("--data is not valid JSON: \(error.description).")
            }
        }
    }

    /// The job that a producer would push.
    var job: [UInt8] {
        let strings = [
            ("token", token), ("channel", channel), ("topic", topic), ("push_type", pushType), ("collapse_id", collapseID),
            ("apns_id", apnsID), ("app", app),
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

/// Opens one session, sends one push and waits for the response.
struct SingleSend {
    /// The reason why there is no response.
    struct SendError: Error, CustomStringConvertible {
        var description: String
    }

    struct Response {
        var status: Int
        /// Empty for 200.
        var reason: String
        var apnsID: String?
        /// Milliseconds since 1970; present with 410.
        var timestamp: Int64?
        /// Time from the push to the response.
        var took: Duration
        /// Time from the dial to the server's SETTINGS.
        var connected: Duration
    }

    private let app: Settings.App
    /// The replacement payload in which the filter has masked words.
    private let masked: [UInt8]?

    /// - Parameters:
    ///   - app: an index of the configuration's apps.
    ///   - masked: the payload with masked words, if the filter has changed it.
    init(_ configuration: Configuration, app: Int, masked: [UInt8]? = nil) {
        self.masked = masked
        self.app = configuration.settings.apps[app]
    }

    /// Returns the app that the daemon would select: by `app`, by `topic`, or the top level. `nil` if there is no topic.
    static func route(_ job: Job, _ configuration: Configuration) -> Int? {
        let routes = AppRoutes(configuration.settings.apps)
        let number = routes.app(name: job.app, topic: job.topic)
        guard let number, job.topic ?? configuration.settings.apps[number].defaultTopic != nil else { return nil }
        return number
    }

    func run(_ job: Job) throws -> Response {
        let begun = Instant.now
        let session: SingleSession
        do {
            session = try SingleSession(app)
        } catch {
            throw SendError(description: error.reason)
        }
        defer { session.close() }
        switch session.opening() {
        case .opened: break
        case .ended(let address, let fault): throw SendError(description: "\(address): no response: \(fault.logText)")
        case nil: throw missing("session")
        }
        let opened = Instant.now
        var batch = [try notification(job)]
        session.pool.push(&batch)
        // The session reports a request timeout after a PING has shown whether the connection is alive.
        let deadline = opened + app.pool.requestTimeout + app.pool.pingTimeout + .seconds(1)
        repeat {
            // In this order: a session reports its attempts before it reports its end.
            let end = session.events.drain().first { if case .closed = $0 { true } else { false } }
            if let outcome = session.deliveries.drain().first?.outcome {
                return try response(outcome, took: .now - opened, connected: opened - begun)
            }
            // There is no second session to take the push.
            if case .closed(_, let address, let fault) = end {
                throw SendError(description: "\(address): no response: \(fault.logText)")
            }
        } while session.wait(until: deadline)
        throw missing("response")
    }

    private func missing(_ what: String) -> SendError {
        SendError(description: "\(app.pool.host):\(app.pool.port): no \(what) in time")
    }

    private func notification(_ job: Job) throws -> Notification {
        var token: Range<Int>
        let channel: String?
        switch job.target {
        case .token(let content), .escapedToken(_, let content): (token, channel) = (content, nil)
        case .channel(let id, let content): (token, channel) = (content, id)
        case .tokens, .audience, .member: throw SendError(description: "the push is for several tokens")
        }
        var (bytes, payload) = (job.bytes, job.data)
        if let other = job.rewritten(maskedPayload: masked) { (bytes, token, payload) = other }
        let headers = SharedHeaders(
            topic: job.topic(ofApp: app.defaultTopic), pushType: job.pushType, priority: job.priority, channel: channel)
        return Notification(
            id: 1, bytes: bytes, token: token, payload: payload, headers: headers,
            expiration: job.expiration(now: WallClock.now().unixSeconds), apnsID: job.apnsID, collapseID: job.collapseID)
    }

    private func response(_ outcome: Outcome, took: Duration, connected: Duration) throws -> Response {
        switch outcome {
        case .delivered(let apnsID):
            return Response(status: 200, reason: "", apnsID: apnsID, took: took, connected: connected)
        case .rejected(let rejection):
            return Response(
                status: rejection.status, reason: rejection.reason, apnsID: rejection.apnsID, timestamp: rejection.timestamp,
                took: took, connected: connected)
        case .notProcessed(let fault):
            throw SendError(description: "no response: \(fault.logText); APNs did not process the push")
        case .maybeProcessed(let fault):
            throw SendError(description: "no response: \(fault.logText); APNs may have processed the push")
        case .timedOut:
            let limit = app.pool.requestTimeout.roundedSeconds
            throw SendError(description: "no response within \(limit) s; APNs may have processed the push")
        case .outdated: throw SendError(description: "the push expired before a session could take it; it was not sent")
        case .begun: throw SendError(description: "no response")
        }
    }
}

extension SingleSend.Response {
    /// `410 Unregistered, apns-id 0A1B…, 12.3 ms`.
    var line: String {
        let name = reason.isEmpty ? "\(status)" : "\(status) \(reason)"
        return "\(name), apns-id \(apnsID ?? "none"), \(milliseconds) ms".printable
    }

    var object: JSONValue {
        .members([
            "status": .integer(status), "reason": reason.isEmpty ? .null : .string(reason), "apns_id": .optional(apnsID),
            "timestamp": timestamp.map { .integer($0) } ?? .null, "milliseconds": .rounded(milliseconds),
            "connect_milliseconds": .rounded(connected / .milliseconds(1)),
        ])
    }

    private var milliseconds: Double { (took / .microseconds(100)).rounded() / 10 }
}
