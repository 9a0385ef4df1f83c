import RedisQueue

/// What the dispatcher needs of the settings.
struct DaemonPlan: Sendable, Equatable {
    var policy: RetryPolicy
    /// Whether each delivered push is logged.
    var logsSuccesses: Bool
    /// Whether log lines cut device tokens and leave `data` out.
    var redacts: Bool
    /// Whether every final outcome goes into the results stream.
    var keepsResults: Bool
    var drainTimeout: Duration

    init(_ settings: Settings) {
        policy = RetryPolicy(limit: settings.retryLimit, delays: settings.retryDelays)
        logsSuccesses = settings.log.successes
        redacts = settings.log.redacts
        keepsResults = settings.redis.resultsKey != nil
        drainTimeout = settings.drainTimeout
    }
}
