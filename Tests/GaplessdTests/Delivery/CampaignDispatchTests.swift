import Platform
import PushPool
import RedisQueue
import Testing

@testable import gaplessd

@Suite("The dispatcher: campaigns")
struct CampaignDispatchTests {
    private typealias Fixture = MachineFixture

    private static let single = #"{"token":"ab","identifier":7,"data":{"aps":{}}}"#

    private static func campaign(
        _ id: String = "c", head: String = #"{"token":""#, tail: String = #"","identifier":7,"data":{"aps":{}}}"#, stop: Int = 0
    ) -> Campaign { Campaign(id: id, head: Array(head.utf8), tail: Array(tail.utf8), stop: stop) }

    private static func token(_ token: String, of id: String = "c") -> String { "campaign:\(id)\n\(token)" }

    /// Knows these campaigns, and tokens can be claimed from all of them.
    private static func fixture(_ campaigns: [Campaign] = [campaign()], apps: [String?] = [nil], share: Double = 0.1)
        -> MachineFixture
    {
        var plan = MachineFixture.plan(apps: apps)
        plan.campaignShare = share
        let fixture = MachineFixture(plan)
        fixture.close()
        _ = fixture.effects { $0.happened(.campaigns(campaigns, active: Set(campaigns.map(\.id))), list: 0, &$1) }
        return fixture
    }

    private func offers(
        _ fixture: MachineFixture, hasJobs: Bool, resting: Set<String> = []
    ) -> ([String: Int], list: Int) {
        fixture.machine.countPlaces(limit: nil)
        let offers = fixture.machine.offerCampaigns(to: 0, hasJobs: hasJobs, resting: resting)
        return (
            Dictionary(uniqueKeysWithValues: offers.map { ($0.id, $0.places) }),
            fixture.machine.offer(to: 0, mayHaveJobs: hasJobs)
        )
    }

    private func batch(_ fixture: MachineFixture) -> [PushPool.Notification] {
        var batch: [PushPool.Notification] = []
        fixture.machine.takeOutgoing(of: 0, into: &batch)
        return batch
    }

    private static func outcome(_ kind: CampaignOutcome.Kind, isFailure: Bool = true) -> CampaignOutcome {
        var outcome = CampaignOutcome(campaign: "c", kind: kind, isToken: true)
        outcome.isFailure = isFailure
        return outcome
    }

    private func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

    @Test func `a job with tokens_from is launched, and settled when its campaign has begun`() throws {
        let fixture = Fixture()
        let job = #"{"a":1,"tokens_from":"aud", "campaign":"c","over":60,"stop_at":0.1,"data":{}}"#
        let effects = fixture.claim(job)
        guard case .launch(let order, let claim, list: 0) = effects.first else {
            Issue.record("no launch: \(effects)")
            return
        }
        #expect(order.name == "c" && order.source == "aud" && order.over == .seconds(60) && order.stopAt == 0.1)
        #expect(
            text(order.head + Array("ff".utf8) + order.tail)
                == #"{"a":1,"token":"ff", "campaign":"c","over":60,"stop_at":0.1,"data":{}}"#)
        let begun = fixture.effects { $0.happened(.launched(claim, .begun(id: "c", tokens: 5)), list: 0, &$1) }
        #expect(begun.settlements == [Settlement(id: claim.id, effect: .split(into: JobParts(texts: [])))])
        let refused = fixture.effects { $0.happened(.launched(claim, .refused(.wrongType("string"))), list: 0, &$1) }
        guard case .deadLetter(let record, _, _)? = refused.settlements.first?.effect else {
            Issue.record("\(refused)")
            return
        }
        let reason = #"tokens_from names the key "aud" of the type string; expected a list, set or sorted set"#
        #expect(DeadLetter(record: record)?.reason == "Parsing apns structure error: \(reason)")
        #expect(fixture.counters.dead == 1 && fixture.inFlight == 0)
    }

