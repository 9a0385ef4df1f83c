import APNSSimulator
import Harness
import Platform
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

    @Test func `one that is set later is looked at once, and brings the next look forward`() {
        var (now, clock) = (Instant.now, WallClock(seconds: Double(end - 100 * day)))
        func pass(_ seconds: Int64) { (now, clock.seconds) = (now + .seconds(seconds), clock.seconds + Double(seconds)) }
        var watch = CertificateWatch((0..<3).map { (key: "k\($0)", facts: facts()) }, now: clock.unixSeconds)
        #expect(watch.look(now: now, wallClock: clock).isEmpty)
        #expect(watch.deadline(now: now) == now + .seconds(day))
        pass(100)
        // The reload has warned of 30 days.
        watch.set((key: "new", facts: facts(notAfter: end - 93 * day + 60)), at: 1, now: clock.unixSeconds)
        #expect(watch.deadline(now: now) == now)
        #expect(watch.look(now: now, wallClock: clock).isEmpty)
        let next = watch.deadline(now: now)
        #expect(next.map { now < $0 && $0 < now + .seconds(day) } == true)
        watch.set(nil, at: 0, now: clock.unixSeconds)
        _ = watch.look(now: now, wallClock: clock)
        #expect(watch.deadline(now: now) == next, "the other looks stay")
        while let due = watch.deadline(now: now), clock.unixSeconds < end - 93 * day + 60 {
            pass(Int64((due - now) / .seconds(1)))
            if watch.look(now: now, wallClock: clock).contains(where: { $0.contains("new: the certificate expires in 1 day;") }) {
                return
            }
        }
        Issue.record("no warning")
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
