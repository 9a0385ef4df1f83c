import APNSClient
import APNSSimulator
import Foundation

let credentials = try Credentials.make()
let folder = FileManager.default.temporaryDirectory.appending(path: "first-push").path
_ = try credentials.write(to: folder)
let simulator = try Simulator(.init(credentials: credentials))

let key = credentials.providerKey
var configuration = APNSConfiguration(
    server: .host("localhost", port: simulator.port),
    authentication: .signingKey(pem: String(decoding: key.pem, as: UTF8.self), keyID: key.keyID, teamID: key.teamID),
    topic: "com.example.weather")
configuration.extraRootsPath = folder + "/ca.pem"
let client = try APNSClient(configuration)
try await client.start()

struct Payload: Encodable {
    struct Content: Encodable {
        var alert: String
        var sound = "default"
    }
    var aps: Content
}

var push = try Push(to: .device("00fc13adff785122"), payload: Payload(aps: .init(alert: "Frost tonight")))
push.expiration = .after(.seconds(6 * 3600))

do throws(APNSError) {
    let receipt = try await client.send(push)
    print("accepted as \(receipt.apnsID ?? "?")")
} catch {
    print(error)
}

simulator.plan(token: "00fc13adff785122", answers: [.reason(.unregistered)])
do throws(APNSError) {
    _ = try await client.send(push)
} catch {
    if error.token == .dead { print("delete the token: \(error)") }
}

await client.shutdown()
print("The simulator received \(simulator.ledger.entries.count) pushes.")
