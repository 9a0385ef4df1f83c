import APNSClient
import APNSSimulator
import Harness

/// A simulator, and clients of it.
final class ClientFixture: Sendable {
    let simulator: Simulator
    let credentials: Credentials
    private let folder = TemporaryFolder()

    init(_ change: (inout Simulator.Configuration) -> Void = { _ in }) throws {
        credentials = try Credentials.make()
        try credentials.write(to: folder.path)
        var configuration = Simulator.Configuration(credentials: credentials)
        change(&configuration)
        simulator = try Simulator(configuration)
    }

    func configuration(port: Int? = nil) -> APNSConfiguration {
        let key = credentials.providerKey
        var configuration = APNSConfiguration(
            server: .host("127.0.0.1", port: port ?? simulator.port),
            authentication: .signingKey(pem: String(decoding: key.pem, as: UTF8.self), keyID: key.keyID, teamID: key.teamID),
            topic: "com.example.app")
        configuration.extraRootsPath = folder.file("ca.pem")
        configuration.retries.delays = [.milliseconds(10)]
        return configuration
    }

    func client(_ change: (inout APNSConfiguration) -> Void = { _ in }) throws -> APNSClient {
        var configuration = configuration()
        change(&configuration)
        return try APNSClient(configuration)
    }

    static func push(_ number: Int = 1) throws(APNSError) -> Push {
        try Push(to: .device(deviceToken(number)), json: Array(#"{"aps":{"alert":"Hi"}}"#.utf8))
    }

    /// Answers every request of a device in this way.
    func answer(_ number: Int, _ answers: Answer...) { simulator.plan(token: deviceToken(number), answers: answers) }
}

/// Waits for a condition as `waitUntil` does, but on a thread for tests that block: the client's tasks need the threads of Swift
/// concurrency.
func eventually(_ condition: @Sendable () -> Bool) async -> Bool {
    await withTaskExecutorPreference(ThreadPool.shared) { waitUntil(condition) }
}

/// Returns the error of a call.
func failure<Value>(_ body: () async throws(APNSError) -> Value) async -> APNSError? {
    do throws(APNSError) {
        _ = try await body()
        return nil
    } catch { return error }
}
