import PushPool
import Testing

@testable import APNSClient

@Suite("A send without a result")
struct PendingSendTests {
    private var send: PendingSend

    init() throws {
        var cache = SharedHeadersCache()
        let request = try PushRequest(MachineFixture.push, topic: PushTopic("com.example.app"), cache: &cache, time: 0)
        send = PendingSend(request, deadline: nil)
    }

    @Test mutating func `enters the pool once, and leaves it once`() {
        #expect(send.receipt(Acceptance(apnsID: "ID")) == nil)
        let entries = (0..<2).map { _ in send.enterPool(SendID(7))?.id }
        #expect(entries == [7, nil])
        let exits = (0..<2).map { _ in send.leavePool() }
        #expect(exits == [true, false])
    }

    @Test mutating func `keeps the doubt and the last response of earlier requests`() {
        let lost = send.failed(.maybeProcessed(.connectionLost("reset")), on: SessionID(1))
        #expect(lost.cause == .connectionLost)
        #expect(lost.fate == .maybeSent)
        let busy = send.failed(.rejected(Rejection(status: 503, reason: "", retryAfter: .seconds(4))), on: SessionID(2))
        #expect(busy.response?.status == 503)
        let refused = send.failed(.notProcessed(.connectionLost("reset")), on: SessionID(3))
        #expect(refused.fate == .maybeSent)
        #expect(refused.response?.status == 503)
        #expect(refused.retryAfter == .seconds(4))
        #expect(refused.attempts == 3)
        _ = send.enterPool(SendID(7))
        #expect(send.receipt(Acceptance(apnsID: "ID")) == Receipt(apnsID: "ID", attempts: 4, mayBeDuplicate: true))
        #expect(send.error(ended: .cancelled, .notSent).message == "the task was cancelled, after: \(refused.message)")
    }

    @Test mutating func `counts no request for a push that expired here`() {
        let error = send.failed(.outdated, on: SessionID(1))
        #expect(error.attempts == 0)
        #expect(error.fate == .notSent)
    }

    @Test mutating func `has the standing of its resends`() {
        send.standing.resent(isCounted: true, mayDuplicate: false)
        send.standing.resent(isCounted: false, mayDuplicate: true)
        #expect(send.standing == RetryPolicy.Standing(attempts: 1, resends: 1, doubtful: 1, isTopicFromSettings: true))
    }
}

@Suite("The next step after a failed request")
struct NextStepTests {
    private func step(
        _ standard: RetryPolicy.Decision, own: RetryRule.Decision? = nil, mayDuplicate: Bool = false, mayResend: Bool = true,
        isCurrent: Bool = true
    ) -> NextStep {
        NextStep(standard, own: own, mayDuplicate: mayDuplicate, mayResend: mayResend, isCurrent: isCurrent)
    }

    @Test func `is that of the standard rule`() {
        #expect(step(.deadLetter(.dead)) == .fail)
        #expect(step(.suspect) == .fail)
        #expect(step(.expire) == .fail)
        #expect(step(.resend(mayDuplicate: false)) == .resend(after: .zero, isCounted: false, mayDuplicate: false))
        #expect(step(.postpone(.seconds(1))) == .resend(after: .seconds(1), isCounted: false, mayDuplicate: false))
        #expect(step(.retryLater(.seconds(9))) == .resend(after: .seconds(9), isCounted: true, mayDuplicate: false))
        #expect(step(.renewToken) == .renewToken)
        #expect(step(.hold(.suspectTokens)) == .hold(.suspectTokens))
    }

    @Test func `is a failure instead of a possible duplicate, if the rule forbids those`() {
        let both: [RetryPolicy.Decision] = [.resend(mayDuplicate: true), .retryLater(.seconds(9))]
        for standard in both {
            #expect(step(standard, mayDuplicate: true, mayResend: false) == .fail)
            #expect(step(standard, mayDuplicate: true) != .fail)
        }
    }

    @Test func `is that of the caller's rule, except after faults of the credential and passed expirations`() {
        let again = RetryRule.Decision.resend(after: .seconds(3))
        let standards: [RetryPolicy.Decision] = [
            .deadLetter(nil), .suspect, .resend(mayDuplicate: true), .postpone(.zero), .retryLater(.zero),
        ]
        for standard in standards {
            #expect(step(standard, own: .giveUp) == .fail)
            let resend = NextStep.resend(after: .seconds(3), isCounted: true, mayDuplicate: true)
            #expect(step(standard, own: again, mayDuplicate: true, mayResend: false) == resend)
            #expect(NextStep.standard(standard) != nil)
        }
        #expect(step(.expire, own: again) == .fail)
        #expect(step(.renewToken, own: .giveUp) == .renewToken)
        #expect(step(.hold(.tokenUpdates), own: again) == .hold(.tokenUpdates))
        for standard in [RetryPolicy.Decision.expire, .renewToken, .hold(.tokenUpdates)] {
            #expect(NextStep.standard(standard) == nil)
        }
    }

    @Test func `is another request later if the fault is that of an earlier credential`() {
        let later = { NextStep.resend(after: .seconds(1), isCounted: false, mayDuplicate: $0) }
        #expect(step(.renewToken, isCurrent: false) == later(false))
        #expect(step(.hold(.suspectTokens), isCurrent: false) == later(false))
        #expect(step(.hold(.suspectTokens), mayDuplicate: true, isCurrent: false) == later(true))
        #expect(step(.hold(.suspectTokens), mayDuplicate: true, mayResend: false, isCurrent: false) == .fail)
        #expect(step(.deadLetter(nil), isCurrent: false) == .fail)
    }
}
