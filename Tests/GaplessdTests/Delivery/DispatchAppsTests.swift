import Glibc
import Platform
import PushPool
import RedisQueue
import Testing

@testable import gaplessd

@Suite("The dispatcher: apps that come, go and rest")
struct DispatchAppsTests {
    private typealias Fixture = MachineFixture

    private static let alpha = Fixture.job("aa", #""app":"alpha""#)
    private static let beta = Fixture.job("bb", #""app":"beta""#)
    private static let gamma = Fixture.job("cc", #""app":"gamma""#)

    private static func fixture(idleTimeout: Duration = .zero) -> MachineFixture {
        var plan = Fixture.plan(apps: ["alpha", "beta"])
        plan.idleTimeout = idleTimeout
        let fixture = MachineFixture(plan, capacity: idleTimeout == .zero ? 50 : 0)
        if idleTimeout == .zero {
            fixture.close(app: 0, alpha)
            fixture.close(app: 1, beta)
        }
        return fixture
    }

    private static func app(_ name: String, fault: String? = nil) -> Settings.App {
        var app = Settings.App()
        (app.name, app.topic) = (name, "topic")
        app.faults = fault.map { [SettingsError(key: "k", problem: $0, remedy: "")] } ?? []
        return app
    }

    private static func removed(_ name: String) -> Settings.App {
        var app = app(name)
        app.isRemoved = true
        return app
    }

    // MARK: Apps that come and go

    @Test func `the jobs of a removed app wait, and those that no session has taken return`() {
        let fixture = Self.fixture()
        let onStream = fixture.send(Self.beta, by: 1)
        _ = fixture.claim(Self.beta)
        let effects = fixture.effects { $0.changed([(1, Self.removed("beta"))], &$1) }
        #expect(effects.releases(4, aside: "beta"))
        #expect(effects.contains(.withdraw(.release, app: 1)) && effects.last == .finish(app: 1))
        #expect(fixture.claim(Self.beta).releases(5, aside: "beta", toTail: true))
        fixture.pass(.seconds(60))
        #expect(fixture.asideOffers() == ["beta": 0], "no probe goes out")
        #expect(fixture.accept(onStream, isCurrent: false).settlements.count == 1, "a request on a stream gets its outcome")
        let isHeld = fixture.machine.isHeld(app: 1)
        #expect(isHeld)
        #expect(fixture.claim(Self.alpha) == [], "the other app goes on")
    }

    @Test func `an app that returns sends its jobs again`() {
        let fixture = Self.fixture()
        _ = fixture.effects { $0.changed([(1, Self.removed("beta"))], &$1) }
        _ = fixture.claim(Self.beta)
        fixture.aside("beta")
        _ = fixture.tick()
        var plan = Fixture.plan(apps: ["alpha", "beta"])
        plan.apps[1].fingerprint = "new"
        let effects = fixture.effects { $0.adopted(plan, replaced: [false, true], &$1) }
        #expect(effects.contains(.open(app: 1)))
        fixture.machine.observed(.init(capacity: 50), app: 1)
        #expect(fixture.asideOffers() == ["beta": 20], "it begins in doubt")
    }

    @Test func `a new app opens its sessions, and an app with a fault is held alone`() {
        let fixture = Self.fixture()
        #expect(fixture.claim(Self.gamma).deadLetter != nil, "an unknown app")
        var plan = Fixture.plan(apps: ["alpha", "beta", "gamma", "delta"])
        plan.apps[3].fault = "d.json: apns_topic: rubbish"
        let effects = fixture.effects { $0.adopted(plan, replaced: [false, false, true, false], &$1) }
        #expect(effects.filter { $0 == .open(app: 2) || $0 == .open(app: 3) } == [.open(app: 2)])
        fixture.machine.observed(.init(capacity: 50), app: 2)
        #expect(fixture.claim(Self.gamma) == [])
        #expect(fixture.sent(by: 2).count == 1)
        #expect(fixture.claim(Fixture.job("dd", #""app":"delta""#)).settlements.map(\.aside) == ["delta"])
        #expect(fixture.claim(Self.alpha) == [])
    }

    @Test func `a fault in the file of a running app ends its sessions`() {
        let fixture = Self.fixture()
        let effects = fixture.effects { $0.changed([(1, Self.app("beta", fault: "rubbish"))], &$1) }
        #expect(effects.last == .finish(app: 1))
        #expect(effects.contains(.log(.held(app: "app \"beta\": ", .unusable("k: rubbish")))))
        #expect(fixture.claim(Self.beta).settlements.map(\.aside) == ["beta"])
    }

    @Test func `a held app of apps_dir waits for its file, and another one for SIGHUP`() {
        let fixture = Self.fixture()
        var app = Self.app("beta", fault: "rubbish")
        app.file = "apps/beta.json"
        _ = fixture.effects { $0.changed([(0, Self.app("alpha", fault: "rubbish")), (1, app)], &$1) }
        let why = "The credential cannot be used (k: rubbish): correct it, then "
        #expect(
            fixture.machine.snapshot.apps.map(\.hold?.wholeSentence) == [
                why + "send SIGHUP.", why + "replace the file of the app in apps_dir.",
            ])
    }

    @Test func `a change of one app of 5,000 costs what one of 50 costs`() {
        let (few, many) = (Self.timeOfChanges(among: 50), Self.timeOfChanges(among: 5000))
        // A walk over all apps, or over all certificates, takes a hundred times as long.
        #expect(many < few * 20, "\(many) and \(few)")
    }

    /// The processor time of this thread for changes of 50 apps, each with the rest of its turn.
    private static func timeOfChanges(among count: Int) -> Duration {
        let names = (0..<count).map { "app\($0)" }
        var plan = Fixture.plan(apps: names)
        plan.idleTimeout = .seconds(5)
        let apps = names.map { name in
            var app = Self.app(name, fault: "rubbish")
            app.certificate = CertificateFacts(
                subject: "s", userID: nil, topics: [], notBefore: 0, notAfter: 4_000_000_000, isForDevelopment: true,
                isForProduction: true)
            return app
        }
        for number in apps.indices { plan.set(apps[number], at: number, now: 1_800_000_000) }
        let fixture = MachineFixture(plan, capacity: 0)
        func change(_ number: Int) {
            fixture.pass(.milliseconds(10))
            _ = fixture.effects {
                $0.changed([(number, apps[number])], &$1)
                $0.tick(&$1)
            }
            _ = fixture.deadline
        }
        change(0)
        let start = processorTime()
        for round in 0..<4 { for number in 0..<50 { change((number + round) % 50) } }
        return processorTime() - start
    }

    /// Of this thread.
    private static func processorTime() -> Duration {
        var time = timespec()
        unsafe clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
    }

    @Test func `a side list of an app that was removed stays, and one of an unknown app returns`() {
        let fixture = Self.fixture()
        _ = fixture.effects { $0.changed([(1, Self.removed("beta"))], &$1) }
        fixture.aside("beta", "unknown")
        let effects = fixture.effects { $0.happened(.connected(warnings: []), list: 0, &$1) }
        #expect(effects.contains(.restore(aside: "unknown", list: 0)))
        #expect(!effects.contains(.restore(aside: "beta", list: 0)))
    }

    // MARK: Apps that were removed before the start

    private static func knowing(_ apps: [String: String], single: Bool = false) -> MachineFixture {
        let fixture = single ? MachineFixture() : fixture()
        _ = fixture.effects { $0.happened(.apps(apps), list: 0, &$1) }
        _ = fixture.effects { $0.happened(.connected(warnings: []), list: 0, &$1) }
        return fixture
    }

    @Test(arguments: [false, true])
    func `the jobs of an app that daemons have had wait, and those of an invented one are bad`(single: Bool) {
        let fixture = Self.knowing(["gamma": "com.gamma", "alpha": "topic"], single: single)
        let first: UInt64 = single ? 1 : 3
        #expect(fixture.claim(Self.gamma).releases(first, aside: "gamma", toTail: true))
        let late = Fixture.job("cc", #""app":"gamma","not_before":4000000000"#)
        #expect(fixture.claim(late).releases(first + 1, aside: "gamma", toTail: true))
        #expect(fixture.claim(Self.gamma, wasClaimed: true).releases(first + 2, aside: "gamma"))
        let retry = Fixture.job("cc", #""app":"gamma","_gapless_RETRYING":1"#)
        #expect(fixture.claim(retry).releases(first + 3, aside: "gamma"))
        #expect(fixture.claim(Fixture.job("dd", #""app":"delta""#)).deadLetter != nil)
        #expect(fixture.claim(#"{"app":"gamma","token":"cc"}"#).deadLetter != nil, "a bad job in any case")
    }

    @Test func `a topic selects an app that daemons have had only if no app of the settings has it`() {
        let fixture = Self.knowing(["gamma": "com.gamma", "old": "topic"])
        let first: UInt64 = 3
        #expect(fixture.claim(Fixture.job("cc", #""topic":"com.gamma""#)).releases(first, aside: "gamma", toTail: true))
        let voice = Fixture.job("cc", #""topic":"com.gamma.voip","push_type":"voip""#)
        #expect(fixture.claim(voice).releases(first + 1, aside: "gamma", toTail: true))
        #expect(fixture.claim(Fixture.job("cc", #""topic":"topic""#)) == [], "an app of the settings takes it")
        let single = Self.knowing(["gamma": "com.gamma"], single: true)
        #expect(single.claim(Fixture.job("cc", #""topic":"com.gamma""#)) == [], "the top level takes any topic")
    }

    @Test func `jobs with replaces keep their rank while they wait`() {
        let fixture = Self.knowing(["gamma": ""])
        let job = Fixture.job("cc", #""app":"gamma","replaces":"score""#)
        let settlements = fixture.claim(job, rank: 9).settlements
        guard case .replace(let marked, toTail: true) = settlements.first?.effect else {
            Issue.record("\(settlements)")
            return
        }
        #expect(settlements.map(\.aside) == ["gamma"])
        #expect(String(decoding: marked, as: UTF8.self).contains(#""_gapless_rank":9"#))
    }

    @Test func `the side list of an app that daemons have had stays, and its app sends the jobs once it is back`() {
        let fixture = Self.fixture()
        _ = fixture.effects { $0.happened(.disconnected("lost"), list: 0, &$1) }
        #expect(fixture.effects { $0.happened(.aside(["gamma", "invented"]), list: 0, &$1) } == [])
        _ = fixture.effects { $0.happened(.apps(["gamma": "com.gamma"]), list: 0, &$1) }
        let effects = fixture.effects { $0.happened(.connected(warnings: []), list: 0, &$1) }
        #expect(effects.filter { if case .restore = $0 { true } else { false } } == [.restore(aside: "invented", list: 0)])
        let plan = Fixture.plan(apps: ["alpha", "beta", "gamma"])
        #expect(fixture.effects { $0.adopted(plan, replaced: [false, false, true], &$1) }.contains(.open(app: 2)))
        fixture.machine.observed(.init(capacity: 50), app: 2)
        #expect(fixture.asideOffers() == ["gamma": 20])
        #expect(fixture.claim(Self.gamma, wasClaimed: true) == [])
        #expect(fixture.sent(by: 2).count == 1)
        // A reload without the app keeps what daemons have had.
        let other = Self.knowing(["gamma": "com.gamma"])
        let same = Fixture.plan(apps: ["alpha", "beta"])
        _ = other.effects { $0.adopted(same, replaced: [false, false], &$1) }
        #expect(other.claim(Self.gamma).releases(3, aside: "gamma", toTail: true))
    }

    // MARK: Apps without jobs

    @Test func `without jobs no app has sessions, and a few places remain for the first ones`() {
        let fixture = Self.fixture(idleTimeout: .seconds(10))
        #expect(fixture.tick() == [])
        #expect(fixture.offers() == [AppMachine.mostWhileOpening])
        #expect(fixture.deadline == nil)
    }

    @Test func `the first job opens the sessions, and goes out with the first of them`() {
        let fixture = Self.fixture(idleTimeout: .seconds(10))
        #expect(fixture.claim(Self.beta) == [.open(app: 1)])
        #expect(fixture.sent(by: 1).count == 1, "it waits in the pool")
        for _ in 1..<AppMachine.mostWhileOpening { #expect(fixture.claim(Self.beta) == []) }
        #expect(fixture.claim(Self.beta).settlements.map(\.aside) == ["beta"])
        #expect(fixture.claim(Self.alpha) == [.open(app: 0)], "the other app opens by itself")
    }

    @Test func `an app that is not open in a second returns its jobs, and keeps dialling while they wait`() {
        let fixture = Self.fixture(idleTimeout: .seconds(10))
        _ = fixture.claim(Self.beta)
        let id = fixture.sent(by: 1)
        fixture.pass(.seconds(1))
        #expect(fixture.tick() == [.withdraw(.release, app: 1)])
        #expect(fixture.withdraw(id, app: 1).releases(1, aside: "beta"))
        fixture.aside("beta")
        fixture.pass(.seconds(60))
        #expect(!fixture.tick().contains(.finish(app: 1)))
        fixture.machine.observed(.init(capacity: 50), app: 1)
        #expect(fixture.asideOffers() == ["beta": 20])
    }

    @Test func `after the timeout without a job the sessions close, and the next job opens them again`() {
        let fixture = Self.fixture(idleTimeout: .seconds(10))
        _ = fixture.claim(Self.beta)
        fixture.machine.observed(.init(capacity: 50), app: 1)
        let id = fixture.sent(by: 1)[0]
        fixture.pass(.seconds(30))
        #expect(fixture.tick() == [], "it has a job")
        _ = fixture.accept(id)
        #expect(fixture.tick() == [])
        #expect(fixture.deadline == fixture.now + .seconds(10))
        fixture.pass(.seconds(10))
        #expect(fixture.tick() == [.finish(app: 1)])
        #expect(fixture.claim(Self.beta) == [.open(app: 1)])
    }

    @Test func `a side list wakes its app, unless operators have paused it`() {
        let fixture = Self.fixture(idleTimeout: .seconds(10))
        let pause = QueuePause(.app("beta"), record: Array("{}".utf8))
        _ = fixture.effects { $0.happened(.paused([pause]), list: 0, &$1) }
        #expect(fixture.effects { $0.happened(.aside(["beta"]), list: 0, &$1) } == [])
        #expect(fixture.claim(Self.beta).settlements.map(\.aside) == ["beta"])
        #expect(fixture.effects { $0.happened(.paused([]), list: 0, &$1) }.contains(.open(app: 1)))
    }

    private static func campaign(_ app: String) -> Campaign {
        Campaign(
            id: "c", head: Array(#"{"token":""#.utf8), tail: Array(#"","app":"\#(app)","data":{"aps":{}}}"#.utf8),
            stop: 0)
    }

    @Test func `a campaign wakes its app, and keeps it awake`() {
        let fixture = Self.fixture(idleTimeout: .seconds(10))
        let campaign = Self.campaign("beta")
        #expect(fixture.effects { $0.happened(.campaigns([campaign], active: ["c"]), list: 0, &$1) } == [.open(app: 1)])
        fixture.machine.observed(.init(capacity: 50), app: 1)
        fixture.pass(.seconds(60))
        #expect(fixture.tick() == [])
        _ = fixture.effects { $0.happened(.campaigns([campaign], active: []), list: 0, &$1) }
        fixture.pass(.seconds(10))
        #expect(fixture.tick() == [.finish(app: 1)])
    }

    @Test func `a campaign of an app that is added later begins with it`() {
        let fixture = Self.fixture(idleTimeout: .seconds(10))
        _ = fixture.effects { $0.happened(.campaigns([Self.campaign("gamma")], active: ["c"]), list: 0, &$1) }
        var plan = Fixture.plan(apps: ["alpha", "beta", "gamma"])
        plan.idleTimeout = .seconds(10)
        let effects = fixture.effects { $0.adopted(plan, replaced: [false, false, true], &$1) }
        #expect(effects.contains(.open(app: 2)))
    }

    @Test func `an idle app is ready`() throws {
        let fixture = Self.fixture(idleTimeout: .seconds(10))
        let snapshot = fixture.machine.snapshot
        #expect(snapshot.apps.map(\.isIdle) == [true, true])
        #expect(Readiness.faults(.init(snapshot: snapshot, at: fixture.now), now: fixture.now) == [])
    }
}
