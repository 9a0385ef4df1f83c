import Platform
import PushPool
import RedisQueue
import Testing

@testable import gaplessd

@Suite("The dispatcher: acceptances that Redis remembers")
struct DispatchMemoryTests {
    private typealias Fixture = MachineFixture
    private let fixture = MachineFixture(MachineFixture.plan(fingerprint: "f"))

    private func remember(_ ages: [String: Duration]) -> [DispatchEffect] { fixture.effects { $0.remembered(ages, &$1) } }

    private func suspect(_ count: Int) -> [DispatchEffect] {
        (0..<count).flatMap { _ in fixture.reject(fixture.send(), 400, "BadDeviceToken") }
    }

    private func adopt(_ fingerprint: String) -> [DispatchEffect] {
        fixture.effects { $0.adopted(Fixture.plan(fingerprint: fingerprint), &$1) }
    }

    private var acceptedAt: Instant? { fixture.machine.snapshot.apps[0].acceptedAt }

    @Test func `an app that was accepted within a day does not begin in doubt`() {
        #expect(fixture.offers() == [20])
        #expect(remember(["f": .seconds(86_399)]) == [])
        #expect(fixture.offers() == [200])
        #expect(suspect(300) == [] && fixture.inFlight == 300)
        let effects = fixture.accept(fixture.send())
        #expect(effects.settlements.count == 301 && fixture.counters.dead == 300)
    }

    @Test func `an acceptance of another app, or a day ago, is none`() {
        #expect(remember(["g": .zero, "f": CircuitBreaker.proofLifetime]) == [])
        #expect(fixture.offers() == [20] && acceptedAt == nil)
        #expect(suspect(20).contains(.log(.held(app: "", .suspectTokens))))
    }

    @Test func `an acceptance proves nothing to others while the pool uses the previous credential`() {
        _ = fixture.accept(fixture.send())
        #expect(acceptedAt != nil)
        _ = adopt("g")
        _ = fixture.effects { $0.happened(.credentialRefused("403", retryIn: .seconds(60)), app: 0, isCurrent: true, &$1) }
        _ = fixture.accept(fixture.send())
        #expect(acceptedAt == nil)
        _ = adopt("h")
        _ = fixture.accept(fixture.send())
        #expect(acceptedAt != nil)
    }

    @Test func `the reply of Redis may come after the first suspects`() {
        _ = suspect(19)
        #expect(remember(["f": .seconds(5)]) == [])
        #expect(suspect(50) == [] && fixture.inFlight == 69)
        fixture.pass(.seconds(60))
        #expect(fixture.tick().settlements.count == 69 && fixture.counters.dead == 69)
    }

    @Test func `the reply of Redis may come after the hold`() {
        _ = suspect(20)
        #expect(fixture.offers() == [0])
        #expect(remember(["f": .seconds(5)]) == [.log(.resumed(app: ""))])
        #expect(fixture.offers() == [200])
    }

    @Test func `a later reply does not end the hold after two thousand suspect responses`() {
        _ = remember(["f": .seconds(5)])
        #expect(suspect(2000).contains(.log(.held(app: "", .suspectTokens))))
        #expect(remember(["f": .seconds(5)]) == [])
        #expect(fixture.machine.snapshot.apps[0].hold == .suspectTokens)
    }

    @Test func `a refused credential holds a known app, which then needs no acceptance`() {
        _ = remember(["f": .seconds(5)])
        _ = fixture.reject(fixture.send(), 403, "Forbidden")
        fixture.pass(.seconds(5))
        #expect(fixture.reject(fixture.send(), 410, "Unregistered").contains(.log(.resumed(app: ""))))
        #expect(fixture.offers() == [200])
    }

    @Test func `a reload of the same app keeps its acceptance, and of another one does not`() {
        fixture.close()
        _ = adopt("f")
        #expect(fixture.offers() == [200] && acceptedAt == fixture.now)
        _ = adopt("g")
        #expect(fixture.offers() == [20] && acceptedAt == nil)
        _ = remember(["f": .zero])
        #expect(fixture.offers() == [20])
        _ = remember(["g": .zero])
        #expect(fixture.offers() == [200])
    }

    @Test func `after a reload, an acceptance on a session with the replaced credential proves nothing`() {
        fixture.close()
        let old = (0..<2).map { _ in fixture.send() }
        _ = adopt("g")
        for id in old {
            _ = fixture.accept(id, isCurrent: false)
            #expect(fixture.machine.awaitsAcceptance(app: 0) && acceptedAt == nil)
        }
        _ = fixture.accept(fixture.send())
        #expect(!fixture.machine.awaitsAcceptance(app: 0) && acceptedAt == fixture.now)
    }

    @Test func `only acceptances with the topic of the app are remembered`() {
        _ = fixture.accept(fixture.send(Fixture.job("ab", #""topic":"other""#)))
        #expect(acceptedAt == nil && fixture.offers() == [200])
        fixture.pass(.seconds(1))
        _ = fixture.accept(fixture.send(Fixture.job("ab", #""topic":"topic""#)))
        #expect(acceptedAt == fixture.now)
        fixture.pass(.seconds(30))
        _ = fixture.accept(fixture.send())
        #expect(acceptedAt == fixture.now)
    }

    @Test func `three hundred dead tokens before good ones delay the first good push by no timer`() {
        _ = remember(["f": .seconds(5)])
        #expect(suspect(300) == [])
        #expect(fixture.offers()[0] > 0)
        #expect(fixture.accept(fixture.send()).settlements.count == 301)
    }
}
