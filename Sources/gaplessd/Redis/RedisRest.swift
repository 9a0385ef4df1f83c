import Platform

/// The rest after each step of a long call, so that Redis can serve the daemons: three times as long as Redis has worked for it.
struct RedisRest {
    private static let factor = 3

    private var begun = Instant.now
    private var worked = Duration.zero

    /// Begins a call to Redis.
    mutating func begin() { begun = .now }

    /// Ends it. Returns its duration.
    @discardableResult
    mutating func end() -> Duration {
        let duration = Instant.now - begun
        worked += duration
        return duration
    }

    /// Rests for the calls since the last rest.
    mutating func sleep() {
        Poller.sleep(worked * Self.factor)
        worked = .zero
    }
}
