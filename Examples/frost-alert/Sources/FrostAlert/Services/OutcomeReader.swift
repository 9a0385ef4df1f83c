internal import Foundation
internal import Logging
internal import ServiceLifecycle

/// Reads what became of the pushes: the stream of results, and the feedback list with the tokens of devices that are gone.
struct OutcomeReader: Service {
    let devices: DeviceTable
    let alerts: AlertTable
    let redis: RedisLink
    let logger: Logger

    func run() async throws {
        await repeatUntilShutdown("Reading outcomes", logger) {
            try await readResults()
            try await readFeedback()
        }
    }

    /// Waits up to a second for results.
    func readResults() async throws {
        try await alerts.record(try await redis.results(after: try await alerts.lastResult()))
    }

    /// Deletes the devices first and the entries then: a crash in between repeats the first step, which changes nothing more.
    func readFeedback() async throws {
        let entries = try await redis.feedback()
        if entries.isEmpty { return }
        let deleted = try await devices.delete(entries.compactMap { GoneDevice(feedback: Data($0)) })
        try await redis.removeFeedback(entries)
        if deleted > 0 { logger.info("\(deleted) devices without the app deleted.") }
    }
}
