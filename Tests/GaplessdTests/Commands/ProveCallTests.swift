import APNSSimulator
import Harness
import Testing

@testable import gaplessd

@Suite("gaplessd check --prove")
struct ProveCallTests {
    private let stage: CallStage
    private let simulator: Simulator

    init() throws {
        stage = try CallStage()
        let credentials = try Credentials.make(Credentials.Request(topics: ["com.example.app", "com.example.other"]))
        try credentials.write(to: stage.folder.file("credentials"))
        simulator = try Simulator(Simulator.Configuration(credentials: credentials))
        // In the production environment, every token is one of the other.
        simulator.behave { $0.devices = [.init(prefix: "", .environment(.sandbox))] }
    }

    private func prove(_ changes: [String: String?] = [:]) throws -> CallStage.Result {
        let app = """
            {"apns_auth_key_path": "credentials/AuthKey_SIMKEY0001.p8", "apns_auth_key_id": "SIMKEY0001",
             "apns_team_id": "SIMTEAM001", "apns_topic": "com.example.other"}
            """
        let settings = try CallStage.write(
            [
                "apns_server": "\"localhost:\(simulator.port)\"", "apns_ca_path": "\"credentials/ca.pem\"",
                "apns_auth_key_path": "\"credentials/AuthKey_SIMKEY0001.p8\"", "redis_socket_path": stage.redis.socketPath.quoted,
                "apps": "{\"other\": \(app)}",
            ].merging(changes) { $1 }, to: stage.folder.file("prove.json"))
        return try stage.call("check", "--prove", settings: settings)
    }

    @Test func `proves every app by BadDeviceToken`() throws {
        let result = try prove()
        #expect(result.status == 0, "\(result.errors)\(result.output)")
        #expect(result.lines.contains { $0.hasPrefix("prove: proven, com.example.app: 400 BadDeviceToken, ") })
        #expect(result.lines.contains { $0.hasPrefix("prove other: proven, com.example.other: 400 BadDeviceToken, ") })
        let requests = simulator.ledger.entries
        #expect(requests.count == 2 && Set(requests.map(\.token)).count == 2)
        #expect(requests.allSatisfy { $0.token.count == 64 && $0.pushType == "background" && $0.expiration == "0" })
    }

    @Test func `explains each other response and fails`() throws {
        let team = try prove(["apns_team_id": "\"OTHERTEAM1\""])
        #expect(team.status == 78)
        #expect(team.errorLines.contains { $0.hasPrefix("prove: refused: ") && $0.contains("apns_team_id") }, "\(team.errors)")
        let none = try prove(["apns_topic": nil])
        #expect(none.status == 78 && none.errors.contains("prove: refused: no default topic; "), "\(none.errors)")
        simulator.behave { $0.devices = [] }
        let accepted = try prove()
        #expect(accepted.status == 69 && accepted.errors.contains("prove: failed: com.example.app: 200, "), "\(accepted.errors)")
    }

    @Test(arguments: [
        (200, "", CredentialProof.Judgement.unknown), (400, "BadDeviceToken", .proven), (400, "TopicDisallowed", .refused),
        (400, "Other", .unknown), (403, "InvalidProviderToken", .refused), (403, "ExpiredProviderToken", .refused),
        (403, "BadCertificateEnvironment", .refused), (403, "Other", .refused), (410, "Unregistered", .unknown),
        (429, "TooManyProviderTokenUpdates", .unknown), (503, "ServiceUnavailable", .unknown), (302, "", .unknown),
    ])
    func `only BadDeviceToken is a proof`(status: Int, reason: String, judgement: CredentialProof.Judgement) {
        let proof = CredentialProof(status: status, reason: reason)
        #expect(proof.judgement == judgement && !proof.sentence.isEmpty)
    }

    @Test(arguments: ["BadEnvironmentKeyIdInToken", "BadEnvironmentKeyInToken", "BadCertificateEnvironment"])
    func `a credential of the other environment is a fault of apns_server, in both spellings of APNs`(reason: String) {
        let proof = CredentialProof(status: 403, reason: reason)
        #expect(proof.judgement == .refused && proof.sentence.contains("check apns_server"), "\(proof.sentence)")
    }

    @Test func `each response of docs/answers.md has one sentence, and a response that holds the app refuses the settings`() {
        #expect(AnswerTable.rows.count > 40)
        for row in AnswerTable.rows {
            let proof = CredentialProof(status: row.status, reason: row.reason)
            #expect(!proof.sentence.isEmpty && !proof.sentence.contains("."), "\(row)")
            #expect((proof.judgement == .proven) == (row.reason == "BadDeviceToken"), "\(row)")
            let isRefused = row.status == 403 || row.end == "held" && row.status != 429
            #expect(!isRefused || proof.judgement == .refused, "\(row)")
        }
    }
}
