internal import Logging
internal import ServiceLifecycle

/// Pushes stored alerts to the list of gaplessd.
///
/// A crash between the push and the mark in the database repeats the push. Redis skips the jobs that it already has.
struct AlertSender: Service {
    /// Alerts in one step: Redis serves no other client meanwhile.
    private static let batch = 250
    private static let pause = Duration.milliseconds(200)

    let alerts: AlertTable
    let redis: RedisLink
    let logger: Logger

    func run() async throws {
        await repeatUntilShutdown("Pushing to Redis", logger) {
            if try await sendBatch() == 0 { try await Task.sleep(for: Self.pause) }
        }
    }

    /// Returns the number of alerts in the batch.
    @discardableResult
    func sendBatch() async throws -> Int {
        let batch = try await alerts.unqueued(atMost: Self.batch)
        guard let last = batch.last else { return 0 }
        try await redis.push(try batch.map { ($0.number, try $0.job) }, from: try await alerts.outbox())
        try await alerts.markQueued(upTo: last.number)
        return batch.count
    }
}
