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
