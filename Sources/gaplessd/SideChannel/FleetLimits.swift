import Platform
import PushPool
import RedisQueue

/// Leases this daemon's share of `max_rate_fleet` and `max_bandwidth_fleet` from Redis, on a thread and a connection of its own.
///
/// Without Redis there is no lease, and nothing is sent under these limits. The thread starts with the first such limit.
final class FleetLimits: Sendable {
    /// The wait after a failure, and before the next request if other daemons have leased the next windows.
    private static let pause = (failure: Duration.milliseconds(500), later: Duration.milliseconds(50))

    private struct State {
        var settings: QueueSettings
        var tls: TLSContext?
        /// Grows with each change, so that the thread connects with the new settings.
        var version = 0
        var isRunning = false
        var isStopped = false
    }

    private let limits: SharedRateLimits
    private let log: Log
    private let start: Fleet.ThreadStart
    private let state: Locked<State>

    init(
        _ limits: SharedRateLimits, _ configuration: Configuration, log: Log, start: @escaping Fleet.ThreadStart
    ) throws(ThreadError) {
        self.limits = limits
        (self.log, self.start) = (log, start)
        state = Locked(State(settings: configuration.settings.queues[0], tls: configuration.redisTLS))
        try prepare(configuration)
        follow(configuration)
    }

    /// Starts the thread, if the settings need it.
    func prepare(_ configuration: Configuration) throws(ThreadError) {
        guard configuration.settings.fleetLimits != Settings.Limits() else { return }
        let starts = state.withLock { state in
            defer { state.isRunning = true }
            return !state.isRunning
        }
        do throws(ThreadError) {
            if starts { try start("fleet limits") { self.run() } }
        } catch {
            state.withLock { $0.isRunning = false }
            throw error
        }
    }

    /// Adopts the settings, after `prepare`.
    func follow(_ configuration: Configuration) {
        let fleet = configuration.settings.fleetLimits
        state.withLock { state in
            state.settings = configuration.settings.queues[0]
            state.tls = configuration.redisTLS
            state.version += 1
        }
        limits.changeFleet(pushesPerSecond: fleet.pushesPerSecond, bitsPerSecond: fleet.bitsPerSecond)
        limits.leaseWanted.ring()
    }

    /// Ends the thread when it wakes next.
    func stop() {
        state.withLock { $0.isStopped = true }
        limits.leaseWanted.ring()
    }

    private func run() {
        var poller = Poller()
        var hasFailed = false
        while true {
            let current = state.withLock { $0 }
            if current.isStopped { return }
            do throws(RedisError) {
                try serve(current, &poller, &hasFailed)
            } catch {
                if !hasFailed {
                    log.warning(
                        "max_rate_fleet: no share of the limits from Redis (\(error)); sending waits for it.",
                        .fleetLimitLost)
                }
                hasFailed = true
                sleep(&poller, atMost: FleetLimits.pause.failure)
            }
        }
    }

    /// Leases on one connection until the settings change, the thread ends, or Redis closes a connection that has served: it
    /// closes idle ones (`timeout`). If Redis is down, the next connection fails.
    private func serve(_ current: State, _ poller: inout Poller, _ hasFailed: inout Bool) throws(RedisError) {
        var client = try RedisClient(settings: current.settings, tls: current.tls)
        var leases = RateLeases(Keys(list: current.settings.list), now: .now)
        var hasServed = false
        while state.withLock({ !$0.isStopped && $0.version == current.version }) {
            guard let length = limits.wantedLease else {
                sleep(&poller, atMost: nil)
                continue
            }
            let reply: RateLeases.Reply
            do throws(RedisError) {
                reply = try leases.lease(length, &client)
            } catch {
                if hasServed, error.isLostConnection { return }
                throw error
            }
            hasServed = true
            switch reply {
            case .window(let start): limits.leased(from: start, length: length)
            case .later: sleep(&poller, atMost: FleetLimits.pause.later)
            }
            if hasFailed { log.info("max_rate_fleet: Redis gives shares of the limits again.", .fleetLimitRestored) }
            hasFailed = false
        }
    }

    private func sleep(_ poller: inout Poller, atMost limit: Duration?) {
        poller.reset()
        if limit == nil { poller.add(limits.leaseWanted.descriptor, for: .read) }
        poller.wait(until: limit.map { .now + $0 })
        if limit == nil { limits.leaseWanted.listen() }
    }
}
