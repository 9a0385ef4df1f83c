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

    /// - Parameter known: provider token news that was reported before.
    init(_ app: Settings.App, known: [TokenNews] = []) throws(Failure) {
        guard let credential = app.credential else { throw Failure(reason: "the credential cannot be used") }
        var settings = app.pool
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
