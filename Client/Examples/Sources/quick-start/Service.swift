import GaplessClient
import Logging
import ServiceLifecycle

/// Runs the client until SIGTERM, together with the other services of a server.
func serve(_ client: APNSClient) async throws {
    let group = ServiceGroup(
        services: [client], gracefulShutdownSignals: [.sigterm, .sigint], logger: Logger(label: "frost"))
    try await group.run()
}
