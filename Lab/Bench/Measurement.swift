/// The cost of one run.
struct Measurement {
    /// User and system time of the daemon, the pool or h2load.
    var cpu: Duration
    var seconds: Double
    /// Processor time of Redis.
    var redis = Duration.zero
    /// The peak resident memory, in bytes.
    var peak: Int
}
