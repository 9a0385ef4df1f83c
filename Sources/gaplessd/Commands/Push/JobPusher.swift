import RedisQueue

/// RPUSHes jobs in batches: each is one command, which Redis carries out whole or not at all.
struct JobPusher: ~Copyable {
    static let mostJobs = 500
    /// Of a batch; a single job may be larger.
    private static let mostBytes = 4 << 20

    private var client: RedisClient
    let list: String
    private var batch: [[UInt8]] = []
    private var batchBytes = 0
    /// Jobs that Redis has said to have.
    private(set) var acknowledged = 0

    init(_ client: consuming RedisClient, list: String) {
        self.client = client
        self.list = list
    }

    /// Jobs that were handed over and of which Redis has said nothing: after an error it may have them or not.
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
