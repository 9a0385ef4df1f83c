internal import DequeModule
public import Platform
internal import Synchronization

/// The rate limits of all pools of a daemon together: `max_rate` and `max_bandwidth`, and its share of `max_rate_fleet` and
/// `max_bandwidth_fleet`, which the owner leases.
public final class SharedRateLimits: Sendable {
    /// The shortest time between a refusal and the next request: several pushes share one wake-up, and delays may be made up
    /// for.
    static let shortestWait = Duration.milliseconds(2)

    private let state: Locked<RateLimits>
    /// Whether there is a limit; without one, callers take no lock.
    private let limits = Atomic<Bool>(false)
    /// Rings when `wantedLease` becomes a length.
    public let leaseWanted: WakeUp
    private let clock: @Sendable () -> Instant

    /// - Parameters: 0 means no limit; bits count payload only.
    public convenience init(pushesPerSecond: Double = 0, bitsPerSecond: Double = 0, leaseWanted: WakeUp = WakeUp()) {
        self.init(pushesPerSecond: pushesPerSecond, bitsPerSecond: bitsPerSecond, leaseWanted: leaseWanted, clock: { .now })
    }

    init(
        pushesPerSecond: Double, bitsPerSecond: Double = 0, leaseWanted: WakeUp = WakeUp(),
        clock: @escaping @Sendable () -> Instant
    ) {
        self.leaseWanted = leaseWanted
        self.clock = clock
        let limits = RateLimits.Limits(pushesPerSecond: pushesPerSecond, bitsPerSecond: bitsPerSecond)
        state = Locked(RateLimits(limits: limits, now: clock()))
        self.limits.store(!limits.isNone, ordering: .relaxed)
    }

    /// Changes the limits from the next push on. Afterwards, call `SessionPool.limitsChanged()` for each pool.
    public func change(pushesPerSecond: Double, bitsPerSecond: Double) {
        change { $0.change(limits: .init(pushesPerSecond: pushesPerSecond, bitsPerSecond: bitsPerSecond), now: clock()) }
    }

    /// Changes the limits that all daemons of the list keep together. 0 means no limit.
    public func changeFleet(pushesPerSecond: Double, bitsPerSecond: Double) {
        change { $0.change(fleet: .init(pushesPerSecond: pushesPerSecond, bitsPerSecond: bitsPerSecond)) }
    }

    private func change(_ body: (inout RateLimits) -> Void) {
        let isLimiting = state.withLock { state in
            body(&state)
            return state.isLimiting
        }
        limits.store(isLimiting, ordering: .relaxed)
    }

    /// The length of the window to lease for the fleet's limits; `nil` if none is needed.
    public var wantedLease: Duration? { state.withLock { $0.wantedLease } }

    /// The fleet's limits allow this process alone to send in this window.
    public func leased(from start: Instant, length: Duration) { state.withLock { $0.leased(from: start, length: length) } }

    /// The number of jobs that need to wait in the pools; `nil` without a limit.
    public var holding: Int? { isLimiting ? state.withLock { $0.halfASecond } : nil }

    /// The time that `count` pushes take under the limits.
    public func duration(of count: Int) -> Duration { state.withLock { $0.duration(of: count) } }

    var isLimiting: Bool { limits.load(ordering: .relaxed) }

    /// Counts a push that may go now and returns `nil`, or returns the time to ask again.
    ///
    /// - Parameter payload: in bytes.
    func admit(payload: Int, now: Instant) -> Instant? {
        let (opening, wantsLease) = state.withLock { state in
            let wanted = state.wantedLease
            let opening = state.admit(payload: payload, now: now).map { max($0, now + SharedRateLimits.shortestWait) }
            return (opening, wanted == nil && state.wantedLease != nil)
        }
        if wantsLease { leaseWanted.ring() }
        return opening
    }
}

/// Two rate limits: pushes per second and bits of payload per second, of this process and of all daemons of its list.
struct RateLimits {
    /// The time after which a caller asks again while a lease is missing.
    private static let leaseWait = Duration.milliseconds(5)

    /// 0 means no limit.
    struct Limits: Sendable, Equatable {
        var pushesPerSecond = 0.0
        var bitsPerSecond = 0.0

        var isNone: Bool { pushesPerSecond <= 0 && bitsPerSecond <= 0 }
    }

    private(set) var limits: Limits
    private var pushes: RateLimiter?
    private var bits: RateLimiter?
    /// `nil` without a limit for the fleet.
    private var fleet: FleetShare?
    /// The usual payload in bits. It starts with the limit of most push types, so that a low bandwidth does not hold thousands
    /// of jobs.
    private var usualBits = 4096.0 * 8

    init(limits: Limits, now: Instant) {
        self.limits = limits
        change(limits: limits, now: now)
    }

