import Glibc
import Platform
import PushPool

/// Opens one session to APNs, waits for the server's SETTINGS and closes it. Sends no push.
enum APNSProbe {
    /// - Parameter known: provider token news that was reported before.
    static func run(_ app: Settings.App, known: [TokenNews]) throws(ProbeError) -> String {
        let settings = app.pool.withOneSession
        let events: Mailbox<PoolEvent>
        let pool: SessionPool
        guard let credential = app.credential else { throw .refused("the credential cannot be used") }
        do {
            events = try Mailbox(thread: "apns pool")
            pool = try SessionPool(
                settings: settings, credential: credential, deliveries: Mailbox(thread: "apns pool"), events: events)
        } catch {
            throw .refused("\(error)")
        }
        defer { _ = pool.close() }
        let result = try result(events, settings, known: known)
        return result + estimate(pool, app.pool)
    }

    /// The longest wait for the response to a PING.
    private static let timeout = Duration.seconds(2)

    /// Returns the pushes per second that the windows admit at the measured distance, or nothing without a response to a PING.
    private static func estimate(_ pool: SessionPool, _ settings: PoolSettings) -> String {
        let deadline = Instant.now + timeout
        var poller = Poller()
        while .now < deadline {
            let figures = pool.figures
            guard let roundTrip = figures.shortestRoundTrip else {
                poller.reset()
                poller.wait(until: .now + .milliseconds(10))
                continue
            }
            let milliseconds = (roundTrip / .milliseconds(1) * 10).rounded() / 10
            let sessions = settings.isAutomatic ? settings.mostSessions : settings.sessions
            // With a signing key, APNs admits one stream until it has accepted a push, and then as many as with a certificate.
            let streams = pool.capacity > 1 ? pool.capacity : settings.maxConcurrentStreams
            let sizes = [("200 B", 200), ("1 KiB", 1024), ("4 KiB", 4096)]
            let rates = sizes.map { name, payload in
                let reach = Reach(roundTrip: roundTrip, window: figures.window, streams: streams, payload: payload)
                let rate = Int(min(reach.pushesPerSecond * Double(sessions), 1e9))
                return "\(rate.rounded.commas) pushes/s of \(name)"
            }
            return ", round trip \(milliseconds) ms: \(sessions.counted("session")) can carry \(rates.joined(separator: ", "))"
        }
        return ""
    }

    private static func result(
        _ events: Mailbox<PoolEvent>, _ settings: PoolSettings, known: [TokenNews]
    ) throws(ProbeError) -> String {
        // The dial has its own timeout; one more second covers name resolution and the event's delivery.
        let deadline = Instant.now + settings.dialTimeout + .seconds(1)
        var poller = Poller()
        while .now < deadline {
            for event in events.drain() {
                switch event {
                case .opened(_, let address, let streams): return "ok, \(address), \(streams.counted("stream"))"
                case .dialFailed(_, let address, let fault, _), .closed(_, let address, let fault):
                    throw ProbeError(fault, at: address)
                case .tokens(let news): if !known.contains(news) { news.warn() }
                case .capacityChanged, .resized, .slowed, .slowdownEnded, .credentialRefused, .limited: continue
                }
            }
            poller.reset()
            poller.add(events.wakeDescriptor, for: .read)
            poller.wait(until: deadline)
        }
        throw .unavailable("\(settings.host):\(settings.port) within \(settings.dialTimeout)")
    }
}

extension TokenNews {
    /// Warns on stderr if provider tokens cannot be stored. For calls, which have no log.
    func warn() {
        if case .notKept = self { StandardStreams.print(["warning: \(logText.printable)"], to: STDERR_FILENO) }
    }
}

extension ProbeError {
    fileprivate init(_ fault: SessionError, at address: String) {
        switch fault {
        case .dial(let why, isCredential: true): self = .failed("\(address): \(why)")
        case .dial(let why, isCredential: false): self = .unavailable("\(address): \(why)")
        case .untrusted(let why): self = .failed("\(address): \(why); check apns_ca_path and apns_server")
        case .goAway(_, let reason): self = .refused("\(address): GOAWAY \(reason)")
        case .streamReset(let code): self = .unavailable("\(address): RST_STREAM \(code)")
        case .connectionLost(let why): self = .unavailable("\(address): \(why)")
        case .pingUnanswered: self = .unavailable("\(address): no response to PING")
        case .closedByUs, .retired: self = .unavailable("\(address): closed")
        }
    }
}
