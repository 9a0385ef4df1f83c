import Platform
import PushPool
import RedisQueue
import Testing

@testable import gaplessd

@Suite("The dispatcher: jobs that are set aside")
struct SetAsideTests {
    private typealias Fixture = MachineFixture

    private static let alpha = Fixture.job("aa", #""app":"alpha""#)
    private static let beta = Fixture.job("bb", #""app":"beta""#)

    /// Reasons for which beta takes no job.
    enum Obstacle: String, CaseIterable {
        case held, unreachable, paused, limited, silent, slow
    }

    /// Two apps with 50 streams each, both with an acceptance, so that each has 100 places.
    private static func fixture(apps: [String?] = ["alpha", "beta"]) -> MachineFixture {
        let fixture = MachineFixture(MachineFixture.plan(apps: apps), capacity: 50)
        fixture.close(app: 0, apps[0] == nil ? Fixture.job() : alpha)
        fixture.close(app: 1, beta)
        return fixture
    }

    private static func raise(_ obstacle: Obstacle, _ fixture: MachineFixture) {
        switch obstacle {
        case .held: _ = fixture.reject(fixture.send(beta, by: 1), 403, "Forbidden")
        case .unreachable: fixture.machine.observed(.init(), app: 1)
        case .paused:
            let pause = QueuePause(.app("beta"), record: Array("{}".utf8))
            _ = fixture.effects { $0.happened(.paused([pause]), list: 0, &$1) }
        case .limited: fixture.machine.observed(.init(capacity: 50, limit: 2, waiting: 1), app: 1)
        case .silent:
            for _ in 0..<60 { _ = fixture.claim(beta) }
            _ = fixture.sent(by: 1)
            fixture.machine.observed(.init(capacity: 50), app: 1)
            fixture.pass(.seconds(1))
            fixture.machine.observed(.init(capacity: 50), app: 1)
        case .slow: for _ in 0..<200 { _ = fixture.claim(beta) }
        }
    }

    @Test(arguments: Obstacle.allCases)
    func `a thousand jobs of an app that cannot take them leave the other app its places`(obstacle: Obstacle) {
        let fixture = Self.fixture()
        Self.raise(obstacle, fixture)
        let held = fixture.inFlight
        for _ in 0..<1000 {
            let effects = fixture.claim(Self.beta)
            #expect(effects.settlements.map(\.aside) == ["beta"])
            #expect(effects.settlements.map(\.effect) == [.release(toTail: true)])
        }
        #expect(fixture.inFlight == held, "nothing more is held for it")
        #expect(fixture.offers()[0] >= 100)
        for _ in 0..<100 { #expect(fixture.claim(Self.alpha) == []) }
        #expect(fixture.sent(by: 0).count == 100)
        #expect(fixture.asideOffers() == ["beta": 0], "an app that cannot send claims nothing")
    }

    @Test func `a job goes aside while older ones of its app are there, and the app claims those with its own places`() {
        let fixture = Self.fixture()
        fixture.aside("beta")
        #expect(fixture.offers() == [100], "the places of the other app")
        #expect(fixture.asideOffers() == ["beta": 100])
        #expect(fixture.claim(Self.beta).releases(3, aside: "beta", toTail: true))
        #expect(fixture.claim(Self.beta, wasClaimed: true) == [] && fixture.sent(by: 1).count == 1)
        #expect(fixture.asideOffers() == ["beta": 99])
        fixture.aside()
        #expect(fixture.offers() == [199] && !fixture.machine.hasAsides)
        #expect(fixture.claim(Self.beta) == [] && fixture.sent(by: 1).count == 1)
    }

    @Test func `jobs that were taken go back before those that were not, and a retry before both`() {
        let fixture = Self.fixture()
        let waiting = fixture.send(Self.beta, by: 1)
        let refused = fixture.send(Self.beta, by: 1)
        let effects = fixture.reject(refused, 403, "Forbidden")
        #expect(effects.releases(4, aside: "beta", toTail: true), "another job is the next probe")
        #expect(fixture.withdraw([waiting], app: 1).releases(3, aside: "beta"))
        #expect(fixture.claim(Self.beta).releases(5, aside: "beta", toTail: true))
        #expect(fixture.claim(Fixture.job("bb", #""app":"beta","_gapless_RETRYING":1"#)).releases(6, aside: "beta"))
        #expect(fixture.claim(Self.beta, wasClaimed: true).releases(7, aside: "beta"))
    }

    @Test func `a held app probes with a job of its side list`() {
        let fixture = Self.fixture()
        Self.raise(.held, fixture)
        fixture.pass(.seconds(5))
        #expect(fixture.offers() == [100] && fixture.asideOffers() == ["beta": 1])
        _ = fixture.claim(Self.beta, wasClaimed: true)
        let probe = fixture.sent(by: 1)[0]
        #expect(fixture.asideOffers() == ["beta": 0])
        _ = fixture.accept(probe)
        #expect(fixture.asideOffers() == ["beta": 100])
    }

    @Test func `an app without a response for a second takes few jobs until one arrives`() {
        let fixture = Self.fixture()
        for _ in 0..<60 { _ = fixture.claim(Self.beta) }
        let sent = fixture.sent(by: 1)
        fixture.machine.observed(.init(capacity: 50), app: 1)
        #expect(fixture.claim(Self.beta) == [])
        fixture.pass(.milliseconds(999))
        fixture.machine.observed(.init(capacity: 50), app: 1)
        #expect(fixture.claim(Self.beta) == [])
        fixture.pass(.milliseconds(1))
        fixture.machine.observed(.init(capacity: 50), app: 1)
        #expect(fixture.claim(Self.beta).releases(65, aside: "beta", toTail: true))
        for id in sent { _ = fixture.fail(id, .timedOut) }
        _ = fixture.sent(by: 1)
        #expect(fixture.asideOffers() == ["beta": PoolHealth.slowPlaces - 2], "no response")
        _ = fixture.claim(Self.beta, wasClaimed: true)
        _ = fixture.accept(fixture.sent(by: 1)[0])
        fixture.machine.observed(.init(capacity: 50), app: 1)
        #expect(fixture.asideOffers() == ["beta": 98])
    }

    @Test func `the only app of a list waits for a silent server as before`() {
        let fixture = MachineFixture(capacity: 50)
        fixture.close()
        for _ in 0..<60 { _ = fixture.claim(Fixture.job()) }
        _ = fixture.sent()
        for _ in 0..<3 {
            fixture.machine.observed(.init(capacity: 50), app: 0)
            fixture.pass(.seconds(5))
        }
        #expect(fixture.offers() == [40])
    }

    @Test func `a claim that found only jobs to set aside is followed by a large one`() {
        let fixture = Self.fixture()
        fixture.machine.observed(.init(), app: 1)
        #expect(fixture.offers() == [100])
        _ = fixture.claim(Self.beta)
        #expect(fixture.offers() == [ListMachine.lookAhead])
        _ = fixture.claim(Self.beta, Self.alpha)
        #expect(fixture.offers() == [99])
    }

    @Test func `a stop returns jobs to the list, or before older ones of their app that are aside`() {
        let fixture = Self.fixture()
        let ids = [fixture.send(Self.alpha, by: 0), fixture.send(Self.beta, by: 1)]
        fixture.aside("beta")
        _ = fixture.effects { $0.stopSignalReceived(&$1) }
        #expect(fixture.withdraw([ids[0]], app: 0).releases(3))
        #expect(fixture.withdraw([ids[1]], app: 1).releases(4, aside: "beta"))
        #expect(fixture.claim(Self.beta).releases(5))
        #expect(fixture.claim(Self.beta, wasClaimed: true).releases(6, aside: "beta"))
        #expect(fixture.offers() == [0] && fixture.asideOffers() == ["beta": 0])
    }

    @Test func `a paused list keeps its jobs in place`() {
        let fixture = Self.fixture()
        fixture.aside("beta")
        let pause = QueuePause(.list, record: Array("{}".utf8))
        _ = fixture.effects { $0.happened(.paused([pause]), list: 0, &$1) }
        #expect(fixture.claim(Self.alpha).releases(3) && fixture.claim(Self.beta).releases(4))
        #expect(fixture.offers() == [0] && fixture.asideOffers() == ["beta": 0])
    }

    @Test func `each list has its own side lists, and places are offered once`() {
        let plan = MachineFixture.plan(apps: ["alpha", "beta"], lists: ["first", "second"])
        let fixture = MachineFixture(plan, capacity: 50)
        fixture.close(app: 0, Self.alpha)
        fixture.close(app: 1, Self.beta)
        fixture.aside("beta", list: 0)
        fixture.machine.countPlaces(limit: nil)
        #expect(fixture.machine.offerAsides(to: 0).map(\.places) == [100])
        #expect(fixture.machine.offer(to: 0, mayHaveJobs: false) == 100)
        #expect(fixture.machine.offerAsides(to: 1).isEmpty)
        #expect(fixture.machine.offer(to: 1, mayHaveJobs: false) == 100)
        #expect(fixture.claim(Self.beta, list: 1) == [], "in this list none is aside")
    }

    @Test(arguments: [QueueEvent.interrupted, .disconnected("lost")])
    func `side lists of a list that Redis does not serve take no places from the other lists`(event: QueueEvent) {
        let plan = MachineFixture.plan(apps: ["alpha", "beta"], lists: ["first", "second"])
        let fixture = MachineFixture(plan, capacity: 50)
        fixture.close(app: 0, Self.alpha)
        fixture.close(app: 1, Self.beta)
        fixture.aside("alpha", "beta", list: 0)
        _ = fixture.effects { $0.happened(event, list: 0, &$1) }
        fixture.machine.countPlaces(limit: nil)
        #expect(fixture.machine.offerAsides(to: 0).map(\.places) == [0, 0])
        #expect(fixture.machine.offer(to: 0, mayHaveJobs: false) == 0)
        #expect(fixture.machine.offer(to: 1, mayHaveJobs: false) == 200)
    }

    @Test func `a limit of all apps together is shared with the side lists`() {
        let fixture = Self.fixture()
        fixture.aside("beta")
        let limit = ClaimBudget.Rate(pushesPerSecond: 20)
        fixture.machine.countPlaces(limit: limit)
        #expect(fixture.machine.offerAsides(to: 0).map(\.places) == [5])
        #expect(fixture.machine.offer(to: 0, mayHaveJobs: false) == 5)
    }

    @Test func `the side list of an app that the settings do not have returns to its list`() {
        let fixture = Self.fixture()
        fixture.aside("beta", "gone")
        #expect(
            fixture.effects { $0.happened(.connected(warnings: []), list: 0, &$1) }
                .contains(.restore(aside: "gone", list: 0)))
        let single = MachineFixture()
        single.aside("beta")
        #expect(
            single.effects { $0.happened(.connected(warnings: []), list: 0, &$1) }
                .contains(.restore(aside: "beta", list: 0)))
    }

    @Test func `the top level has the side list without a name, also after it has become the only app`() {
        let fixture = Self.fixture(apps: [nil, "beta"])
        fixture.machine.observed(.init(), app: 0)
        #expect(fixture.claim(Fixture.job()).releases(3, aside: "", toTail: true))
        let single = MachineFixture(capacity: 50)
        single.close()
        single.aside("")
        #expect(single.offers() == [0] && single.asideOffers() == ["": 100])
        #expect(single.claim(Fixture.job(), wasClaimed: true) == [])
    }

    @Test func `the parts of a job from a side list go to its head`() {
        let fixture = Self.fixture()
        let job = #"{"tokens":["aa","bb"],"data":{"aps":{}},"app":"beta"}"#
        fixture.aside("beta")
        #expect(fixture.claim(job).releases(3, aside: "beta", toTail: true), "unsplit")
        let parts = fixture.claim(job, wasClaimed: true).settlements
        #expect(parts.count == 1 && parts[0].aside == "beta")
        guard case .split = parts[0].effect else { return #expect(Bool(false), "\(parts)") }
    }
}
