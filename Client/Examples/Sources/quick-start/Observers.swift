import APNSSimulator
import Foundation
import GaplessClient
import Logging
import Metrics
import MetricsTestKit
import Synchronization

/// Passes the events of a client to the logger and the metrics of the process.
func observe(_ configuration: inout APNSConfiguration) {
    configuration.logger = Logger(label: "apns")
    configuration.metrics = MetricsSystem.factory
}

/// Sends four pushes to a simulated APNs, which rejects the token of the second one and the credential of the third one, so that
/// the client holds the fourth one. Fails if the metrics or the log do not say so.
func tryObservers() async throws {
    let metrics = TestMetrics()
    MetricsSystem.bootstrap(metrics)
    LoggingSystem.bootstrap { _ in LineCollector() }

    let credentials = try Credentials.make()
    let folder = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
    _ = try credentials.write(to: folder.path)
    defer { try? FileManager.default.removeItem(at: folder) }
    let simulator = try Simulator(.init(credentials: credentials))
    simulator.plan(token: "0b", answers: [.reason(.unregistered)])
    simulator.plan(token: "0c", answers: [.reason(.invalidProviderToken)])

    let key = credentials.providerKey
    var configuration = APNSConfiguration(
        server: .host("localhost", port: simulator.port),
        authentication: .signingKey(pem: String(decoding: key.pem, as: UTF8.self), keyID: key.keyID, teamID: key.teamID),
        topic: "com.example.app")
    configuration.extraRootsPath = folder.appending(path: "ca.pem").path
    observe(&configuration)
    let client = try APNSClient(configuration)
    for token in ["0a", "0b", "0c", "0d"] {
        let push = try Push(to: .device(token), alert: .init(title: "Frost Alert"))
        do { _ = try await client.send(push) } catch {}
    }
    await client.shutdown()
    simulator.stop()

    let counted = ["accepted", "rejected", "held", "invalid"].map { outcome in
        metrics.counterTotal(label: "apns_client_pushes", dimensions: [("outcome", outcome)])
    }
    let sessions = try metrics.expectMeter("apns_client_sessions").values
    guard counted == [1, 2, 1, 0], sessions.max() ?? 0 >= 1, sessions.last == 0 else {
        throw Unexpected(description: "metrics: \(counted), sessions \(sessions)")
    }
    let lines = LineCollector.lines.withLock { $0 }
    for event in ["Provider token signed", "Session to APNs opened", "APNs client is held", "Session to APNs closed"] {
        guard lines.contains(where: { $0.hasPrefix(event) }) else {
            throw Unexpected(description: "no line: \(event) in \(lines)")
        }
    }
    print("the log has \(lines.count) lines, and the metrics count \(counted[0]) accepted push")
}

struct Unexpected: Error, CustomStringConvertible { let description: String }

/// Keeps the lines of the log.
private struct LineCollector: LogHandler {
    static let lines = Mutex<[String]>([])

    var logLevel = Logger.Level.debug
    var metadata: Logger.Metadata = [:]

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        Self.lines.withLock { $0.append("\(event.message) \(event.metadata ?? [:])") }
    }
}
