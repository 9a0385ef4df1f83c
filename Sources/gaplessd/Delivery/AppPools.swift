import Platform
import PushPool
import RedisQueue

/// The pools of the apps, by the numbers of the apps, with the mailboxes in which they report. An app that has no jobs, or whose
/// credential cannot be used, has no pool.
struct AppPools {
    /// An event of the pool of an app.
    struct Event: Sendable {
        var app: Int
        var event: PoolEvent
    }

    /// The longest wait for sessions to close: a session that is stuck is left, so that the daemon exits in time.
    static let closingTimeout = Duration.seconds(2)
    /// The time after which a pool without a thread or a descriptor is tried again.
    static let retryInterval = Duration.seconds(1)

    private var pools: [SessionPool?] = []
    /// For the next pool of each app; `nil` if its credential cannot be used.
    private var setups: [SessionPool.Setup?] = []
    /// Of each app alone, in pushes per second; `nil` without a limit.
    private var ownLimits: [Double?] = []
    /// The apps with a pool.
    private(set) var open: [Int] = []
    /// Pools whose sessions wait for their last streams.
    private var finishing: [(app: Int, pool: SessionPool)] = []
    /// Apps whose pool could not be made, and the time of the next attempt.
    private var failed: Set<Int> = []
    private(set) var nextAttempt: Instant?
    let events: Mailbox<Event>
    let deliveries: Mailbox<Delivery>
    private let limits: SharedRateLimits
    /// The time that the pools were last given: from then on sessions take nothing.
    private var sendingDeadline: Instant?

    init(_ configuration: Configuration, limits: SharedRateLimits) throws(ThreadError) {
        deliveries = try Mailbox<Delivery>(thread: "dispatcher")
        events = try Mailbox<Event>(thread: "dispatcher")
        self.limits = limits
        for (app, new) in configuration.settings.apps.enumerated() { set(new, at: app) }
        if configuration.settings.appsIdleTimeout > .zero { return }
        for app in pools.indices where setups[app] != nil { try make(app) }
    }

    /// The app has these settings from its next pool on. A present pool gets them by `replace`.
    mutating func set(_ app: Settings.App, at number: Int) {
        if number == pools.count {
            pools.append(nil)
            setups.append(nil)
            ownLimits.append(nil)
        }
        (setups[number], ownLimits[number]) = (app.setup, app.ownLimit)
        pools[number]?.limit(toPushesPerSecond: app.ownLimit)
    }

    private mutating func make(_ app: Int) throws(ThreadError) {
        guard pools[app] == nil, let setup = setups[app] else { return }
        let pool = try SessionPool(setup, deliveries: deliveries, rateLimits: limits) { [events] in
            events.send(Event(app: app, event: $0))
        }
        pool.allowSending(until: sendingDeadline)
        pool.limit(toPushesPerSecond: ownLimits[app])
        pools[app] = pool
        open.insert(app, at: open.firstIndex { $0 > app } ?? open.count)
    }

    /// Makes the pool of an app. Its sessions begin to open.
    ///
    /// - Throws: if there is no thread. Then `retry` tries it again.
    mutating func open(_ app: Int, now: Instant) throws(ThreadError) {
        do throws(ThreadError) {
            try make(app)
        } catch {
            failed.insert(app)
            nextAttempt = nextAttempt ?? now + Self.retryInterval
            throw error
        }
    }

    /// Makes the pools that could not be made before.
    mutating func retry(now: Instant) {
        guard let next = nextAttempt, next <= now else { return }
        nextAttempt = nil
        let apps = failed
        failed = []
        for app in apps.sorted() { try? open(app, now: now) }
    }

    /// Ends the pool of an app once its streams have ended. Its jobs were withdrawn.
    mutating func finish(_ app: Int) {
        failed.remove(app)
        finishing.removeAll { $0.pool.isDone }
        guard let pool = pools[app].take() else { return }
        open.removeAll { $0 == app }
        pool.finish()
        finishing.append((app, pool))
    }

    /// The pools of an app, also those whose sessions wait for their last streams.
    private func all(of app: Int) -> [SessionPool] {
        [pools[app]].compactMap(\.self) + finishing.filter { $0.app == app }.map(\.pool)
    }

    var indices: Range<Int> { pools.indices }

    /// `nil` for an app without a pool.
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
        for app in open { pools[app]?.allowSending(until: deadline) }
        for (_, pool) in finishing { pool.allowSending(until: deadline) }
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
        case .keep, .forget: for pool in all(of: app) { pool.fence() }
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
        pools[app]?.usesPresentCredential(session) ?? false
    }

    /// Adopts limits and credentials. The other apps keep their sessions.
    ///
    /// - Parameter replaced: the apps whose sessions are replaced.
    mutating func adopt(_ new: Configuration, replacing replaced: [Bool]) {
        let rates = new.settings.limits
        limits.change(pushesPerSecond: rates.pushesPerSecond, bitsPerSecond: rates.bitsPerSecond)
        let apps = new.settings.apps
        for app in apps.indices {
            let isSame = app < pools.count && !replaced[app] && apps[app].credential != nil
            if !isSame || ownLimits[app] != apps[app].ownLimit { set(apps[app], at: app) }
        }
        for app in open {
            pools[app]?.limitsChanged()
            if replaced[app] { replace(app) }
        }
    }

    /// Replaces the sessions of an app, if it has a pool and a credential.
    func replace(_ app: Int) {
        if let setup = setups[app] { pools[app]?.replace(with: setup) }
    }

    /// Closes all pools at the same time. Returns for each the numbers of the notifications that no session had taken.
    func close() -> [[UInt64]] {
        for pool in pools { pool?.stop() }
        for (_, pool) in finishing { pool.stop() }
        let end = Instant.now + Self.closingTimeout
        for (_, pool) in finishing { _ = pool.close(atMost: max(.zero, end - .now)) }
        return pools.map { $0?.close(atMost: max(.zero, end - .now)) ?? [] }
    }

    // MARK: Figures

    func figures(of apps: [Int]) -> [(app: Int, pool: PoolFigures)] { apps.map { ($0, pools[$0]?.figures ?? PoolFigures()) } }

    /// Adds what only the pools know.
    func complete(_ snapshot: inout ProcessSnapshot, now: Instant) {
        for app in open {
            guard let pool = pools[app] else { continue }
            snapshot.apps[app].streams = max(0, snapshot.apps[app].streams - pool.waiting)
            snapshot.apps[app].tokenAge = pool.providerTokenAge(now: now)
        }
    }
}
