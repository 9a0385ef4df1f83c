import Clocks
import Glibc
import PushPool
import Threads

/// Opens one session as the daemon would, up to the server's SETTINGS, and closes it again. Nothing is pushed.
enum APNSProbe {
    /// - Parameter news: what has been told of provider tokens before.
    static func run(_ app: Settings.App, _ own: AppCredential, told news: [TokenNews]) throws(ProbeError) -> String {
        var settings = app.pool
        (settings.sessions, settings.mostSessions) = (1, 1)
        let events = Mailbox<PoolEvent>()
        let pool: SessionPool
        do {
            pool = try SessionPool(settings: settings, credential: own.credential, deliveries: Mailbox(), events: events)
        } catch {
            throw .refused("\(error)")
        }
        defer { _ = pool.close() }
        return try firstWord(events, settings, told: news)
    }

    private static func firstWord(
        _ events: Mailbox<PoolEvent>, _ settings: PoolSettings, told: [TokenNews]
    ) throws(ProbeError) -> String {
        // The dial has its own limit; some more for the names and the news of it.
        let deadline = Instant.now + settings.dialTimeout + .seconds(1)
        var poller = Poller()
        while .now < deadline {
            for event in events.drain() {
                switch event {
                case .opened(_, let address, let streams): return "ok, \(address), \(streams.counted("stream"))"
                case .dialFailed(_, let address, let fault, _), .closed(_, let address, let fault):
                    throw ProbeError(fault, at: address)
                case .tokens(let news): if !told.contains(news) { news.warn() }
                case .capacityChanged, .resized, .braked, .brakeLifted: continue
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
    /// A token that cannot be kept is worth a word also where there is no log.
    func warn() {
        if case .notKept = self { StandardStreams.print(["warning: \(logText.printable)"], to: STDERR_FILENO) }
    }
}

extension ProbeError {
    fileprivate init(_ fault: SessionError, at address: String) {
        switch fault {
        case .dial(let why, isCredential: true): self = .failed("\(address): \(why)")
        case .dial(let why, isCredential: false): self = .unavailable("\(address): \(why)")
        case .untrusted(let why): self = .failed("\(address): \(why); look at apns_ca_path and apns_server")
        case .goAway(_, let reason): self = .refused("\(address): GOAWAY \(reason)")
        case .streamReset(let code): self = .unavailable("\(address): RST_STREAM \(code)")
        case .connectionLost(let why): self = .unavailable("\(address): \(why)")
        case .pingUnanswered: self = .unavailable("\(address): PING unanswered")
        case .closedByUs, .retired: self = .unavailable("\(address): closed")
        }
    }
}
