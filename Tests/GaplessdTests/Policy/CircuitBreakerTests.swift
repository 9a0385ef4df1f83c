import Platform
import PushPool
import Testing

@testable import gaplessd

@Suite("The circuit breaker of an app")
struct CircuitBreakerTests {
    private var breaker = CircuitBreaker()
    private let start = Instant.now

    private func later(_ seconds: Int) -> Instant { start + .seconds(seconds) }

    @Test func `twenty jobs may be out before the first acceptance`() {
        #expect(breaker.allowance(now: start) == 20)
    }

    @Test mutating func `the first acceptance closes it and settles the suspects`() {
        #expect(breaker.accepted() == [.settleSuspects])
        #expect(breaker.allowance(now: start) == .max)
        #expect(breaker.accepted() == [])
    }

    @Test mutating func `each acceptance settles the suspects before it`() {
        _ = breaker.accepted()
        #expect(breaker.isAtRest)
        for _ in 0..<5 {
            for _ in 0..<19 { #expect(breaker.suspected(now: start) == []) }
            #expect(!breaker.isAtRest && breaker.deadline == nil && breaker.allowance(now: start) == .max)
            #expect(breaker.accepted() == [.settleSuspects])
            #expect(breaker.isAtRest && breaker.phase == .closed)
        }
    }

    @Test mutating func `twenty in a row open a closed one after a second without a response`() {
        _ = breaker.accepted()
        for _ in 0..<19 { _ = breaker.suspected(now: start) }
        for _ in 0..<100 { #expect(breaker.suspected(now: later(1)) == []) }
        #expect(breaker.deadline == later(2) && breaker.allowance(now: later(1), suspects: 30) == 230)
        #expect(breaker.tick(now: later(2) - .milliseconds(1), isAwaiting: false) == [])
        #expect(breaker.tick(now: later(2), isAwaiting: false) == [.hold(.suspectTokens)])
        #expect(breaker.deadline == nil && breaker.nextProbe == later(7))
        #expect(breaker.accepted() == [.resume, .settleSuspects])
        #expect(breaker.allowance(now: later(2)) == .max)
    }

    @Test mutating func `suspect responses that go on arriving put that off, for ten seconds at most`() {
        _ = breaker.accepted()
        for _ in 0..<20 { _ = breaker.suspected(now: start) }
        for second in 1...9 {
            for _ in 0..<20 { #expect(breaker.suspected(now: later(second) - .milliseconds(1)) == []) }
            #expect(breaker.tick(now: later(second), isAwaiting: false) == [])
        }
        #expect(breaker.deadline == later(10) - .milliseconds(1))
        _ = breaker.suspected(now: later(9))
        #expect(breaker.deadline == later(10))
        #expect(breaker.tick(now: later(10), isAwaiting: false) == [.hold(.suspectTokens)])
    }

    @Test mutating func `while responses are outstanding, silence does not open it, for ten seconds at most`() {
        _ = breaker.accepted()
        for _ in 0..<20 { _ = breaker.suspected(now: start) }
        for second in 1...9 {
            #expect(breaker.deadline == later(second))
            #expect(breaker.tick(now: later(second), isAwaiting: true) == [])
        }
        #expect(breaker.tick(now: later(10), isAwaiting: true) == [.hold(.suspectTokens)])
    }

    @Test mutating func `two thousand in a row open a closed one at once`() {
        _ = breaker.accepted()
        for _ in 0..<1999 { #expect(breaker.suspected(now: start) == []) }
        #expect(breaker.suspected(now: start) == [.hold(.suspectTokens)])
        #expect(breaker.deadline == nil && breaker.nextProbe == later(5))
    }

    @Test mutating func `an acceptance within that second keeps it closed`() {
        _ = breaker.accepted()
        for _ in 0..<50 { _ = breaker.suspected(now: start) }
        #expect(breaker.accepted() == [.settleSuspects])
        #expect(breaker.tick(now: later(9), isAwaiting: false) == [])
        #expect(breaker.deadline == nil && breaker.phase == .closed)
        #expect(breaker.allowance(now: start) == .max)
    }

    @Test mutating func `twenty suspect responses in a row open it`() {
        for _ in 0..<19 { #expect(breaker.suspected(now: start) == []) }
        #expect(breaker.suspected(now: start) == [.hold(.suspectTokens)])
        #expect(breaker.phase == .open(.suspectTokens))
        #expect(breaker.allowance(now: start) == 0)
    }

    @Test mutating func `suspect tokens are probed every five seconds, each time with more jobs, up to twenty`() {
        for _ in 0..<20 { _ = breaker.suspected(now: start) }
        for (turn, size) in zip(1..., [1, 2, 4, 8, 16, 20, 20]) {
            #expect(breaker.allowance(now: later(5 * turn - 1)) == 0)
            #expect(breaker.allowance(now: later(5 * turn)) == size)
            for _ in 0..<size { breaker.sent() }
            #expect(breaker.allowance(now: later(5 * turn)) == 0)
            for _ in 0..<size { #expect(breaker.suspected(now: later(5 * turn)) == []) }
        }
        #expect(breaker.accepted() == [.resume, .settleSuspects])
        #expect(breaker.phase == .closed)
    }

    @Test mutating func `a credential is probed after 5 s, doubling to 60 s, each time on new sessions`() {
        let fault = HoldReason.credential("InvalidProviderToken")
        #expect(breaker.faulted(fault, now: start) == [.hold(fault), .reconnect])
        var now = start
        for wait in [5, 10, 20, 40, 60, 60] {
            #expect(breaker.allowance(now: now + .seconds(wait) - .milliseconds(1)) == 0)
            now += .seconds(wait)
            #expect(breaker.allowance(now: now) == 1)
            breaker.sent()
            #expect(breaker.faulted(fault, now: now) == [.reconnect])
        }
    }

    @Test mutating func `a new hold begins without a probe`() {
        let fault = HoldReason.credential("InvalidProviderToken")
        _ = breaker.faulted(fault, now: start)
        breaker.sent()
        _ = breaker.accepted()
        #expect(!breaker.isProbing)
        #expect(breaker.faulted(fault, now: later(60)) == [.hold(fault), .reconnect])
        #expect(!breaker.isProbing)
        #expect(breaker.faulted(fault, now: later(60)) == [])
        #expect(breaker.nextProbe == later(65))
    }

    @Test mutating func `late responses of the same kind have no effect`() {
        let fault = HoldReason.credential("InvalidProviderToken")
        _ = breaker.faulted(fault, now: start)
        #expect(breaker.faulted(fault, now: start) == [])
        #expect(breaker.nextProbe == later(5))
    }

    @Test mutating func `late responses with another text change neither the wait nor the sessions`() {
        _ = breaker.faulted(.credential("InvalidProviderToken"), now: start)
        for number in 1...20 { #expect(breaker.faulted(.credential("denied, request \(number)"), now: start) == []) }
        #expect(breaker.phase == .open(.credential("denied, request 20")))
        #expect(breaker.nextProbe == later(5))
    }

    @Test mutating func `another fault is logged and does not prolong the wait`() {
        _ = breaker.faulted(.credential("InvalidProviderToken"), now: start)
        #expect(breaker.faulted(.untrusted("unknown root"), now: later(1)) == [.hold(.untrusted("unknown root"))])
        #expect(breaker.nextProbe == later(5))
        breaker.sent()
        let topic = HoldReason.topic("BadTopic")
        #expect(breaker.faulted(topic, now: later(5)) == [.hold(topic), .reconnect])
        #expect(breaker.nextProbe == later(15))
    }

    @Test mutating func `a credential fault after suspect tokens needs new sessions`() {
        for _ in 0..<20 { _ = breaker.suspected(now: start) }
        let fault = HoldReason.credential("Forbidden")
        #expect(breaker.faulted(fault, now: later(1)) == [.hold(fault), .reconnect])
        #expect(breaker.nextProbe == later(5))
    }

    @Test mutating func `any response about the job itself proves the credential`() {
        _ = breaker.faulted(.credential("BadCertificate"), now: start)
        breaker.sent()
        #expect(breaker.answered() == [.resume])
        #expect(breaker.phase == .proving)
    }

    @Test mutating func `a probe that timed out is followed by another after a longer wait`() {
        _ = breaker.faulted(.credential("BadCertificate"), now: start)
        breaker.sent()
        #expect(breaker.probeWasInconclusive(now: later(5)) == [.reconnect])
        #expect(breaker.nextProbe == later(15))
    }

    @Test mutating func `only the acceptance of its probe ends a throttle`() {
        let fewer = HoldReason.throttled("429 Busy")
        _ = breaker.accepted()
        #expect(breaker.throttled(fewer, for: nil, now: start) == [.hold(fewer)])
        #expect(breaker.nextProbe == later(5))
        #expect(breaker.accepted() == [])
        #expect(breaker.answered() == [])
        #expect(breaker.suspected(now: start) == [])
        #expect(breaker.throttled(fewer, for: nil, now: later(1)) == [])
        #expect(breaker.nextProbe == later(5))
        breaker.sent()
        #expect(breaker.throttled(fewer, for: nil, now: later(5)) == [])
        #expect(breaker.nextProbe == later(15))
        breaker.sent()
        #expect(breaker.accepted() == [.resume, .settleSuspects])
        #expect(breaker.allowance(now: later(15)) == .max)
    }

    @Test mutating func `a throttle lasts as long as APNs asks for`() {
        let fewer = HoldReason.throttled("429 Busy")
        _ = breaker.throttled(fewer, for: .seconds(2), now: start)
        #expect(breaker.nextProbe == later(2))
        _ = breaker.throttled(fewer, for: .seconds(40), now: later(1))
        #expect(breaker.nextProbe == later(41))
        breaker.sent()
        _ = breaker.throttled(fewer, for: .seconds(3), now: later(41))
        #expect(breaker.nextProbe == later(44))
    }

    @Test mutating func `a throttle replaces a credential fault only as the response to the probe`() {
        let fault = HoldReason.credential("BadCertificate")
        _ = breaker.faulted(fault, now: start)
        #expect(breaker.throttled(.throttled("429"), for: .seconds(900), now: start) == [])
        #expect(breaker.phase == .open(fault) && breaker.nextProbe == later(5))
        #expect(breaker.throttleEnded() == [])
    }

    @Test mutating func `a refused probe of another app does not prolong the wait, and an accepted one ends it`() {
        let fewer = HoldReason.throttled("429 Busy")
        _ = breaker.throttled(fewer, for: nil, now: start, isOwnResponse: false)
        breaker.sent()
        #expect(breaker.throttled(fewer, for: nil, now: later(5), isOwnResponse: false) == [])
        #expect(breaker.isProbing)
        #expect(breaker.throttleEnded() == [.resume])
        #expect(breaker.allowance(now: later(5)) == 20)
    }

    @Test mutating func `late responses have no effect in a second hold either`() {
        let fault = HoldReason.credential("BadCertificate")
        _ = breaker.faulted(fault, now: start)
        breaker.sent()
        _ = breaker.accepted()
        _ = breaker.faulted(fault, now: later(60))
        #expect(breaker.faulted(fault, now: later(60)) == [])
        #expect(breaker.nextProbe == later(65))
    }

    @Test mutating func `a reload resets it`() {
        _ = breaker.faulted(.topic("BadTopic"), now: start)
        #expect(breaker.reloaded(now: start) == [.resume])
        #expect(breaker.allowance(now: start) == 20)
    }

    @Test mutating func `a reload does not end a row of errors of APNs itself`() {
        for _ in 0..<20 { breaker.failed(now: start) }
        #expect(breaker.tick(now: later(10), isAwaiting: false) == [.hold(.failing)])
        #expect(breaker.reloaded(isKnown: true, now: later(11)) == [.resume])
        #expect(breaker.isFailing)
        breaker.failed(now: later(12))
        #expect(breaker.tick(now: later(20), isAwaiting: false) == [])
        #expect(breaker.tick(now: later(21), isAwaiting: false) == [.hold(.failing)])
        _ = breaker.accepted()
        #expect(!breaker.isFailing)
    }

    @Test(arguments: [Duration.zero, .seconds(-5)])
    mutating func `a throttle without a pause, or with one in the past, is probed after 5 s, and then after 10`(pause: Duration) {
        let fewer = HoldReason.throttled("429 Busy")
        _ = breaker.throttled(fewer, for: pause, now: start)
        #expect(breaker.nextProbe == later(5))
        breaker.sent()
        _ = breaker.throttled(fewer, for: pause, now: later(5))
        #expect(breaker.nextProbe == later(15))
    }
}
