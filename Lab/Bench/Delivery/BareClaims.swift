import Harness
import RedisQueue

/// The reference for the processor time of Redis: a client that only moves 250 jobs at a time to a list, reads them, and removes
/// them. It has no fencing, no recovered lists, no limit of bytes and no counters.
struct BareClaims {
    var jobs: Int

    private static let batch = 250
    private static let claim = """
        redis.call('SORT', KEYS[1], 'BY', 'nosort', 'LIMIT', 0, ARGV[1], 'STORE', KEYS[2])
        redis.call('LTRIM', KEYS[1], ARGV[1], -1)
        """

    /// Returns the processor time of Redis for all jobs.
    ///
    /// - Parameter atEnd: asks Redis for what it has done.
    func measure(atEnd: (inout RedisClient) throws -> Void = { _ in }) throws -> Duration {
        let redis = try RedisServer()
        redis.process.pin(to: 1)
        var settings = QueueSettings(list: Stage.list, server: .unix(path: redis.socketPath))
        settings.timeout = .seconds(30)
        var client = try RedisClient(settings: settings)
        for first in stride(from: 0, to: jobs, by: 500) {
            _ = try client.command(["RPUSH", Stage.list] + (first..<min(jobs, first + 500)).map { BenchJob.text($0) })
        }
        guard let script = try client.command(["SCRIPT", "LOAD", BareClaims.claim]).text else {
            throw LabError(description: "no script")
        }
        _ = try client.command(["CONFIG", "RESETSTAT"])
        let start = preciseProcessorTime(of: redis.process.pid)
        var done = 0
        while done < jobs {
            _ = try client.command(["EVALSHA", script, "2", Stage.list, "held", String(BareClaims.batch)])
            let claimed = try client.command(["LRANGE", "held", "0", "-1"]).items?.count ?? 0
            guard claimed > 0 else { throw LabError(description: "the list was empty after \(done) of \(jobs) jobs") }
            _ = try client.command(["UNLINK", "held"])
            done += claimed
        }
        let time = preciseProcessorTime(of: redis.process.pid) - start
        try atEnd(&client)
        return time
    }
}