    /// Changes the limits from the next push on. Units of the last second count towards the new limits.
    mutating func change(limits: Limits, now: Instant) {
        self.limits = limits
        pushes.change(to: limits.pushesPerSecond > 0 ? limits.pushesPerSecond : nil, now: now)
        bits.change(to: limits.bitsPerSecond > 0 ? limits.bitsPerSecond : nil, now: now)
    }

    /// Changes the limits of the fleet. Leased windows end, because they were leased under other limits.
    mutating func change(fleet limits: Limits) {
        if limits != fleet?.limits ?? Limits() { fleet = limits.isNone ? nil : FleetShare(limits: limits) }
    }

    /// Whether any limit is set.
    var isLimiting: Bool { !limits.isNone || fleet != nil }

    /// The length of the window to lease for the fleet's limits; `nil` if none is needed.
    var wantedLease: Duration? { fleet?.wanted }

    /// The fleet's limits allow this process alone to send in this window.
    mutating func leased(from start: Instant, length: Duration) { fleet?.leased(from: start, length: length) }

    /// Counts a push that may go now and returns `nil`, or returns the time to ask again.
    ///
    /// - Parameter payload: in bytes.
    mutating func admit(payload: Int, now: Instant) -> Instant? {
        let size = Double(payload * 8)
        let opening = max(pushes?.opening(for: 1, now: now) ?? now, bits?.opening(for: size, now: now) ?? now)
        if opening > now { return opening }
        if fleet != nil {
            guard let opening = fleet?.opening(bits: size, now: now) else { return now + RateLimits.leaseWait }
            if opening > now { return opening }
            fleet?.count(bits: size, now: now)
        }
        pushes?.count(1, now: now)
        bits?.count(size, now: now)
        usualBits += (size - usualBits) / 64
        return nil
    }

    /// The number of pushes in half a second, at least one: more need not be claimed.
    var halfASecond: Int { Int(max(1, min(perSecond / 2, Double(Int32.max)))) }

    /// The time that `count` pushes take.
    func duration(of count: Int) -> Duration { .seconds(Double(count) / perSecond) }

    private var perSecond: Double {
        var rate = Double.infinity
        for limits in [limits, fleet?.limits ?? Limits()] {
            if limits.pushesPerSecond > 0 { rate = min(rate, limits.pushesPerSecond) }
            if limits.bitsPerSecond > 0 { rate = min(rate, limits.bitsPerSecond / max(1, usualBits)) }
        }
        return rate
    }
}

/// This process' share of the rate limits of all daemons of a list: leased windows of time, in which it alone may send.
///
/// The windows of all daemons do not overlap, so that together they keep the limits. Within a window the pushes are spread
/// evenly.
struct FleetShare {
    /// The usual length of a window. A push that needs more time under the limits gets a longer one.
    static let usualLength = Duration.milliseconds(100)
    /// A push may be this late; then its place is lost, because the next window may belong to another daemon.
    private static let slack = Duration.milliseconds(20)
    /// The slack could move pushes of two windows into one second: this part of the limits is not used.
    private static let margin = 0.975
    /// The next window is leased when the leased time ends within this time.
    private static let lead = Duration.milliseconds(100)

    private struct Window {
        /// The time of the next push.
        var next: Instant
        var end: Instant
    }

    let limits: RateLimits.Limits
    private var windows: Deque<Window> = []
    /// The length of the window to lease; `nil` if none is needed.
    private(set) var wanted: Duration?

    init(limits: RateLimits.Limits) { self.limits = limits }

    /// Returns the time from which a push may go: now or earlier means at once. `nil` if a lease is needed first.
    ///
    /// - Parameter bits: of payload.
    mutating func opening(bits: Double, now: Instant) -> Instant? {
        let time = time(of: bits)
        while let window = windows.first {
            windows[0].next = max(window.next, now - FleetShare.slack)
            if windows[0].next + time <= window.end { return windows[0].next }
            windows.removeFirst()
        }
        wanted = max(FleetShare.usualLength, time)
        return nil
    }

    /// Counts a push that goes now, after `opening` returned a time that has passed.
    mutating func count(bits: Double, now: Instant) {
        if windows.isEmpty { return }
        windows[0].next += time(of: bits)
        if let last = windows.last, last.end - now < FleetShare.lead { wanted = max(FleetShare.usualLength, time(of: bits)) }
    }

    /// Redis has given this window to this process.
    mutating func leased(from start: Instant, length: Duration) {
        windows.append(Window(next: start, end: start + length))
        wanted = nil
    }

    /// The time that one push takes under both limits.
    private func time(of bits: Double) -> Duration {
        var seconds = 0.0
        if limits.pushesPerSecond > 0 { seconds = 1 / limits.pushesPerSecond }
        if limits.bitsPerSecond > 0 { seconds = max(seconds, bits / limits.bitsPerSecond) }
        return .seconds(min(seconds / FleetShare.margin, 1e6))
    }
}
