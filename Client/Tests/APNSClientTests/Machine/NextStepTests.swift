import PushPool
import Testing

@testable import APNSClient

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
