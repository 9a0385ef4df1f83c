import APNSSimulator
import Harness
import PushPool
import Testing

@testable import gaplessd

private let day: Int64 = 86_400
private let end: Int64 = 2_000_000_000

private func facts(notAfter: Int64 = end) -> CertificateFacts {
    CertificateFacts(
        subject: "s", userID: nil, topics: [], notBefore: 0, notAfter: notAfter, isForDevelopment: true, isForProduction: true)
}

@Suite("Certificates that expire")
struct CertificateWatchTests {
    @Test func `one warning each: 30, 7 and 1 days before, and at expiry`() {
        var watch = CertificateWatch([(key: "apns_cert_path", facts: facts())], now: end - 100 * day)
        var warned: [Int64: String] = [:]
        for hour in (-100 * 24...48).map(Int64.init) {
            for warning in watch.warnings(now: end + hour * 3600) { warned[hour] = warning }
        }
        // Whole days count: 30 days remain until the 31st day before expiry is over.
        let expected: [Int64: String] = [
            -743: "expires in 30 days", -191: "expires in 7 days", -47: "expires in 1 day", 1: "has expired, and APNs rejects it",
        ]
        #expect(
            warned
                == expected.mapValues {
                    "apns_cert_path: the certificate \($0); create a new one in the developer account"
                })
    }

    @Test func `the warning of the start is not repeated`() {
        var watch = CertificateWatch([(key: "k", facts: facts())], now: end - 20 * day)
        #expect(watch.warnings(now: end - 10 * day).isEmpty)
        #expect(watch.warnings(now: end - 7 * day).count == 1)
    }

    @Test func `they are checked every day, and at each step`() {
        let watch = CertificateWatch([(key: "k", facts: facts())], now: end - 100 * day)
        #expect(watch.wait(now: end - 100 * day) == day)
        #expect(watch.wait(now: end - 31 * day - 100) == 101)
        #expect(watch.wait(now: end + 5) == day)
        #expect(CertificateWatch([], now: 0).wait(now: 0) == nil)
    }

    @Test func `after a long sleep only the last step causes a warning`() {
        var watch = CertificateWatch([(key: "k", facts: facts())], now: end - 100 * day)
        #expect(watch.warnings(now: end + 1).map { $0.contains("has expired") } == [true])
        #expect(watch.warnings(now: end + 2).isEmpty)
    }

    @Test func `a running daemon warns when a step begins`() throws {
        let stage = try Stage(validity: -3600...(8 * 86_400 + 3))
        let daemon = try stage.start([
            "apns_auth_key_path": nil, "apns_auth_key_id": nil, "apns_team_id": nil,
            "apns_cert_path": "\"credentials/client.pem\"", "apns_key_path": "\"credentials/client-key.pem\"",
        ])
        #expect(daemon.says("apns_cert_path: the certificate expires in 8 days; "))
        #expect(daemon.says("[Gapless I]"))
        #expect(daemon.says("apns_cert_path: the certificate expires in 7 days; "))
        #expect(daemon.stop()?.status == 0)
    }
}
