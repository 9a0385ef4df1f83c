import Testing

@testable import APNSClient

@Suite("A configuration")
struct ConfigurationTests {
    private let secret = "-----BEGIN PRIVATE KEY-----secret"

    private func fault(_ change: (inout APNSConfiguration) -> Void) -> APNSError? {
        var configuration = APNSConfiguration(
            server: .sandbox, authentication: .signingKey(pem: secret, keyID: "ABCDE12345", teamID: "ABCDE12345"))
        change(&configuration)
        do throws(APNSError) {
            _ = try configuration.settings()
            return nil
        } catch { return error }
    }

    @Test func `names the fault of each value`() {
        #expect(fault { _ in } == nil)
        #expect(fault { $0.server = .host("") } != nil)
        #expect(fault { $0.server = .host("a b") } != nil)
        #expect(fault { $0.server = .host("localhost", port: 0) } != nil)
        #expect(fault { $0.poolSize = .fixed(0) } != nil)
        #expect(fault { $0.poolSize = .automatic(most: 1001) } != nil)
        #expect(fault { $0.retries.delays = [] } != nil)
        #expect(fault { $0.retries.limit = -1 } != nil)
        #expect(fault { $0.deadline = .zero } != nil)
        #expect(fault { $0.pushesPerSecond = .nan } != nil)
        #expect(fault { $0.pushesPerSecond = 0 } != nil)
        #expect(fault { $0.requestTimeout = .zero } != nil)
        #expect(fault { $0.pushesPerSecond = 1e-300 } != nil)
        #expect(fault { $0.retries.delays = [.seconds(Int64.max)] } != nil)
        #expect(fault { $0.requestTimeout = .seconds(Int64.max) } != nil)
        #expect(fault { $0.deadline = nil } == nil)
        #expect(fault { $0.proxy = APNSProxy(host: "proxy", port: 3128, user: "u", password: "a:b") } == nil)
        #expect(fault { $0.proxy = APNSProxy(host: "", port: 3128) } != nil)
        #expect(fault { $0.proxy = APNSProxy(host: "proxy", port: 0) } != nil)
        #expect(fault { $0.proxy = APNSProxy(host: "proxy", port: 3128, user: "a:b") } != nil)
    }

    @Test func `shows no secret`() {
        var text = ""
        dump(APNSAuthentication.signingKey(pem: secret, keyID: "ABCDE12345", teamID: "ABCDE12345"), to: &text)
        dump(APNSAuthentication.pkcs12(Array(secret.utf8), password: secret), to: &text)
        let proxy = APNSProxy(host: "proxy", port: 3128, user: "u", password: secret)
        dump(proxy, to: &text)
        text += "\(proxy) \(String(reflecting: proxy))"
        text += "\(APNSAuthentication.certificate(pem: secret, key: secret, passphrase: secret))"
        #expect(!text.contains("secret"))
    }

    @Test func `with a wrong key is an error of the initialiser`() {
        let configuration = APNSConfiguration(
            server: .production, authentication: .signingKey(pem: secret, keyID: "ABCDE12345", teamID: "ABCDE12345"))
        #expect(throws: APNSError.self) { try APNSClient(configuration) }
    }
}
