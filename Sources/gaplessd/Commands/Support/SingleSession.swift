import Glibc
import Platform
import PushPool

/// A pool with one session, for a call. `close` ends it.
struct SingleSession {
    /// The reason why there is no pool.
    struct Failure: Error {
        var reason: String
    }

    enum Opening {
        case opened(address: String, streams: Int)
        case ended(address: String, SessionError)
    }

    let pool: SessionPool
    let events: Mailbox<PoolEvent>
    let deliveries: Mailbox<Delivery>
    private let known: [TokenNews]
    private let settings: PoolSettings

    /// The session ended before the outcome of a request.
    struct End: Error {
        var address: String
        var fault: SessionError
    }

    /// - Parameters:
    ///   - server: the settings of the session; `nil` for those of the app's pushes.
    ///   - known: provider token news that was reported before.
    init(_ app: Settings.App, at server: PoolSettings? = nil, known: [TokenNews] = []) throws(Failure) {
        guard let credential = app.credential else { throw Failure(reason: "the credential cannot be used") }
        var settings = server ?? app.pool
        (settings.sessions, settings.mostSessions, settings.collectsAPNSIDs) = (1, 1, true)
        (self.settings, self.known) = (settings, known)
        do {
            (events, deliveries) = (try Mailbox(thread: "apns pool"), try Mailbox(thread: "apns pool"))
            pool = try SessionPool(settings: settings, credential: credential, deliveries: deliveries, events: events)
        } catch {
            throw Failure(reason: "\(error)")
        }
    }

    func close() { _ = pool.close() }

    /// Waits until the session is open, or has failed. Returns `nil` without news in time.
    func opening() -> Opening? {
        // The dial has its own timeout; one more second covers name resolution and the event's delivery.
        let deadline = Instant.now + settings.dialTimeout + .seconds(1)
        repeat {
            for event in events.drain() {
                switch event {
                case .opened(_, let address, let streams): return .opened(address: address, streams: streams)
                case .dialFailed(_, let address, let fault, _), .closed(_, let address, let fault):
                    return .ended(address: address, fault)
                case .tokens(let news): if !known.contains(news) { news.warn() }
                case .capacityChanged, .resized, .slowed, .slowdownEnded, .credentialRefused, .limited: continue
                }
            }
        } while wait(until: deadline)
        return nil
    }

    /// Sends a request and waits for its outcome. Returns `nil` without one in time: the session reports a request timeout
    /// after a PING has shown whether the connection is alive. There is no second session to take the request.
    func outcome(of request: PushPool.Notification) throws(End) -> Outcome? {
        var batch = [request]
        pool.push(&batch)
        let deadline = Instant.now + settings.requestTimeout + settings.pingTimeout + .seconds(1)
        repeat {
            // In this order: a session reports its attempts before it reports its end.
            let end = events.drain().first { if case .closed = $0 { true } else { false } }
            if let outcome = deliveries.drain().first?.outcome { return outcome }
            if case .closed(_, let address, let fault) = end { throw End(address: address, fault: fault) }
        } while wait(until: deadline)
        return nil
    }

    /// Waits for an event or a delivery. Returns `false` after the deadline.
    func wait(until deadline: Instant) -> Bool {
        guard .now < deadline else { return false }
        var poller = Poller()
        for descriptor in [events.wakeDescriptor, deliveries.wakeDescriptor] { poller.add(descriptor, for: .read) }
        poller.wait(until: deadline)
        return true
    }
}

extension TokenNews {
    /// Warns on stderr if provider tokens cannot be stored. For calls, which have no log.
    func warn() {
        if case .notKept = self { StandardStreams.print(["warning: \(logText.printable)"], to: STDERR_FILENO) }
    }
}
