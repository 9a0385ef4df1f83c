import Platform
import PushPool
import RedisQueue

/// Leases this daemon's share of `max_rate_fleet` and `max_bandwidth_fleet` from Redis. Without Redis there is no lease, and
/// nothing is sent under these limits.
struct FleetLimits: SideDuty {
    /// The wait if other daemons have leased the next windows.
    private static let pause = Duration.milliseconds(50)

    private let limits: SharedRateLimits
    private let keys: Keys
    private let log: Log
    /// With the estimate of the clock of the present server.
    private var leases: RateLeases
    private var connection = 0
    private var next = Instant.now
    private var hasFailed = false

    init(_ limits: SharedRateLimits, _ keys: Keys, log: Log) {
        (self.limits, self.keys, self.log) = (limits, keys, log)
        leases = RateLeases(keys, now: .now)
    }

    var wanted: WakeUp? { limits.leaseWanted }

    func due(isWanted: Bool, now: Instant) -> Instant? { limits.wantedLease == nil ? nil : next }

    mutating func step(_ client: inout RedisClient, connection: Int) throws(RedisError) {
        guard let length = limits.wantedLease else { return }
        if connection != self.connection { (leases, self.connection) = (RateLeases(keys, now: .now), connection) }
        switch try leases.lease(length, &client) {
        case .window(let start): limits.leased(from: start, length: length)
        case .later: next = .now + Self.pause
        }
        if hasFailed { log.info("max_rate_fleet: Redis gives shares of the limits again.", .fleetLimitRestored) }
        hasFailed = false
    }

    mutating func failed(_ error: RedisError) {
        if hasFailed { return }
        hasFailed = true
        log.warning("max_rate_fleet: no share of the limits from Redis (\(error)); sending waits for it.", .fleetLimitLost)
    }
}
