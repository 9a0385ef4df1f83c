import PushPool
import RedisQueue
import SystemTime
import Threads

/// The pools of all apps, in the order of the configuration, with the mailboxes in which they report.
struct AppPools {
    /// The longest wait for sessions to close: a session that is stuck is left, so that the daemon exits in time.
    static let closingTimeout = Duration.seconds(2)

    private let pools: [SessionPool]
    let events: [Mailbox<PoolEvent>]
    let deliveries: Mailbox<Delivery>
    private let limits: SharedRateLimits
    /// The time that the pools were last given: from then on sessions take nothing.
    private var sendingDeadline: Instant?

    init(_ configuration: Configuration, limits: SharedRateLimits) throws(ThreadError) {
        deliveries = try Mailbox<Delivery>(thread: "dispatcher")
        self.limits = limits
        var pools: [SessionPool] = []
        var events: [Mailbox<PoolEvent>] = []
        for credential in configuration.credentials {
            let mailbox = try Mailbox<PoolEvent>(thread: "dispatcher")
            pools.append(try SessionPool(credential.setup, deliveries: deliveries, events: mailbox, rateLimits: limits))
            events.append(mailbox)
        }
        (self.pools, self.events) = (pools, events)
    }

    var indices: Range<Int> { pools.indices }

    subscript(app: Int) -> SessionPool { pools[app] }

    /// The rate limit of all apps together.
    var sharedRate: ClaimBudget.Rate? {
        limits.holding.map { ClaimBudget.Rate(mostWaiting: $0, timePerPush: limits.duration(of: 1)) }
    }

    /// Counts the waiting notifications only if a limit needs them: counting takes a lock.
    func reading(of app: Int) -> AppState.PoolReading {
        let pool = pools[app]
        let limit = pool.calmLimit
        return AppState.PoolReading(
            capacity: pool.capacity, limit: limit, waiting: limit != nil || limits.holding != nil ? pool.waiting : 0)
    }

    /// Sets the time from which sessions take nothing. After a stop of the whole process (SIGSTOP, suspend) sessions may run
    /// before the thread of the dispatcher does: they check this time themselves.
    ///
    /// - Parameter deadline: the earliest end of a lease; `nil` without one.
    mutating func allowSending(until deadline: Instant?) {
        if deadline == sendingDeadline { return }
        sendingDeadline = deadline
        for pool in pools { pool.allowSending(until: deadline) }
    }

    /// Takes notifications back that no session has taken.
    func withdraw(_ withdrawal: DispatchEffect.Withdrawal, app: Int) -> [JobID] {
        let ids =
            switch withdrawal {
            case .release: pools[app].withdraw()
            case .keep(let ids), .forget(let ids), .giveBack(let ids): pools[app].withdraw(Set(ids.map(\.rawValue)))
            }
        return ids.map(JobID.init)
    }

    /// Whether the session that has ended, if this is its end, presented the credential that is in use now.
    func isCurrent(_ event: PoolEvent, app: Int) -> Bool {
        switch event {
        case .closed(let session, _, _), .dialFailed(let session, _, _, _): pools[app].usesPresentCredential(session)
        default: true
        }
    }

    /// Adopts limits and credentials.
    func adopt(_ new: Configuration) {
        let rates = new.settings.limits
        limits.change(pushesPerSecond: rates.pushesPerSecond, bitsPerSecond: rates.bitsPerSecond)
        for app in pools.indices {
            pools[app].limitsChanged()
            pools[app].replace(with: new.credentials[app].setup)
        }
    }

    /// Closes all pools at the same time. Returns for each the numbers of the notifications that no session had taken.
    func close() -> [[UInt64]] {
        for pool in pools { pool.stop() }
        let end = Instant.now + Self.closingTimeout
        return pools.map { $0.close(atMost: max(.zero, end - .now)) }
    }

    // MARK: Figures

    var figures: [PoolFigures] { pools.map(\.figures) }

    /// Adds what only the pools know.
    func complete(_ snapshot: inout ProcessSnapshot, now: Instant) {
        for app in pools.indices {
            snapshot.apps[app].streams = max(0, snapshot.apps[app].streams - pools[app].waiting)
            snapshot.apps[app].tokenAge = pools[app].providerTokenAge(now: now)
        }
    }
}
