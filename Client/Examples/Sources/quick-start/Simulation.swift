import APNSSimulator
import Foundation
import GaplessClient

/// Sends a push to a simulated APNs, which answers that the token is no longer valid.
func trySimulator() async throws {
    let credentials = try Credentials.make()
    let folder = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
    _ = try credentials.write(to: folder.path)
    defer { try? FileManager.default.removeItem(at: folder) }

    let simulator = try Simulator(.init(credentials: credentials))
    simulator.plan(token: "00fc13adff78", answers: [.reason(.unregistered)])

    let key = credentials.providerKey
    var configuration = APNSConfiguration(
        server: .host("localhost", port: simulator.port),
        authentication: .signingKey(pem: String(decoding: key.pem, as: UTF8.self), keyID: key.keyID, teamID: key.teamID),
        topic: "com.example.app")
    configuration.extraRootsPath = folder.appending(path: "ca.pem").path
    let client = try APNSClient(configuration)
    try await warn("00fc13adff78", with: client)
    try await warn(["0a", "0b"], with: client)
    await client.shutdown()
    print("the simulator accepted \(simulator.totals.accepted) pushes")
    simulator.stop()
}

@main
struct Main {
    static func main() async throws {
        try await trySimulator()
        try await tryObservers()
    }
}
