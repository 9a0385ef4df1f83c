import JSONBytes
import PushPool

/// The conclusion from APNs' response to a push with an invented token about the settings of an app.
struct CredentialProof {
    /// Sends one background push, which no device would show, to an invented device token.
    static func run(_ configuration: Configuration, app: Int) throws(ProbeError) -> String {
        guard let topic = configuration.settings.apps[app].defaultTopic else {
            throw .refused("no default topic; set apns_topic, or use 'send --topic'")
        }
        let response: SingleSend.Response
        do {
            var reader = JobReader(retryLimit: 0, appNames: [])
            let job = try reader.read(job(token: inventedToken(), topic: topic))
            response = try SingleSend(configuration, app: app).run(job)
        } catch let error as SingleSend.SendError {
            throw .unavailable(error.description)
        } catch {
            throw .unavailable("\(error)")
        }
        let proof = CredentialProof(status: response.status, reason: response.reason)
        let name = response.reason.isEmpty ? "\(response.status)" : "\(response.status) \(response.reason)"
        switch proof.judgement {
        case .proven: return "proven, \(topic): \(name), \(proof.sentence)"
        case .refused: throw .refused("\(topic): \(name), \(proof.sentence)")
        case .unknown: throw .failed("\(topic): \(name), \(proof.sentence)")
        }
    }

    private static func inventedToken() -> String {
        (0..<4).map { _ in
            let digits = String(UInt64.random(in: 0...UInt64.max), radix: 16)
            return String(repeating: "0", count: 16 - digits.count) + digits
        }.joined()
    }

    private static func job(token: String, topic: String) -> [UInt8] {
        JSONValue.members([
            "token": .string(token), "topic": .string(topic), "expiry": .integer(0),
            "push_type": .string(PushTopic(topic).pushType ?? "background"),
            "data": .members(["aps": .members(["content-available": .integer(1)])]),
        ]).bytes
    }

    enum Judgement: Equatable {
        /// Key, team, topic and environment are right.
        case proven
        /// The settings are wrong.
        case refused
        /// The response says nothing about the settings.
        case unknown
    }

    let judgement: Judgement
    /// The rest of a line after the response.
    let sentence: String

    /// - Parameter reason: of APNs; empty for 200.
    init(status: Int, reason: String) {
        (judgement, sentence) =
            switch (status, reason) {
            case (400, "BadDeviceToken"): (.proven, "the credential, the topic and the environment are right")
            case (200..<300, _): (.unknown, "the server accepted an invented token, which APNs does not")
            case (400, "TopicDisallowed"), (400, "BadTopic"), (400, "MissingTopic"):
                (.refused, "the credential is not valid for this topic; check apns_topic")
            case (400, "DeviceTokenNotForTopic"), (410, _):
                (.unknown, "the invented token exists by chance; run the check again")
            case (403, "InvalidProviderToken"):
                (.refused, "APNs rejects the key; check apns_auth_key_path, apns_auth_key_id and apns_team_id")
            case (403, "MissingProviderToken"):
                (.refused, "APNs received no credential; check apns_auth_key_path or apns_cert_path")
            case (403, "ExpiredProviderToken"): (.refused, "the time of the provider token is wrong; check the clock")
            case (403, "UnrelatedKeyIdInToken"):
                (.refused, "the key id is not valid for this team or topic; check apns_auth_key_id and apns_team_id")
            case (403, "BadCertificateEnvironment"),
                (403, _) where HoldReason.badEnvironmentKey.contains(reason):
                (.refused, "the credential is for the other environment; check apns_server")
            case (403, "BadCertificate"): (.refused, "APNs rejects the certificate; check apns_cert_path or apns_p12_path")
            case (403, _): (.refused, "APNs rejects the credential; check the apns_* keys of the app")
            case (429, "TooManyProviderTokenUpdates"):
                (.unknown, "the key was used with several provider tokens within 20 minutes; try again later")
            case (429, _): (.unknown, "APNs limits the requests; try again later")
            case (500..., _): (.unknown, "APNs cannot answer now; try again later")
            default: (.unknown, "APNs rejected the push for another reason, which proves nothing about the settings")
            }
    }
}
