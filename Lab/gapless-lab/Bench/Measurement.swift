/// What one run of a row cost.
struct Measurement {
    /// Processor time of what is measured, user and system: the daemon, the pool or h2load.
    var cpu: Duration
    var seconds: Double
    /// Processor time of Redis.
    var redis = Duration.zero
    /// The most resident memory, in bytes.
    var peak: Int
}
