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
            var reader = AppRoutes(configuration).reader(retryLimit: configuration.settings.retryLimit)
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
        let apps = zip(configuration.settings.apps, configuration.credentials)
        guard job.app == nil, apps.allSatisfy({ $0.0.name != nil }) else {
            return "--topic is required: the settings define none."
        }
        // If no app has a topic, --topic alone selects none.
        let option = apps.contains { $0.1.topic != nil } ? "--app or --topic is required" : "--app and --topic are required"
        let names = apps.compactMap(\.0.name?.orQuotes.printable).joined(separator: ", ")
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

    private let settings: PoolSettings
    private let credential: AppCredential
    /// The replacement payload in which the filter has masked words.
    private let masked: [UInt8]?

    /// - Parameters:
    ///   - app: an index of the configuration's apps.
    ///   - masked: the payload with masked words, if the filter has changed it.
    init(_ configuration: Configuration, app: Int, masked: [UInt8]? = nil) {
        self.masked = masked
        var settings = configuration.settings.apps[app].pool
        (settings.sessions, settings.mostSessions) = (1, 1)
        settings.collectsAPNSIDs = true
        self.settings = settings
        credential = configuration.credentials[app]
    }

    /// Returns the app that the daemon would select: by `app`, by `topic`, or the top level. `nil` if there is no topic.
    static func route(_ job: Job, _ configuration: Configuration) -> Int? {
        let routes = AppRoutes(configuration)
        let number = routes.app(name: job.app, topic: job.topic)
        guard let number, job.topic ?? configuration.credentials[number].topic != nil else { return nil }
        return number
    }

    func run(_ job: Job) throws -> Response {
        let deliveries = try Mailbox<Delivery>(thread: "apns pool")
        let events = try Mailbox<PoolEvent>(thread: "apns pool")
        let descriptors = [deliveries.wakeDescriptor, events.wakeDescriptor]
        let begun = Instant.now
        let pool: SessionPool
        guard let credential = credential.credential else { throw SendError(description: "the credential cannot be used") }
        do {
            pool = try SessionPool(
                settings: settings, credential: credential, deliveries: deliveries, events: events)
        } catch {
            throw SendError(description: "\(error)")
        }
        defer { _ = pool.close() }
        try wait(descriptors, until: begun + settings.dialTimeout + .seconds(1), for: "session") { try isOpen(events) }
        let opened = Instant.now
        var batch = [try notification(job)]
        pool.push(&batch)
        var outcome: Outcome?
        // The session reports a request timeout after a PING has shown whether the connection is alive.
        let timeout = settings.requestTimeout + settings.pingTimeout + .seconds(1)
        try wait(descriptors, until: opened + timeout, for: "response") {
            // In this order: a session reports its attempts before it reports its end.
            let end = endOfSession(events)
            outcome = deliveries.drain().first?.outcome
            if outcome == nil, let end { throw end }
            return outcome != nil
        }
        return try response(outcome, took: .now - opened, connected: opened - begun)
    }

    private func notification(_ job: Job) throws -> Notification {
        var token: Range<Int>
        let channel: String?
        switch job.target {
        case .token(let content), .escapedToken(_, let content): (token, channel) = (content, nil)
        case .channel(let id, let content): (token, channel) = (content, id)
        case .tokens: throw SendError(description: "the push is for several tokens")
        }
        var (bytes, payload) = (job.bytes, job.data)
        if let other = job.rewritten(maskedPayload: masked) { (bytes, token, payload) = other }
        let headers = SharedHeaders(
            topic: job.topic(ofApp: credential.topic), pushType: job.pushType, priority: job.priority, channel: channel)
        return Notification(
            id: 1, bytes: bytes, token: token, payload: payload, headers: headers,
            expiration: job.expiration(now: WallClock.now().unixSeconds), apnsID: job.apnsID, collapseID: job.collapseID)
    }

    private func wait(
        _ descriptors: [CInt], until deadline: Instant, for what: String, _ isDone: () throws -> Bool
    ) throws {
        var poller = Poller()
        while try !isDone() {
            guard .now < deadline else { throw SendError(description: "\(settings.host):\(settings.port): no \(what) in time") }
            poller.reset()
            for descriptor in descriptors { poller.add(descriptor, for: .read) }
            poller.wait(until: deadline)
        }
    }

    private func isOpen(_ events: Mailbox<PoolEvent>) throws -> Bool {
        for event in events.drain() {
            switch event {
            case .opened: return true
            case .dialFailed(_, let address, let fault, _), .closed(_, let address, let fault):
                throw SendError(description: "\(address): no response: \(fault.logText)")
            case .tokens(let news): news.warn()
            case .capacityChanged, .resized, .slowed, .slowdownEnded, .credentialRefused, .limited: continue
            }
        }
        return false
    }

    /// Returns the error of a session that ended before it took the push: there is no second session to take it.
    private func endOfSession(_ events: Mailbox<PoolEvent>) -> SendError? {
        for case .closed(_, let address, let fault) in events.drain() {
            return SendError(description: "\(address): no response: \(fault.logText)")
        }
        return nil
    }

    private func response(_ outcome: Outcome?, took: Duration, connected: Duration) throws -> Response {
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
            let limit = settings.requestTimeout.roundedSeconds
            throw SendError(description: "no response within \(limit) s; APNs may have processed the push")
        case .outdated: throw SendError(description: "the push expired before a session could take it; it was not sent")
        case .begun, nil: throw SendError(description: "no response")
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
