import Platform
import PushPool
import Testing

@testable import APNSClient

@Suite("The breaker of the machine")
struct SendBreakerTests {
    private static let suspect = Outcome.rejected(Rejection(status: 400, reason: "BadDeviceToken"))
    private static let final = Outcome.rejected(Rejection(status: 400, reason: "BadPriority"))
    private let now = Instant.now

    private func held(_ reason: HoldReason = .credential("InvalidProviderToken")) -> SendBreaker {
        var breaker = SendBreaker(countsSuspectTokens: true)
        _ = breaker.faulted(reason, now: now)
        return breaker
    }

    @Test func `counts suspect tokens only if the configuration says so`() {
        for counts in [true, false] {
            var breaker = SendBreaker(countsSuspectTokens: counts)
            for _ in 0..<20 { _ = breaker.failed(Self.suspect, .suspect, now: now) }
            #expect(breaker.isHeld == counts)
        }
    }

    @Test func `ends a hold of the credential with a rejection of the push alone`() {
        var breaker = held()
        #expect(breaker.failed(Self.final, .deadLetter(nil), now: now) == [.resume])
        #expect(!breaker.isHeld)
    }

    @Test func `opens when APNs wants fewer pushes, whatever happens to the send`() {
        let busy = Outcome.rejected(Rejection(status: 429, reason: "Busy", retryAfter: .seconds(7)))
        for decision in [nil, RetryPolicy.Decision.retryLater(.seconds(7)), .deadLetter(nil)] {
            var breaker = SendBreaker(countsSuspectTokens: true)
            #expect(breaker.failed(busy, decision, now: now) == [.hold(.throttled("429 Busy"))])
            #expect(breaker.error(now: now).retryAfter == .seconds(7))
        }
    }

    @Test func `postpones the next probe after a probe without a response`() {
        var breaker = held()
        let probe = now + .seconds(5)
        #expect(breaker.allowance(now: now) == 0)
        #expect(breaker.allowance(now: probe) == 1)
        breaker.sent()
        #expect(breaker.allowance(now: probe) == 0)
        _ = breaker.poolEmptied(now: probe)
        #expect(breaker.error(now: probe).retryAfter == .seconds(10))
    }

    @Test func `opens after a fault of the credential alone`() {
        var breaker = SendBreaker(countsSuspectTokens: true)
        #expect(breaker.sessionFailed(.dial("connection refused", isCredential: false), now: now) == [])
        #expect(!breaker.isHeld)
        #expect(breaker.sessionFailed(.dial("certificate refused", isCredential: true), now: now) != [])
        #expect(breaker.error(now: now).cause == .held)
    }
}
