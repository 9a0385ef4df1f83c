import Platform
import PushPool
import Testing

@testable import APNSClient

@Suite("The circuit breaker of a client")
struct SendHoldTests {
    private var fixture = MachineFixture()

    /// Rejects 20 tokens; returns the number of one more send that is in the pool.
    private mutating func hold() -> SendID {
        fixture.warmUp()
        let ids = (0..<21).map { _ in fixture.send().id }
        for id in ids.dropLast() { _ = fixture.reject(id, 400, "BadDeviceToken") }
        return ids[20]
    }

    @Test mutating func `holds after twenty suspect tokens and ten seconds, and takes back what was not sent`() throws {
        let last = hold()
        #expect(fixture.advance(.seconds(1)) == [])
        #expect(fixture.advance(.seconds(9)) == [.takeBack])
        let error = try #require(fixture.tell { $0.withdrew(last, now: $1, &$2) }.errors.first)
        #expect(error.cause == .held)
        #expect(error.fate == .notSent)
        #expect(error.retryAfter == .seconds(5))
        #expect(fixture.send().effects.errors.map(\.cause) == [.held])
    }

    @Test mutating func `keeps the doubt of a push that it takes back`() throws {
        fixture.warmUp()
        let id = fixture.send().id
        _ = fixture.end(id, .maybeProcessed(.connectionLost("reset")))
        #expect(fixture.pooled == [id, id])
        _ = fixture.reject(fixture.send().id, 403, "InvalidProviderToken")
        let error = try #require(fixture.tell { $0.withdrew(id, now: $1, &$2) }.errors.first)
        #expect(error.cause == .held)
        #expect(error.fate == .maybeSent)
        #expect(error.attempts == 1)
    }

    @Test mutating func `lets one probe through, and resumes with its acceptance`() {
        let last = hold()
        _ = fixture.advance(.seconds(10))
        _ = fixture.tell { $0.withdrew(last, now: $1, &$2) }
        fixture.pooled = []
        _ = fixture.advance(.seconds(5))
        let probe = fixture.send()
        #expect(probe.effects == [])
        #expect(fixture.pooled == [probe.id])
        #expect(fixture.send().effects.errors.map(\.cause) == [.held])
        #expect(fixture.end(probe.id, .delivered(apnsID: nil)).receipts.count == 1)
        let next = fixture.send().id
        #expect(fixture.pooled == [probe.id, next])
    }

    @Test mutating func `probes again after a probe without a response`() {
        let last = hold()
        _ = fixture.advance(.seconds(10))
        _ = fixture.tell { $0.withdrew(last, now: $1, &$2) }
        _ = fixture.advance(.seconds(5))
        let probe = fixture.send().id
        _ = fixture.tell { $0.cancelled(probe, now: $1, &$2) }
        _ = fixture.end(probe, .maybeProcessed(.streamReset(code: 8)))
        #expect(fixture.send().effects.errors.map(\.retryAfter) == [.seconds(5)])
        _ = fixture.advance(.seconds(5))
        #expect(fixture.send().effects == [])
    }

    @Test func `ignores suspect tokens if the configuration says so`() {
        var fixture = MachineFixture { $0.holdsAfterSuspectTokens = false }
        for _ in 0..<30 {
            let id = fixture.send().id
            #expect(fixture.reject(id, 400, "BadDeviceToken").errors.map(\.token) == [.suspect])
        }
        #expect(fixture.send().effects == [])
    }

    @Test mutating func `holds after a 403, on new sessions`() {
        fixture.warmUp()
        let id = fixture.send().id
        let effects = fixture.reject(id, 403, "InvalidProviderToken")
        #expect(effects.errors.map(\.response?.reason) == ["InvalidProviderToken"])
        #expect(effects.dropFirst() == [.takeBack, .reconnect])
        #expect(fixture.send().effects.errors.map(\.cause) == [.held])
    }

    @Test func `fails what waits when a dial shows a fault of the credential`() {
        var fixture = MachineFixture(capacity: 0)
        let id = fixture.send().id
        let refused = SessionError.dial("certificate refused", isCredential: true)
        let effects = fixture.tell {
            $0.happened(.dialFailed(SessionID(1), address: "a", refused, retryIn: .seconds(1)), isCurrent: true, now: $1, &$2)
        }
        #expect(effects.errors.map(\.cause) == [.held])
        #expect(effects.contains(.takeBack))
        #expect(fixture.end(id, .delivered(apnsID: nil)) == [])
    }

    @Test mutating func `renews an expired provider token, and sends again`() {
        fixture.warmUp()
        let id = fixture.send().id
        let effects = fixture.reject(id, 403, "ExpiredProviderToken")
        #expect(effects == [.renewToken(id, refusedOn: MachineFixture.session)])
        _ = fixture.tell { $0.renewed(id, .renewed, now: $1, &$2) }
        #expect(fixture.pooled == [id, id])
        _ = fixture.reject(id, 403, "ExpiredProviderToken")
        let second = fixture.tell { $0.renewed(id, .tooYoung, now: $1, &$2) }
        #expect(second.errors.map(\.response?.reason) == ["ExpiredProviderToken"])
        #expect(fixture.send().effects.errors.map(\.cause) == [.held])
    }
}
