import RedisQueue

/// RPUSHes jobs in batches. Each batch is one command, which Redis executes atomically.
struct JobPusher: ~Copyable {
    static let mostJobs = 500
    /// The limit of a batch. A single job may be larger.
    private static let mostBytes = 4 << 20

    private var client: RedisClient
    let list: String
    private var batch: [[UInt8]] = []
    private var batchBytes = 0
    /// Number of jobs that Redis has acknowledged.
    private(set) var acknowledged = 0

    init(_ client: consuming RedisClient, list: String) {
        self.client = client
        self.list = list
    }

    /// Number of jobs without an acknowledgement. After an error, Redis may or may not have them.
    var unconfirmed: Int { batch.count }

    mutating func push(_ job: [UInt8]) throws(RedisError) {
        if batch.count == Self.mostJobs || (!batch.isEmpty && batchBytes + job.count > Self.mostBytes) { try flush() }
        batch.append(job)
        batchBytes += job.count
    }

    mutating func flush() throws(RedisError) {
        if batch.isEmpty { return }
        let reply = try client.command([Array("RPUSH".utf8), Array(list.utf8)] + batch)
        guard reply.integer != nil else { throw .notRedis("no length after RPUSH") }
        acknowledged += batch.count
        batch.removeAll(keepingCapacity: true)
        batchBytes = 0
    }
}
