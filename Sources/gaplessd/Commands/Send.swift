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

            --live-event starts, updates or ends a Live Activity, and makes the payload from --content-state and the options \
            beside it. Start needs the push-to-start token, --attributes-type, --attributes, --content-state and --alert.

            Prints one line: status, reason, apns-id, in the sandbox apns-unique-id, milliseconds from the request to the \
            response. --json prints an object with "status", "reason", "apns_id", "apns_unique_id", "timestamp" (of a 410), \
            "milliseconds" and "connect_milliseconds".

            Exit status: 0 APNs accepted the push; 1 APNs rejected it, or the word filter stopped it; 64 wrong usage, including \
            an invalid token; 69 APNs did not respond or failed TLS, 78 a fault in the settings or credentials.
            """)

    @OptionGroup var file: SettingsArgument
    @OptionGroup var push: PushOptions
    @Flag(help: "Print JSON.") var json = false

    func run() throws {
        let configuration = try file.load()
        let warnings = ServiceUser(configuration.stateFolder)?.warnings(configuration) ?? []
        StandardStreams.print(warnings.map { "warning: \($0)" }, to: STDERR_FILENO)
        let job: Job
        do {
            var reader = AppRoutes(configuration.settings.apps).reader(retryLimit: configuration.settings.retryLimit)
            job = try reader.read(push.job)
        } catch {
            // Without the offset: the user did not write the job.
            throw ExitCode.wrongUsage("\(error.withoutPlace.printable).", of: "send")
        }
        StandardStreams.print(job.hints.map { "warning: \($0.printable)" }, to: STDERR_FILENO)
        guard !job.isExpired(now: WallClock.now().unixSeconds) else {
            throw ExitCode.wrongUsage("--expires-at is in the past.", of: "send")
        }
        guard let app = SingleSend.route(job, configuration) else {
            throw ExitCode.wrongUsage(Self.missingOption(job, configuration), of: "send")
        }
        var masked: [UInt8]?
        if configuration.settings.matches.contains(where: { $0.matches(job.data, of: job.bytes) }) {
            throw ExitCode.failure.because("Filtered: the payload has a value from filter_match.")
        }
        switch configuration.filter?.judge(job.data, of: job.bytes) {
        case .clean, nil: break
        case .masked(let payload): masked = payload
        case .stopped: throw ExitCode.failure.because("Filtered: the payload contains a word from filter_words.")
        }
        do {
            let response = try SingleSend(configuration, app: app, masked: masked).run(job)
            StandardStreams.print([json ? response.object.line : response.line])
            if response.status == 403 {
                let proof = CredentialProof(status: response.status, reason: response.reason)
                throw ExitCode.failure.because(
                    "\(proof.sentence); 'gaplessd check --prove' tests the credential, the topic and the environment")
            }
            if response.status != 200 { throw ExitCode.failure }
        } catch let error as SingleSend.SendError {
            throw ExitCode.serviceUnavailable.because("apns: \(error.description.printable)")
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
    @Option("Device token, in hex.", as: "T") var token: String?
    @Option("Broadcast channel, in base64. Replaces --token and requires --data.", as: "ID") var channel: String?
    @Option("Text of an alert; makes the payload.", as: "TEXT") var alert: String?
    @Option("The complete payload.", as: "JSON") var data: String?
    @OptionGroup(title: "Live Activities") var live: LiveEventOptions
    @Option("apns-topic. Default: the topic of the settings or the certificate.") var topic: String?
    @Option("apns-push-type. Default: derived from the payload.", as: "type") var pushType: String?
    @Option("apns-priority: 1, 5 or 10.") var priority: Int?
    @Option("Seconds that APNs stores the push for an offline device. 0: one delivery attempt.", as: "seconds") var expiry: Int64?
    @Option("The same limit as a Unix time.", as: "time") var expiresAt: Int64?
    @Option("apns-collapse-id, at most 64 bytes.", as: "id", name: .customLong("collapse-id")) var collapseID: String?
    @Option("apns-id, a UUID. Default: created by APNs.", as: "uuid", name: .customLong("apns-id")) var apnsID: String?
    @Option("Name of an app in the settings.", as: "name", completion: NameCompletion.apps) var app: String?

    func validate() throws {
        if token != nil && channel != nil { throw ValidationError("--token and --channel exclude each other.") }
        if token == nil && channel == nil { throw ValidationError("--token or --channel is required.") }
        if live.event != nil {
            if data != nil { throw ValidationError("--live-event makes the payload, and excludes --data.") }
            try live.validate(channel: channel, alert: alert)
        } else if channel != nil && alert != nil {
            throw ValidationError("--channel requires --data; --alert is for a device token.")
        }
        if alert != nil && data != nil { throw ValidationError("--alert and --data exclude each other.") }
        if alert == nil && data == nil && live.event == nil {
            throw ValidationError("--alert or --data is required.")
        }
        if let data { try Self.check(data, of: "--data") }
    }

    /// Checks that a text is a single value, because it is inserted into the job.
    fileprivate static func check(_ text: String, of option: String, isObject: Bool = false) throws {
        let bytes = Array(text.utf8)
        var cursor = JSONCursor()
        do {
            let value = try cursor.value(in: bytes.span)
            try cursor.finish(in: bytes.span)
            if isObject && value.kind != .object { throw ValidationError("\(option) is not a JSON object.") }
        } catch let error as JSONError {
            throw ValidationError("\(option) is not valid JSON: \(error.description).")
        }
    }

    /// The job that a producer would push.
    var job: [UInt8] {
        let made = live.event.map { live.payload($0, alert: alert, now: WallClock.now().unixSeconds) }
        let plain = JSONValue.members(["aps": .members(["alert": .string(alert ?? "")])]).bytes
        return object([
            ("token", text(token)), ("channel", text(channel)), ("topic", text(topic)),
            ("push_type", text(pushType ?? (live.event == nil ? nil : "liveactivity"))), ("collapse_id", text(collapseID)),
            ("apns_id", text(apnsID)), ("app", text(app)), ("priority", number(priority.map(Int64.init))),
            ("expiry", number(expiry)), ("expires_at", number(expiresAt)), ("data", made ?? data.map { Array($0.utf8) } ?? plain),
        ])
    }
}

/// Returns an object of the members that have a value. The values are JSON texts, and stay as the user wrote them.
private func object(_ members: [(String, [UInt8]?)]) -> [UInt8] {
    let given = members.compactMap { name, value in value.map { Array("\"\(name)\": ".utf8) + $0 } }
    return Array("{".utf8) + given.joined(separator: Array(", ".utf8)) + Array("}".utf8)
}

private func text(_ value: String?) -> [UInt8]? { value.map { JSONValue.string($0).bytes } }

private func number(_ value: Int64?) -> [UInt8]? { value.map { Array("\($0)".utf8) } }

/// The options of `send` that make the payload of a Live Activity ("Starting and updating Live Activities with ActivityKit push
/// notifications").
struct LiveEventOptions: ParsableArguments {
    enum Event: String, ExpressibleByArgument, CaseIterable {
        case start, update, end
    }

    @Option(name: .customLong("live-event"), help: ArgumentHelp("start, update or end.", valueName: "event"))
    var event: Event?

    @Option("content-state, an object.", as: "JSON") var contentState: String?
    @Option("With start: the name of the attributes' type.", as: "type") var attributesType: String?
    @Option("With start: the attributes, an object.", as: "JSON") var attributes: String?
    @Option("With start: the channel to which the device subscribes.", as: "ID") var inputPushChannel: String?
    @Flag(help: "With start: ask for an update token.") var inputPushToken = false
    @Option("Unix time of the state. Default: now.", as: "time") var timestamp: Int64?
    @Option("Unix time at which the state becomes stale.", as: "time") var staleDate: Int64?

    @Option("With end: Unix time at which the activity leaves the screen; a past one is now.", as: "time")
    var dismissalDate: Int64?

    /// - Parameters:
    ///   - channel: the channel of the push, if it is a broadcast.
    ///   - alert: the text of the alert.
    func validate(channel: String?, alert: String?) throws {
        guard let event else { return }
        for (option, text) in [("--content-state", contentState), ("--attributes", attributes)] {
            if let text { try PushOptions.check(text, of: option, isObject: true) }
        }
        if contentState == nil && event != .end {
            throw ValidationError("--live-event \(event.rawValue) requires --content-state.")
        }
        if dismissalDate != nil && event != .end { throw ValidationError("--dismissal-date is an option of --live-event end.") }
        if event == .start {
            if channel != nil { throw ValidationError("--live-event start requires --token: a broadcast starts no activity.") }
            guard attributes != nil, attributesType != nil, alert != nil else {
                throw ValidationError("--live-event start requires --attributes-type, --attributes and --alert.")
            }
            if inputPushToken && inputPushChannel != nil {
                throw ValidationError("--input-push-token and --input-push-channel exclude each other.")
            }
        } else if attributes != nil || attributesType != nil || inputPushChannel != nil || inputPushToken {
            throw ValidationError("--attributes, --attributes-type and --input-push-… are options of --live-event start.")
        }
    }

    func validate() throws {
        if event != nil { return }
        let isGiven =
            contentState != nil || attributes != nil || attributesType != nil || inputPushChannel != nil || inputPushToken
            || timestamp != nil || staleDate != nil || dismissalDate != nil
        if isGiven { throw ValidationError("The options of Live Activities require --live-event.") }
    }

    /// - Parameter now: Unix seconds.
    fileprivate func payload(_ event: Event, alert: String?, now: Int64) -> [UInt8] {
        let members: [(String, [UInt8]?)] = [
            ("timestamp", number(timestamp ?? now)), ("event", text(event.rawValue)),
            ("content-state", contentState.map { Array($0.utf8) }), ("attributes-type", text(attributesType)),
            ("attributes", attributes.map { Array($0.utf8) }), ("input-push-channel", text(inputPushChannel)),
            ("input-push-token", inputPushToken ? Array("1".utf8) : nil), ("stale-date", number(staleDate)),
            ("dismissal-date", number(dismissalDate)),
            ("alert", alert.map { JSONValue.members(["title": .string($0), "body": .string("")]).bytes }),
        ]
        return object([("aps", object(members))])
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
        /// `apns-unique-id`, which only the sandbox sends: Apple's console finds the push by it.
        var uniqueID: String?
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
        do {
            if let outcome = try session.outcome(of: try notification(job)) {
                return try response(outcome, took: .now - opened, connected: opened - begun)
            }
        } catch let end as SingleSession.End {
            throw SendError(description: "\(end.address): no response: \(end.fault.logText)")
        }
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
        case .channelName: throw SendError(description: "the push is for a channel without an id")
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
        case .delivered(let acceptance):
            return Response(
                status: 200, reason: "", apnsID: acceptance?.apnsID, uniqueID: acceptance?.uniqueID, took: took,
                connected: connected)
        case .rejected(let rejection):
            return Response(
                status: rejection.status, reason: rejection.reason, apnsID: rejection.apnsID,
                uniqueID: rejection.uniqueID, timestamp: rejection.timestamp, took: took, connected: connected)
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
    /// `410 Unregistered`.
    var statusAndReason: String { reason.isEmpty ? "\(status)" : "\(status) \(reason)" }

    /// `410 Unregistered, apns-id 0A1B…, 12.3 ms`; in the sandbox also `apns-unique-id 1C2D…`.
    var line: String {
        let unique = uniqueID.map { ", apns-unique-id \($0)" } ?? ""
        return "\(statusAndReason), apns-id \(apnsID ?? "none")\(unique), \(milliseconds) ms".printable
    }

    var object: JSONValue {
        .members([
            "status": .integer(status), "reason": reason.isEmpty ? .null : .string(reason), "apns_id": .optional(apnsID),
            "apns_unique_id": .optional(uniqueID), "timestamp": timestamp.map { .integer($0) } ?? .null,
            "milliseconds": .rounded(milliseconds),
            "connect_milliseconds": .rounded(connected / .milliseconds(1)),
        ])
    }

    private var milliseconds: Double { (took / .microseconds(100)).rounded() / 10 }
}
