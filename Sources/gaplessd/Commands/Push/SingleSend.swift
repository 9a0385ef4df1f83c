import Clocks
import JSONBytes
import PushPool
import Threads

/// One session, one push, one answer.
struct SingleSend {
    /// Why there is no answer.
    struct Fault: Error, CustomStringConvertible {
        var description: String
    }

    struct Answer {
        var status: Int
        /// Empty for 200.
        var reason: String
        var apnsID: String?
        /// Milliseconds since 1970; with 410.
        var timestamp: Int64?
        /// From the push to its answer.
        var took: Duration
        /// From the dial to the peer's SETTINGS.
        var connected: Duration
    }

    private let settings: PoolSettings
    private let credential: AppCredential
    /// What is sent instead of the payload, where the filter has masked words in it.
    private let masked: [UInt8]?

    /// - Parameters:
    ///   - app: an index of the configuration's apps.
    ///   - masked: the payload without the words that must not reach a device, where it had any.
    init(_ configuration: Configuration, app: Int, masked: [UInt8]? = nil) {
        self.masked = masked
        var settings = configuration.settings.apps[app].pool
        (settings.sessions, settings.mostSessions) = (1, 1)
        settings.collectsAPNSIDs = true
        self.settings = settings
        credential = configuration.credentials[app]
    }

    /// The app that the daemon would choose: by `app`, else by `topic`, else the top level. None where nobody names a topic.
    static func route(_ job: Job, _ configuration: Configuration) -> Int? {
        let routes = AppRoutes(names: configuration.settings.apps.map(\.name), configuration.credentials)
        let number = routes.app(name: job.app, topic: job.topic)
        guard let number, job.topic ?? configuration.credentials[number].topic != nil else { return nil }
        return number
    }

    func run(_ job: Job) throws -> Answer {
        let wakeUp = WakeUp()
        let deliveries = Mailbox<Delivery>(wakeUp: wakeUp)
        let events = Mailbox<PoolEvent>(wakeUp: wakeUp)
        let begun = Instant.now
        let pool: SessionPool
        do {
            pool = try SessionPool(
                settings: settings, credential: credential.credential, deliveries: deliveries, events: events)
        } catch {
            throw Fault(description: "\(error)")
        }
        defer { _ = pool.close() }
        try wait(wakeUp, until: begun + settings.dialTimeout + .seconds(1), for: "session") { try isOpen(events) }
        let opened = Instant.now
        var batch = [try notification(job)]
        pool.push(&batch)
        var outcome: Outcome?
        // A request that times out is reported by the session, once a PING has told whether it lives.
        let patience = settings.requestTimeout + settings.pingTimeout + .seconds(1)
        try wait(wakeUp, until: opened + patience, for: "answer") {
            // In this order: a session reports its attempts before its own end.
            let end = endOfSession(events)
            outcome = deliveries.drain().first?.outcome
            if outcome == nil, let end { throw end }
            return outcome != nil
        }
        return try answer(outcome, took: .now - opened, connected: opened - begun)
    }

    private func notification(_ job: Job) throws -> Notification {
        var token: Range<Int>
        let channel: String?
        switch job.target {
        case .token(let content), .escapedToken(_, let content): (token, channel) = (content, nil)
        case .channel(let id, let content): (token, channel) = (content, id)
        case .tokens: throw Fault(description: "the push is for several tokens")
        }
        var (bytes, payload) = (job.bytes, job.data)
        if let other = job.rewritten(maskedPayload: masked) { (bytes, token, payload) = other }
        let headers = SharedHeaders(
            topic: job.topic ?? credential.topic, pushType: job.pushType, priority: job.priority, channel: channel)
        return Notification(
            id: 1, bytes: bytes, token: token, payload: payload, headers: headers,
            expiration: job.expiration(now: WallClock.now().unixSeconds), apnsID: job.apnsID, collapseID: job.collapseID)
    }

    private func wait(
        _ wakeUp: WakeUp, until deadline: Instant, for what: String, _ isDone: () throws -> Bool
    ) throws {
        var poller = Poller()
        while try !isDone() {
            guard .now < deadline else { throw Fault(description: "\(settings.host):\(settings.port): no \(what) in time") }
            poller.reset()
            poller.add(wakeUp.descriptor, for: .read)
            poller.wait(until: deadline)
        }
    }

    private func isOpen(_ events: Mailbox<PoolEvent>) throws -> Bool {
        for event in events.drain() {
            switch event {
            case .opened: return true
            case .dialFailed(_, let address, let fault, _), .closed(_, let address, let fault):
                throw Fault(description: "\(address): no answer: \(fault.logText)")
            case .tokens(let news): news.warn()
            case .capacityChanged, .resized, .braked, .brakeLifted: continue
            }
        }
        return false
    }

    /// A session that ended before it took the push leaves it to the next one; here there is none.
    private func endOfSession(_ events: Mailbox<PoolEvent>) -> Fault? {
        for case .closed(_, let address, let fault) in events.drain() {
            return Fault(description: "\(address): no answer: \(fault.logText)")
        }
        return nil
    }

    private func answer(_ outcome: Outcome?, took: Duration, connected: Duration) throws -> Answer {
        switch outcome {
        case .delivered(let apnsID):
            return Answer(status: 200, reason: "", apnsID: apnsID, took: took, connected: connected)
        case .rejected(let rejection):
            return Answer(
                status: rejection.status, reason: rejection.reason, apnsID: rejection.apnsID, timestamp: rejection.timestamp,
                took: took, connected: connected)
        case .notProcessed(let fault): throw Fault(description: "no answer: \(fault.logText); APNs has not processed the push")
        case .maybeProcessed(let fault): throw Fault(description: "no answer: \(fault.logText); APNs may have the push")
        case .timedOut:
            let limit = settings.requestTimeout.roundedSeconds
            throw Fault(description: "no answer within \(limit) s; APNs may have the push")
        case .outdated: throw Fault(description: "its deadline passed before a session could take the push; APNs has not got it")
        case .begun, nil: throw Fault(description: "no answer")
        }
    }
}

extension SingleSend.Answer {
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
