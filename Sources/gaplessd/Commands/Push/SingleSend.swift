import JSONBytes
import Platform
import PushPool

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
    private let app: Settings.App
    /// The replacement payload in which the filter has masked words.
    private let masked: [UInt8]?

    /// - Parameters:
    ///   - app: an index of the configuration's apps.
    ///   - masked: the payload with masked words, if the filter has changed it.
    init(_ configuration: Configuration, app: Int, masked: [UInt8]? = nil) {
        self.masked = masked
        self.app = configuration.settings.apps[app]
        var settings = self.app.pool.withOneSession
        settings.collectsAPNSIDs = true
        self.settings = settings
    }

    /// Returns the app that the daemon would select: by `app`, by `topic`, or the top level. `nil` if there is no topic.
    static func route(_ job: Job, _ configuration: Configuration) -> Int? {
        let routes = AppRoutes(configuration.settings.apps)
        let number = routes.app(name: job.app, topic: job.topic)
        guard let number, job.topic ?? configuration.settings.apps[number].defaultTopic != nil else { return nil }
        return number
    }

    func run(_ job: Job) throws -> Response {
        let deliveries = try Mailbox<Delivery>(thread: "apns pool")
        let events = try Mailbox<PoolEvent>(thread: "apns pool")
        let descriptors = [deliveries.wakeDescriptor, events.wakeDescriptor]
        let begun = Instant.now
        let pool: SessionPool
        guard let credential = app.credential else { throw SendError(description: "the credential cannot be used") }
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
            topic: job.topic(ofApp: app.defaultTopic), pushType: job.pushType, priority: job.priority, channel: channel)
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
