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

    @Test mutating func `resumes with a rejection of the probe alone`() {
        fixture.warmUp()
        _ = fixture.reject(fixture.send().id, 403, "InvalidProviderToken")
        _ = fixture.advance(.seconds(5))
        let probe = fixture.send().id
        #expect(fixture.send().effects.errors.map(\.cause) == [.held])
        #expect(fixture.reject(probe, 400, "BadPriority").errors.map(\.cause) == [.rejected])
        #expect(fixture.send().effects == [])
    }

    @Test(arguments: [nil, RetryRule.Decision.resend(after: .seconds(7)), .giveUp])
    func `holds when APNs wants fewer pushes, whatever happens to the send`(decision: RetryRule.Decision?) {
        var fixture = MachineFixture()
        fixture.warmUp()
        let busy = Outcome.rejected(Rejection(status: 429, reason: "Busy", retryAfter: .seconds(7)))
        #expect(fixture.end(fixture.send().id, busy, decision: decision).contains(.takeBack))
        let errors = fixture.send().effects.errors
        #expect(errors.map(\.retryAfter) == [.seconds(7)])
        #expect(errors.map(\.message) == ["APNs asks for fewer pushes (429 Busy)"])
    }

    @Test mutating func `waits longer after a probe of the credential that was lost`() {
        fixture.warmUp()
        _ = fixture.reject(fixture.send().id, 403, "InvalidProviderToken")
        _ = fixture.advance(.seconds(5))
        let probe = fixture.send().id
        _ = fixture.tell { $0.cancelled(probe, now: $1, &$2) }
        _ = fixture.tell { $0.withdrew(probe, now: $1, &$2) }
        #expect(fixture.send().effects.errors.map(\.retryAfter) == [.seconds(10)])
    }

    @Test mutating func `is not held by a dial that fails without a fault of the credential`() {
        fixture.warmUp()
        let refused = SessionError.dial("connection refused", isCredential: false)
        _ = fixture.tell {
            $0.happened(.dialFailed(SessionID(1), address: "a", refused, retryIn: .seconds(1)), isCurrent: true, now: $1, &$2)
        }
        #expect(fixture.send().effects == [])
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

@Suite("Another credential")
struct SendCredentialTests {
    private var fixture = MachineFixture()
    private let revoked = Outcome.rejected(Rejection(status: 403, reason: "InvalidProviderToken"))

    private mutating func replace() -> [SendEffect] {
        fixture.tell { machine, _, _ in machine.replacedCredential(topic: PushTopic("com.example.other")) }
    }

    @Test mutating func `ends a hold`() {
        fixture.warmUp()
        _ = fixture.end(fixture.send().id, revoked)
        #expect(fixture.send().effects.errors.map(\.cause) == [.held])
        #expect(replace() == [])
        let id = fixture.send().id
        #expect(fixture.pooled.last == id)
    }

    @Test mutating func `is not held for a rejection of the earlier one, and the push goes out again`() {
        fixture.warmUp()
        let id = fixture.send().id
        _ = replace()
        for outcome in [revoked, .rejected(Rejection(status: 403, reason: "ExpiredProviderToken"))] {
            fixture.pooled = []
            #expect(fixture.end(id, outcome, isCurrent: false) == [])
            #expect(fixture.advance(.milliseconds(999)) == [])
            #expect(fixture.pooled == [])
            _ = fixture.advance(.milliseconds(1))
            #expect(fixture.pooled == [id])
        }
        #expect(fixture.send().effects == [])
    }

    @Test mutating func `is not held for a failed session or dial of the earlier one`() {
        _ = replace()
        let refused = SessionError.dial("certificate refused", isCredential: true)
        let dial = PoolEvent.dialFailed(SessionID(1), address: "a", refused, retryIn: .seconds(1))
        let effects = fixture.tell { $0.happened(dial, isCurrent: false, now: $1, &$2) }
        #expect(effects == [])
        #expect(fixture.send().effects == [])
        let other = fixture.tell { $0.happened(dial, isCurrent: true, now: $1, &$2) }
        #expect(other.contains(.takeBack))
    }

    @Test mutating func `does not hide that a cancelled push was refused`() {
        fixture.warmUp()
        let id = fixture.send().id
        _ = fixture.tell { $0.cancelled(id, now: $1, &$2) }
        _ = replace()
        #expect(fixture.end(id, revoked, isCurrent: false).errors.map(\.response?.status) == [403])
        #expect(fixture.send().effects == [])
    }

    @Test mutating func `stays held when the earlier one is accepted`() {
        fixture.warmUp()
        let (old, new) = (fixture.send().id, fixture.send().id)
        _ = replace()
        #expect(fixture.end(new, revoked).errors.count == 1)
        #expect(fixture.end(old, .delivered(apnsID: nil), isCurrent: false).receipts.count == 1)
        #expect(fixture.send().effects.errors.count == 1)
    }
}
