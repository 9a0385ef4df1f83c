import APNSClient
import Foundation

struct FrostAlert: Encodable {
    struct Content: Encodable {
        struct Alert: Encodable {
            var title: String
            var body: String
        }
        var alert: Alert
        var sound = "default"
    }
    var aps: Content
}

func makeClient(keyFile: String) throws -> APNSClient {
    let key = try String(contentsOfFile: keyFile, encoding: .utf8)
    var configuration = APNSConfiguration(
        server: .sandbox, authentication: .signingKey(pem: key, keyID: "ABCDE12345", teamID: "TEAM567890"),
        topic: "com.example.weather")
    configuration.poolSize = .automatic()
    return try APNSClient(configuration)
}

func warn(_ token: String, with client: APNSClient) async throws {
    var push = try Push(
        to: .device(token), payload: FrostAlert(aps: .init(alert: .init(title: "Frost Alert", body: "-2 °C tonight"))))
    push.collapseID = "frost"
    push.expiration = .after(.seconds(6 * 3600))
    do throws(APNSError) {
        let receipt = try await client.send(push)
        print("accepted as \(receipt.apnsID ?? "?")")
    } catch {
        switch (error.token, error.fate) {
        case (.dead, _): print("delete this token: \(error)")
        case (_, .notSent): print("safe to send again: \(error)")
        case (_, .maybeSent): print("may have been delivered: \(error)")
        case (_, .rejected): print("refused: \(error)")
        }
    }
}

func warn(_ tokens: [String], with client: APNSClient) async throws {
    let alert = FrostAlert(aps: .init(alert: .init(title: "Frost Alert", body: "-2 °C tonight")))
    let first = try Push(to: .device("00"), payload: alert)
    let pushes = tokens.compactMap { try? first.addressed(to: .device($0)) }
    for await result in client.results(ofSending: pushes) {
        if case .failure(let error) = result.result, error.token == .dead { print("delete \(result.push.target)") }
    }
}

func patientRule() -> RetryRule {
    RetryRule(limit: 5, delays: [.seconds(2), .seconds(30)]) { failure in
        // A push that may have been sent is not sent again: an alarm that rings twice is worse than none.
        failure.error.fate == .maybeSent ? .giveUp : failure.standard
    }
}
