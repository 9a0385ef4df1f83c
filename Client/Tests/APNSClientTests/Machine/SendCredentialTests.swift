import Platform
import PushPool
import Testing

@testable import APNSClient

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
