import Foundation
import GaplessClient

func makeClient(keyFile: String) throws -> APNSClient {
    let key = try String(contentsOfFile: keyFile, encoding: .utf8)
    var configuration = APNSConfiguration(
        server: .sandbox, authentication: .signingKey(pem: key, keyID: "ABCDE12345", teamID: "TEAM567890"),
        topic: "com.example.weather")
    configuration.poolSize = .automatic()
    return try APNSClient(configuration)
}

func warn(_ token: String, with client: some PushSender) async throws {
    var push = try Push(to: .device(token), alert: .init(title: "Frost Alert", body: "-2 °C tonight", sound: .standard))
    push.collapseID = "frost"
    push.expiration = .after(.seconds(6 * 3600))
    do throws(APNSError) {
        let receipt = try await client.send(push)
        print("accepted as \(receipt.apnsID ?? "?")")
    } catch {
        switch error.fate {
        case _ where error.token == .dead: print("delete this token: \(error)")
        case _ where error.isSafeToRetry: print("safe to send again: \(error)")
        case .maybeSent: print("may have been delivered: \(error)")
        case .rejected, .notSent: print("do not send this push again: \(error)")
        }
    }
}

/// A payload of your own is any value that becomes a JSON object.
struct Forecast: Encodable {
    struct Content: Encodable {
        var alert: String
        var sound = "default"
    }
    var aps: Content
    var celsius: Double
}

func warn(_ tokens: [String], with client: APNSClient) async throws {
    let first = try Push(to: .device("00"), payload: Forecast(aps: .init(alert: "-2 °C tonight"), celsius: -2))
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

/// Stands in for the client in a test of your code.
struct FailingSender: PushSender {
    func send(_ push: Push) async throws(APNSError) -> Receipt {
        throw APNSError(.rejected, .rejected, message: "410 Unregistered", token: .dead)
    }
}
