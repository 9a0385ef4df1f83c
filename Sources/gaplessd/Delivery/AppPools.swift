import Platform
import PushPool
import RedisQueue

/// The pools of all apps, in the order of the configuration, with the mailboxes in which they report. An app whose credential
/// cannot be used has no pool.
struct AppPools {
    /// A pool for each app that has got a usable credential, before it is adopted.
    typealias Additions = [Int: SessionPool]

    /// The longest wait for sessions to close: a session that is stuck is left, so that the daemon exits in time.
    static let closingTimeout = Duration.seconds(2)

    private var pools: [SessionPool?]
    /// Of each app alone, in pushes per second; `nil` without a limit.
    private var ownLimits: [Double?]
    let events: [Mailbox<PoolEvent>]
    let deliveries: Mailbox<Delivery>
    private let limits: SharedRateLimits
    /// The time that the pools were last given: from then on sessions take nothing.
    private var sendingDeadline: Instant?

    init(_ configuration: Configuration, limits: SharedRateLimits) throws(ThreadError) {
        deliveries = try Mailbox<Delivery>(thread: "dispatcher")
        self.limits = limits
        var events: [Mailbox<PoolEvent>] = []
        for _ in configuration.settings.apps { events.append(try Mailbox<PoolEvent>(thread: "dispatcher")) }
        (pools, self.events) = (events.map { _ in nil }, events)
        ownLimits = configuration.settings.apps.map(\.ownLimit)
        add(try additions(for: configuration))
    }

    /// Makes the pools that are missing. Their sessions begin to open.
    func additions(for configuration: Configuration) throws(ThreadError) -> Additions {
        var additions: Additions = [:]
        for app in pools.indices where pools[app] == nil {
            guard let setup = configuration.settings.apps[app].setup else { continue }
            additions[app] = try SessionPool(setup, deliveries: deliveries, events: events[app], rateLimits: limits)
        }
        return additions
    }

    private mutating func add(_ additions: Additions) {
        for (app, pool) in additions {
            pool.allowSending(until: sendingDeadline)
            pool.limit(toPushesPerSecond: ownLimits[app])
            pools[app] = pool
        }
    }

    var indices: Range<Int> { pools.indices }

    /// `nil` for an app whose credential cannot be used.
    subscript(app: Int) -> SessionPool? { pools[app] }

    /// The rate limit of all apps together.
    var sharedRate: ClaimBudget.Rate? {
        limits.holding.map { ClaimBudget.Rate(mostWaiting: $0, timePerPush: limits.duration(of: 1)) }
    }

    /// Counts the waiting notifications only if a limit needs them: counting takes a lock.
    func reading(of app: Int) -> PoolHealth.Reading {
        guard let pool = pools[app] else { return PoolHealth.Reading() }
        let limit = Self.lower(pool.calmLimit.map(Double.init), ownLimits[app])
        return PoolHealth.Reading(
            capacity: pool.capacity, limit: limit, waiting: limit != nil || limits.holding != nil ? pool.waiting : 0)
    }

    private static func lower(_ left: Double?, _ right: Double?) -> Double? {
        guard let left, let right else { return left ?? right }
        return min(left, right)
    }

    /// Sets the time from which sessions take nothing. After a stop of the whole process (SIGSTOP, suspend) sessions may run
    /// before the thread of the dispatcher does: they check this time themselves.
    ///
    /// - Parameter deadline: the earliest end of a lease; `nil` without one.
    mutating func allowSending(until deadline: Instant?) {
        if deadline == sendingDeadline { return }
        sendingDeadline = deadline
        for pool in pools { pool?.allowSending(until: deadline) }
    }

    /// Takes notifications back that no session has taken. Where other workers may have the jobs, sessions also write no request
    /// that they have taken.
    func withdraw(_ withdrawal: DispatchEffect.Withdrawal, app: Int) -> [JobID] {
        let ids =
            switch withdrawal {
            case .release: pools[app]?.withdraw()
            case .keep(let ids), .forget(let ids), .giveBack(let ids): pools[app]?.withdraw(Set(ids.map(\.rawValue)))
            }
        switch withdrawal {
        case .keep, .forget: pools[app]?.fence()
        case .release, .giveBack: break
        }
        return ids?.map(JobID.init) ?? []
    }

    /// Whether the session that has ended, if this is its end, presented the credential that is in use now.
    func isCurrent(_ event: PoolEvent, app: Int) -> Bool {
        switch event {
        case .closed(let session, _, _), .dialFailed(let session, _, _, _): usesPresentCredential(session, app: app)
        default: true
        }
    }

    func usesPresentCredential(_ session: SessionID, app: Int) -> Bool {
        pools[app]?.usesPresentCredential(session) ?? true
    }

    /// Adopts limits and credentials. The other apps keep their sessions.
    ///
    /// - Parameter replaced: the apps whose sessions are replaced.
    mutating func adopt(_ new: Configuration, replacing replaced: [Bool], adding additions: Additions) {
        let rates = new.settings.limits
        limits.change(pushesPerSecond: rates.pushesPerSecond, bitsPerSecond: rates.bitsPerSecond)
        ownLimits = new.settings.apps.map(\.ownLimit)
        for app in pools.indices {
            pools[app]?.limit(toPushesPerSecond: ownLimits[app])
            if replaced[app], let setup = new.settings.apps[app].setup { pools[app]?.replace(with: setup) }
        }
        add(additions)
    }

    /// Closes all pools at the same time. Returns for each the numbers of the notifications that no session had taken.
    func close() -> [[UInt64]] {
        for pool in pools { pool?.stop() }
        let end = Instant.now + Self.closingTimeout
        return pools.map { $0?.close(atMost: max(.zero, end - .now)) ?? [] }
    }

    // MARK: Figures

    var figures: [PoolFigures] { pools.map { $0?.figures ?? PoolFigures() } }

    /// Adds what only the pools know.
    func complete(_ snapshot: inout ProcessSnapshot, now: Instant) {
        for app in pools.indices {
            guard let pool = pools[app] else { continue }
            snapshot.apps[app].streams = max(0, snapshot.apps[app].streams - pool.waiting)
            snapshot.apps[app].tokenAge = pool.providerTokenAge(now: now)
        }
    }
}