    @Test(arguments: ["q", "{q}:gapless:dead", "results"])
    func `a key of gaplessd is not handed over`(key: String) {
        var plan = Fixture.plan()
        plan.resultsKey = "results"
        let fixture = Fixture(plan)
        let effects = fixture.claim(#"{"tokens_from":"\#(key)","data":{}}"#)
        #expect(fixture.counters.dead == 1 && !effects.contains { if case .launch = $0 { true } else { false } })
    }

    @Test func `a campaign replaces nothing, because its tokens have no place in the list`() throws {
        let fixture = Fixture()
        let letter = fixture.claim(#"{"tokens_from":"aud","replaces":"r","data":{}}"#).deadLetter
        #expect(letter?.contains("replaces and tokens_from are both given") == true)
    }

    @Test func `the pushes of a campaign share the bytes of its job, and each has its own token`() {
        let fixture = Self.fixture()
        #expect(fixture.claim(Self.token("aa"), Self.token("BB")) == [])
        let batch = batch(fixture)
        #expect(batch.map { Array($0.bytes[$0.token]) } == [Array("aa".utf8), Array("BB".utf8)])
        for push in batch { #expect(text(Array((push.headers.body ?? push.bytes)[push.payload])) == #"{"aps":{}}"#) }
        let effects = fixture.accept(JobID(batch[0].id))
        guard effects.count == 1, case .acknowledgeToken(ClaimID(2), let job) = effects[0] else {
            Issue.record("no acknowledgement of a token")
            return
        }
        #expect(job.campaign.id == "c" && job.list == 0 && job.accepted == 1 && job.held == 1)
    }

    @Test func `a retry and a dead letter are the job in its single-token form`() throws {
        let fixture = Self.fixture()
        _ = fixture.claim(Self.token("ab"), Self.token("ab"))
        let sent = fixture.sent()
        let retry = try #require(fixture.reject(sent[0], 503, "ServiceUnavailable").settlements.first)
        guard case .delay(let job, _, isRetry: true) = retry.effect else {
            Issue.record("\(retry)")
            return
        }
        #expect(text(Job.unmarked(job)) == Self.single && retry.campaign == Self.outcome(.retried))
        let dead = try #require(fixture.reject(sent[1], 410, "Unregistered").settlements.first)
        guard case .deadLetter(let record, _, _) = dead.effect, let letter = DeadLetter(record: record) else {
            Issue.record("\(dead)")
            return
        }
        #expect(text(letter.job) == Self.single && letter.token == "ab" && letter.campaign == "c")
        #expect(dead.campaign == Self.outcome(.dead(reason: "Unregistered")))
    }

    @Test func `the retry of a campaign that the daemon has named has the name as a mark`() throws {
        let fixture = Self.fixture()
        _ = fixture.claim(Self.token("ab"))
        let retry = try #require(fixture.reject(fixture.sent()[0], 503, "ServiceUnavailable").settlements.first)
        guard case .delay(let job, _, _) = retry.effect else { return }
        #expect(text(job).contains(#""_gapless_campaign":"c""#))
        var reader = JobReader(retryLimit: 3, appNames: [])
        #expect(try reader.read(job).campaign == "c")
        let named = Self.fixture([Self.campaign(tail: #"","campaign":"c","data":{}}"#)])
        _ = named.claim(Self.token("ab"))
        let other = try #require(named.reject(named.sent()[0], 503, "ServiceUnavailable").settlements.first)
        guard case .delay(let job, _, _) = other.effect else { return }
        #expect(!text(job).contains("_gapless_campaign"))
    }

    @Test(arguments: [
        ("zz", "is not hex"), ("", "is empty"), (String(repeating: "a", count: 1001), "is longer than 1000 digits"),
    ])
    func `a bad token is a dead letter of its own`(token: String, fault: String) throws {
        let fixture = Self.fixture()
        let settlement = try #require(fixture.claim(Self.token(token), Self.token("ab")).settlements.first)
        guard case .deadLetter(let record, _, _) = settlement.effect, let letter = DeadLetter(record: record) else {
            Issue.record("\(settlement)")
            return
        }
        #expect(letter.reason.hasPrefix("Parsing apns structure error: token \(fault)"))
        #expect(text(letter.job) == #"{"token":"\#(token)","identifier":7,"data":{"aps":{}}}"#)
        #expect(settlement.campaign == Self.outcome(.dead(reason: letter.reason)) && fixture.sent().count == 1)
    }

    @Test func `blanks and brackets of a token are ignored`() {
        let fixture = Self.fixture()
        _ = fixture.claim(Self.token("<ab cd>"))
        #expect(batch(fixture).map { Array($0.bytes[$0.token]) } == [Array("abcd".utf8)])
    }

    @Test func `a token of an unknown campaign waits for its job, and is dead if Redis has none`() {
        let fixture = Fixture()
        let effects = fixture.claim(Self.token("ab", of: "x"))
        #expect(effects.first == .describe(campaign: "x", list: 0))
        guard case .delay(let job, .after(.seconds(1)), isRetry: false)? = effects.settlements.first?.effect else {
            Issue.record("\(effects)")
            return
        }
        #expect(text(job) == Self.token("ab", of: "x"))
        _ = fixture.effects { $0.happened(.campaignMissing("x"), list: 0, &$1) }
        #expect(fixture.claim(Self.token("ab", of: "x")).deadLetter != nil)
        _ = fixture.effects { $0.happened(.campaigns([Self.campaign("x")], active: []), list: 0, &$1) }
        #expect(fixture.claim(Self.token("ab", of: "x")) == [])
    }

    @Test func `without jobs a campaign takes the places, except a few for an urgent job`() {
        let fixture = Self.fixture([Self.campaign(stop: 100)])
        let (campaigns, list) = offers(fixture, hasJobs: false)
        #expect(campaigns == ["c": 100] && list == 200, "before its first acceptance")
        for _ in 0..<100 {
            _ = fixture.claim(Self.token("ab"))
            _ = fixture.accept(fixture.sent()[0])
        }
        #expect(offers(fixture, hasJobs: false).0 == ["c": 168], "100 streams, and as many behind them")
    }

    @Test(arguments: [(1, 20), (50, 50), (150, 150)])
    func `before its first acceptance, a campaign has as many tokens in flight as may fail`(stop: Int, places: Int) {
        let fixture = Self.fixture([Self.campaign(stop: stop)])
        #expect(offers(fixture, hasJobs: false).0 == ["c": places])
    }

    @Test func `while the list has jobs, campaigns get their share of what is claimed`() {
        let fixture = Self.fixture(share: 0.1)
        #expect(offers(fixture, hasJobs: true).0 == ["c": 0])
        for _ in 0..<90 { _ = fixture.claim(Fixture.job()) }
        _ = fixture.sent()
        let (campaigns, list) = offers(fixture, hasJobs: true)
        #expect(campaigns == ["c": 10] && list == 100, "10 of 110 places, after 90 jobs")
        for _ in 0..<10 { _ = fixture.claim(Self.token("ab")) }
        #expect(offers(fixture, hasJobs: true).0 == ["c": 0])
    }

    /// The tokens of a held app have returned to the list, and only a job of the list can show that the app works again.
    @Test func `a campaign without tokens leaves its places to the list, also the only one of a probe`() {
        let fixture = Self.fixture()
        for _ in 0..<40 { _ = fixture.accept(fixture.send()) }
        #expect(offers(fixture, hasJobs: true).0["c"] != 0)
        _ = fixture.reject(fixture.send(), 403, "InvalidProviderToken")
        fixture.pass(.seconds(6))
        #expect(offers(fixture, hasJobs: true, resting: ["c"]).list == 1)
        #expect(offers(fixture, hasJobs: true) == (["c": 1], list: 0))
    }

    @Test func `several campaigns share evenly, and a paused one gets nothing`() {
        let fixture = Self.fixture([Self.campaign("a"), Self.campaign("b"), Self.campaign("c")])
        #expect(offers(fixture, hasJobs: false).0 == ["a": 56, "b": 56, "c": 56])
        let pause = QueuePause(.campaign("b"), record: Array("{}".utf8))
        _ = fixture.effects { $0.happened(.paused([pause]), list: 0, &$1) }
        #expect(offers(fixture, hasJobs: false).0 == ["a": 84, "b": 0, "c": 84])
        #expect(fixture.claim(Self.token("ab", of: "b")).releases(2, aside: "campaign:b", toTail: true))
    }

    @Test func `the places are shared by those campaigns that have tokens to claim`() {
        let fixture = Self.fixture([Self.campaign("a", stop: 100), Self.campaign("b", stop: 100)])
        #expect(offers(fixture, hasJobs: false, resting: ["b"]).0 == ["a": 100, "b": 100])
        #expect(offers(fixture, hasJobs: false, resting: []).0 == ["a": 84, "b": 84])
    }

    @Test func `a campaign of an app that cannot send gets no places`() {
        let fixture = Self.fixture([Self.campaign(tail: #"","app":"absent","data":{}}"#)])
        #expect(offers(fixture, hasJobs: false).0 == ["c": 0])
        #expect(fixture.claim(Self.token("ab")).deadLetter != nil)
    }

    @Test func `a suspect token counts as a failure at once, and waits for an acceptance of its own campaign`() throws {
        let fixture = Self.fixture([Self.campaign(stop: 50)])
        _ = fixture.claim(Self.token("ab"), Self.token("cd"))
        let sent = fixture.sent()
        var suspected = CampaignOutcome(campaign: "c", kind: .suspected, isToken: false)
        #expect(fixture.reject(sent[0], 400, "BadDeviceToken").contains(.count(suspected, list: 0)))
        suspected.isFailure = true
        #expect(fixture.accept(fixture.send()).settlements.count == 1, "another job proves nothing about the campaign")
        let settlements = fixture.accept(sent[1]).settlements
        #expect(settlements.contains { $0.campaign == Self.outcome(.dead(reason: "BadDeviceToken"), isFailure: false) })
    }

    @Test func `a campaign that never stops has the places of the app, and any acceptance settles its suspects`() {
        let fixture = Self.fixture([Self.campaign(stop: 0)])
        #expect(offers(fixture, hasJobs: false).0 == ["c": 168])
        _ = fixture.claim(Self.token("ab"))
        #expect(fixture.reject(fixture.sent()[0], 400, "BadDeviceToken").settlements.isEmpty)
        #expect(fixture.accept(fixture.send()).settlements.count == 2)
    }
}
