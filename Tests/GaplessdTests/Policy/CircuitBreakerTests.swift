import Clocks
import Testing

@testable import gaplessd

@Suite("The gate of an app")
struct CircuitBreakerTests {
    private var gate = CircuitBreaker()
    private let start = Instant.now

    private func later(_ seconds: Int) -> Instant { start + .seconds(seconds) }

    @Test func `lets twenty jobs out before the first acceptance`() {
        #expect(gate.allowance(now: start) == 20)
    }

    @Test mutating func `opens with the first acceptance and settles what waited for it`() {
        #expect(gate.accepted() == [.settleSuspects])
        #expect(gate.allowance(now: start) == .max)
        #expect(gate.accepted() == [])
    }

    @Test mutating func `keeps suspect answers until something is accepted, then buries them at once`() {
        #expect(gate.suspected(now: start).mayBury == false)
        _ = gate.accepted()
        for _ in 0..<100 { #expect(gate.suspected(now: start).mayBury) }
        #expect(gate.phase == .open)
    }

    @Test mutating func `is held by twenty suspect answers in a row`() {
        for _ in 0..<19 { #expect(gate.suspected(now: start).effects == []) }
        #expect(gate.suspected(now: start).effects == [.hold(.suspectTokens)])
        #expect(gate.phase == .held(.suspectTokens))
        #expect(gate.allowance(now: start) == 0)
    }

    @Test mutating func `probes with one job every five seconds while only tokens are suspect`() {
        for _ in 0..<20 { _ = gate.suspected(now: start) }
        for turn in 1...4 {
            #expect(gate.allowance(now: later(5 * turn - 1)) == 0)
            #expect(gate.allowance(now: later(5 * turn)) == 1)
            gate.probed()
            #expect(gate.allowance(now: later(5 * turn)) == 0)
            #expect(gate.suspected(now: later(5 * turn)).mayBury == false)
        }
        #expect(gate.accepted() == [.resume, .settleSuspects])
        #expect(gate.phase == .open)
    }

    @Test mutating func `probes a credential after 5 s, doubling to 60 s, each time on new sessions`() {
        let fault = HoldReason.credential("InvalidProviderToken")
        #expect(gate.faulted(fault, now: start) == [.hold(fault), .reconnect])
        var now = start
        for wait in [5, 10, 20, 40, 60, 60] {
            #expect(gate.allowance(now: now + .seconds(wait) - .milliseconds(1)) == 0)
            now += .seconds(wait)
            #expect(gate.allowance(now: now) == 1)
            gate.probed()
            #expect(gate.faulted(fault, now: now) == [.reconnect])
        }
    }

    @Test mutating func `knows nothing of an earlier hold's probe when it is held again`() {
        let fault = HoldReason.credential("InvalidProviderToken")
        _ = gate.faulted(fault, now: start)
        gate.probed()
        _ = gate.accepted()
        #expect(!gate.isProbing)
        #expect(gate.faulted(fault, now: later(60)) == [.hold(fault), .reconnect])
        #expect(!gate.isProbing)
        #expect(gate.faulted(fault, now: later(60)) == [])
        #expect(gate.nextProbe == later(65))
    }

    @Test mutating func `hears late answers of the same kind without another word`() {
        let fault = HoldReason.credential("InvalidProviderToken")
        _ = gate.faulted(fault, now: start)
        #expect(gate.faulted(fault, now: start) == [])
        #expect(gate.nextProbe == later(5))
    }

    @Test mutating func `lets late answers with other texts change neither the wait nor the sessions`() {
        _ = gate.faulted(.credential("InvalidProviderToken"), now: start)
        for number in 1...20 { #expect(gate.faulted(.credential("denied, request \(number)"), now: start) == []) }
        #expect(gate.phase == .held(.credential("denied, request 20")))
        #expect(gate.nextProbe == later(5))
    }

    @Test mutating func `says it when another fault comes to light, and waits no longer for it`() {
        _ = gate.faulted(.credential("InvalidProviderToken"), now: start)
        #expect(gate.faulted(.untrusted("unknown root"), now: later(1)) == [.hold(.untrusted("unknown root"))])
        #expect(gate.nextProbe == later(5))
        gate.probed()
        let topic = HoldReason.topic("BadTopic")
        #expect(gate.faulted(topic, now: later(5)) == [.hold(topic), .reconnect])
        #expect(gate.nextProbe == later(15))
    }

    @Test mutating func `dials anew when a credential fault follows suspect tokens`() {
        for _ in 0..<20 { _ = gate.suspected(now: start) }
        let fault = HoldReason.credential("Forbidden")
        #expect(gate.faulted(fault, now: later(1)) == [.hold(fault), .reconnect])
        #expect(gate.nextProbe == later(5))
    }

    @Test mutating func `takes any answer about the job itself as proof of the credential`() {
        _ = gate.faulted(.credential("BadCertificate"), now: start)
        gate.probed()
        #expect(gate.answered() == [.resume])
        #expect(gate.phase == .proving)
    }

    @Test mutating func `learns nothing from a probe that timed out`() {
        _ = gate.faulted(.credential("BadCertificate"), now: start)
        gate.probed()
        #expect(gate.probeWasInconclusive(now: later(5)) == [.reconnect])
        #expect(gate.nextProbe == later(15))
    }

    @Test mutating func `that wants fewer pushes takes nothing as their welcome but the probe's acceptance`() {
        let fewer = HoldReason.throttled("429 Busy")
        _ = gate.accepted()
        #expect(gate.throttled(fewer, for: nil, now: start) == [.hold(fewer)])
        #expect(gate.nextProbe == later(5))
        #expect(gate.accepted() == [] && gate.answered() == [] && gate.suspected(now: start).effects == [])
        #expect(gate.throttled(fewer, for: nil, now: later(1)) == [])
        #expect(gate.nextProbe == later(5))
        gate.probed()
        #expect(gate.throttled(fewer, for: nil, now: later(5)) == [])
        #expect(gate.nextProbe == later(15))
        gate.probed()
        #expect(gate.accepted() == [.resume, .settleSuspects])
        #expect(gate.allowance(now: later(15)) == .max)
    }

    @Test mutating func `waits as long as APNs asks for`() {
        let fewer = HoldReason.throttled("429 Busy")
        _ = gate.throttled(fewer, for: .seconds(2), now: start)
        #expect(gate.nextProbe == later(2))
        _ = gate.throttled(fewer, for: .seconds(40), now: later(1))
        #expect(gate.nextProbe == later(41))
        gate.probed()
        _ = gate.throttled(fewer, for: .seconds(3), now: later(41))
        #expect(gate.nextProbe == later(44))
    }

    @Test mutating func `that is held for its credential hears of fewer pushes only from its probe`() {
        let fault = HoldReason.credential("BadCertificate")
        _ = gate.faulted(fault, now: start)
        #expect(gate.throttled(.throttled("429"), for: .seconds(900), now: start) == [])
        #expect(gate.phase == .held(fault) && gate.nextProbe == later(5))
        #expect(gate.throttleEnded() == [])
    }

    @Test mutating func `does not wait because another app's probe was refused, and goes on when that was taken`() {
        let fewer = HoldReason.throttled("429 Busy")
        _ = gate.throttled(fewer, for: nil, now: start, isToldItself: false)
        gate.probed()
        #expect(gate.throttled(fewer, for: nil, now: later(5), isToldItself: false) == [])
        #expect(gate.isProbing)
        #expect(gate.throttleEnded() == [.resume])
        #expect(gate.allowance(now: later(5)) == 20)
    }

    @Test mutating func `that was held once hears late answers in its next hold, too`() {
        let fault = HoldReason.credential("BadCertificate")
        _ = gate.faulted(fault, now: start)
        gate.probed()
        _ = gate.accepted()
        _ = gate.faulted(fault, now: later(60))
        #expect(gate.faulted(fault, now: later(60)) == [])
        #expect(gate.nextProbe == later(65))
    }

    @Test mutating func `starts afresh when the settings were read anew`() {
        _ = gate.faulted(.topic("BadTopic"), now: start)
        #expect(gate.reloaded() == [.resume])
        #expect(gate.allowance(now: start) == 20)
    }
}
