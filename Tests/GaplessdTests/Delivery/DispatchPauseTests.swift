import PushPool
import RedisQueue
import Testing

@testable import gaplessd

@Suite("The dispatcher: pauses")
struct DispatchPauseTests {
    private typealias Fixture = MachineFixture

    private static let whole = QueuePause(
        .list, record: Array(#"{"until": 0, "since": 5, "reason": "bad campaign", "by": "me@host"}"#.utf8))
    private static func app(_ name: String) -> QueuePause { QueuePause(.app(name), record: Array("{}".utf8)) }

    @Test func `a paused list takes back what is not on the wire, in its place, and is offered no places`() {
        let fixture = Fixture(Fixture.plan(apps: [nil, "news"]))
        fixture.close()
        let onStream = fixture.send()
        let inPool = fixture.send()
        _ = fixture.claim(Fixture.job())
        let effects = fixture.effects { $0.happened(.paused([Self.whole]), list: 0, &$1) }
        #expect(effects.releases(4))
        guard case .withdraw(.giveBack(let ids), app: 0) = effects.last else {
            Issue.record("no withdrawal: \(effects)")
            return
        }
        #expect(ids.isSuperset(of: [onStream, inPool]))
        #expect(fixture.withdraw([inPool], .giveBack(ids)).releases(3))
        #expect(fixture.offers() == [0] && fixture.sent() == [])
        #expect(fixture.accept(onStream).settlements == [Settlement(id: ClaimID(2), effect: .ack)])
        #expect(fixture.claim(Fixture.job()).releases(5), "a job of a claim that was under way")
        #expect(fixture.effects { $0.happened(.paused([Self.whole]), list: 0, &$1) } == [], "the same pause again")
        _ = fixture.effects { $0.happened(.paused([]), list: 0, &$1) }
        #expect(fixture.offers() != [0])
    }

    @Test func `the jobs of a paused app are set aside, and those of other apps go out`() {
        let fixture = Fixture(Fixture.plan(apps: [nil, "news"]))
        fixture.close()
        fixture.close(app: 1, Fixture.job("ab", #""app":"news""#))
        _ = fixture.effects { $0.happened(.paused([Self.app("news")]), list: 0, &$1) }
        #expect(fixture.claim(Fixture.job("ab", #""app":"news""#)).releases(3, aside: "news", toTail: true))
        #expect(fixture.claim(Fixture.job()) == [] && fixture.sent().count == 1)
        let snapshot = fixture.machine.snapshot
        #expect(snapshot.apps.map(\.isPaused) == [false, true])
    }

    @Test func `the only app is paused by its name on the command line, and then nothing is claimed`() {
        let fixture = Fixture()
        fixture.close()
        #expect(fixture.offers() != [0])
        _ = fixture.effects { $0.happened(.paused([Self.app("(top level)")]), list: 0, &$1) }
        #expect(fixture.offers() == [0])
        #expect(fixture.claim(Fixture.job()).releases(2))
    }

    @Test func `a paused list leaves its places to the next list`() {
        let fixture = Fixture(Fixture.plan(lists: ["first", "second"]))
        fixture.close()
        _ = fixture.effects { $0.happened(.paused([Self.whole]), list: 0, &$1) }
        let offers = fixture.offers(mayHaveJobs: [true, true])
        #expect(offers[0] == 0 && offers[1] > 0)
        #expect(fixture.claim(Fixture.job(), list: 1) == [] && fixture.sent().count == 1)
    }

    @Test func `a resend of a paused list returns to it, marked as a possible duplicate`() {
        let fixture = Fixture()
        fixture.close()
        let id = fixture.send()
        _ = fixture.effects { $0.happened(.paused([Self.whole]), list: 0, &$1) }
        #expect(fixture.fail(id, .notProcessed(.connectionLost("gone"))).releases(2))
    }

    @Test func `the jobs of a paused campaign are set aside in their order, and return when it is resumed`() {
        let fixture = Fixture()
        fixture.close()
        let job = Fixture.job("ab", #""campaign":"sale""#)
        let onStream = fixture.send(job)
        let inPool = fixture.send(job)
        let other = fixture.send(Fixture.job("ab", #""campaign":"other""#))
        let pause = QueuePause(.campaign("sale"), record: Array("{}".utf8))
        let effects = fixture.effects { $0.happened(.paused([pause]), list: 0, &$1) }
        guard case .withdraw(.giveBack(let ids), app: 0) = effects.last else {
            Issue.record("no withdrawal: \(effects)")
            return
        }
        #expect(ids == [onStream, inPool])
        #expect(fixture.withdraw([inPool], .giveBack(ids)).releases(3, aside: "campaign:sale"))
        #expect(fixture.claim(job).releases(5, aside: "campaign:sale", toTail: true))
        #expect(fixture.claim(job, wasClaimed: true).releases(6, aside: "campaign:sale"))
        #expect(fixture.claim(Fixture.job()) == [] && fixture.offers() != [0], "other jobs pass")
        #expect(fixture.fail(onStream, .notProcessed(.connectionLost("gone"))).releases(2, aside: "campaign:sale"))
        let sent = CampaignOutcome(campaign: "other", kind: .sent, isToken: false)
        #expect(fixture.accept(other).settlements == [Settlement(id: ClaimID(4), effect: .ack, campaign: sent)])
        #expect(fixture.effects { $0.happened(.aside(["campaign:sale"]), list: 0, &$1) } == [])
        let end = fixture.effects { $0.happened(.paused([]), list: 0, &$1) }
        #expect(end.last == .restore(aside: "campaign:sale", list: 0))
        #expect(fixture.claim(job) == [])
    }

    @Test func `the jobs that an interrupted cancel has taken away return when the list is no longer paused`() {
        let fixture = Fixture()
        _ = fixture.effects { $0.happened(.paused([Self.whole]), list: 0, &$1) }
        #expect(fixture.effects { $0.happened(.aside([Keys.sweptName]), list: 0, &$1) } == [])
        let end = fixture.effects { $0.happened(.paused([]), list: 0, &$1) }
        #expect(end.last == .restore(aside: Keys.sweptName, list: 0))
    }

    @Test func `a pause and its end are logged once, with their scope`() {
        let fixture = Fixture(Fixture.plan(apps: [nil, "news"]))
        let note = PauseNote(Self.whole)
        #expect(note.sentence == "paused by me@host: bad campaign")
        let begin = fixture.effects { $0.happened(.paused([Self.whole, Self.app("news")]), list: 0, &$1) }
        #expect(begin == [.log(.paused(note, list: nil)), .log(.paused(PauseNote(Self.app("news")), list: nil))])
        let end = fixture.effects { $0.happened(.paused([Self.app("news")]), list: 0, &$1) }
        #expect(end == [.log(.unpaused(note, list: nil))])
    }
}
