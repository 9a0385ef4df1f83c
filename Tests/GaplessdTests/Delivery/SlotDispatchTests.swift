import Platform
import PushPool
import RedisQueue
import Testing

@testable import gaplessd

@Suite("The dispatcher: jobs with a scope")
struct SlotDispatchTests {
    private typealias Fixture = MachineFixture

    private static let state = Fixture.job("ab", #""replaces":"score""#)
    private static let broadcast = #"{"channel":"eA==","data":{"aps":{"event":"update"}}}"#

    /// The only settlement, which puts a job into its slot.
    private static func entry(_ effects: [DispatchEffect]) -> SlotEntry? {
        guard effects.settlements.count == 1, case .slot(let entry) = effects.settlements[0].effect else { return nil }
        return entry
    }

    private static func text(_ entry: SlotEntry?) -> String { entry.map { String(decoding: $0.job, as: UTF8.self) } ?? "" }

    @Test func `a claimed job goes into its slot with its rank, also while the list is paused or its app is held`() throws {
        for obstacle in 0..<3 {
            let fixture = Fixture()
            if obstacle == 1 {
                let pause = QueuePause(.list, record: Array("{}".utf8))
                _ = fixture.effects { $0.happened(.paused([pause]), list: 0, &$1) }
            }
            if obstacle == 2 { _ = fixture.reject(fixture.send(), 403, "Forbidden") }
            let entry = try #require(Self.entry(fixture.claim(Self.state, rank: 7)))
            #expect(entry.scope == Scope(app: "", lane: "t::ab", name: "score", rank: 7, event: .update))
            #expect(Self.text(entry) == Self.state.dropLast() + #","_gapless_rank":7}"#)
            #expect(entry.due == nil && entry.throttle == nil && entry.count == .released)
            #expect(fixture.sent().isEmpty)
        }
    }

    @Test func `the scope has the app, the token in lower case or the channel, the name and the event`() throws {
        let fixture = Fixture(Fixture.plan(apps: [nil, "beta"]))
        func scope(_ job: String) throws -> Scope { try #require(Self.entry(fixture.claim(job, rank: 1))).scope }
        #expect(try scope(Fixture.job("AB", #""replaces":"score","app":"beta""#)).lane == "t:beta:ab")
        let end = try scope(#"{"channel":"eA==","replaces":"a b","data":{"aps":{"event":"end"}}}"#)
        #expect(end.lane == "c::eA==" && end.event == .end && end.name?.hasPrefix("#") == true)
        let start = #"{"token":"cd","replaces":"x","data":{"aps":{"event":"start"}}}"#
        #expect(try scope(start).event == .start)
        let long = try scope(Fixture.job(String(repeating: "a", count: 1000), #""replaces":"x""#))
        #expect(long.lane.utf8.count < 50 && long.lane.hasPrefix("t#"))
        #expect(try scope(Fixture.job("ab", #""replaces":"x","_gapless_rank":3"#)).rank == 3)
    }

    @Test func `a job from its slot goes out, and its end frees the scope`() throws {
        let fixture = Fixture()
        let marked = Fixture.job("ab", #""replaces":"score","_gapless_rank":7"#)
        #expect(fixture.claim(marked, isFromSlot: true) == [])
        let id = try #require(fixture.sent().first)
        let accepted = fixture.accept(id).settlements
        #expect(accepted.map(\.effect) == [.ack] && accepted[0].scope?.rank == 7)
        #expect(fixture.claim(marked, isFromSlot: true) == [])
        let dead = fixture.reject(try #require(fixture.sent().first), 400, "BadPriority")
        #expect(dead.deadLetter == "BadPriority" && dead.settlements[0].scope?.rank == 7)
    }

    @Test func `what would be retried, resent in doubt or released returns to the slot`() throws {
        let fixture = Fixture()
        fixture.close()
        let marked = Fixture.job("ab", #""replaces":"score","_gapless_rank":7"#)
        func fail(_ outcome: Outcome) throws -> SlotEntry? {
            _ = fixture.claim(marked, isFromSlot: true)
            return Self.entry(fixture.fail(try #require(fixture.sent().first), outcome))
        }
        let retried = try fail(.rejected(Rejection(status: 500, reason: "InternalServerError")))
        #expect(retried?.count == .retried && retried?.due == .after(.seconds(1)))
        #expect(Self.text(retried).contains(#""_gapless_RETRYING":1"#))
        let doubtful = try fail(.maybeProcessed(.connectionLost("cut")))
        #expect(doubtful?.count == .released && Self.text(doubtful).contains(#""_gapless_doubtful":1"#))
        _ = fixture.reject(fixture.send(), 403, "Forbidden")
        let released = Self.entry(fixture.claim(marked, isFromSlot: true))
        #expect(released?.count == .postponed && released?.due == .after(.seconds(1)), "the app is held")
    }

    @Test func `a 429 for a channel, or a Live Activity from its slot, sets the pace and is not counted`() throws {
        let fixture = Fixture()
        fixture.close()
        let rejection = Outcome.rejected(Rejection(status: 429, reason: "TooManyRequests", retryAfter: .seconds(3)))
        #expect(fixture.claim(Self.broadcast, rank: 9) == [])
        let paced = Self.entry(fixture.fail(try #require(fixture.sent().first), rejection))
        #expect(paced?.throttle == .seconds(3) && paced?.count == .postponed && paced?.scope.name == nil)
        #expect(!Self.text(paced).contains("RETRYING"))
        let next = try #require(Self.entry(fixture.claim(Self.broadcast, rank: 10)), "the app has slots")
        #expect(next.throttle == nil && next.scope.lane == "c::eA==")
        for (type, isPaced) in [("liveactivity", true), ("alert", false)] {
            let job = Fixture.job("ab", #""replaces":"x","_gapless_rank":1,"push_type":"\#(type)","topic":"a.b""#)
            _ = fixture.claim(job, isFromSlot: true)
            let entry = Self.entry(fixture.fail(try #require(fixture.sent().first), rejection))
            #expect((entry?.throttle != nil) == isPaced && (entry?.count == .retried) != isPaced)
        }
    }

    @Test func `with channel_pace each broadcast goes through its slot`() {
        var plan = Fixture.plan()
        #expect(Self.entry(Fixture(plan).claim(Self.broadcast, rank: 1)) == nil)
        plan.pacesChannels = true
        #expect(Self.entry(Fixture(plan).claim(Self.broadcast, rank: 1)) != nil)
    }

    @Test func `a job for several tokens gets its rank first, and its parts keep it`() throws {
        let fixture = Fixture()
        fixture.close()
        let job = #"{"tokens":["aa","bb"],"replaces":"x","data":{"aps":{}}}"#
        let marked = job.dropLast() + #","_gapless_rank":5}"#
        #expect(fixture.claim(job, rank: 5).settlements.map(\.effect) == [.replace(with: Array(marked.utf8), toTail: false)])
        guard case .split(let parts) = fixture.claim(String(marked), rank: 9).settlements.first?.effect else {
            Issue.record("no split")
            return
        }
        let texts = parts.parts(of: Array(marked.utf8)).map { String(decoding: $0, as: UTF8.self) }
        #expect(texts == ["aa", "bb"].map { #"{"token":"\#($0)","replaces":"x","data":{"aps":{}},"_gapless_rank":5}"# })
    }

    @Test func `a newer job waits in its slot for the parts of an older one for several tokens`() throws {
        let fixture = Fixture()
        fixture.close()
        func due(_ rank: UInt64) throws -> Settlement.Due? { try #require(Self.entry(fixture.claim(Self.state, rank: rank))).due }
        let job = #"{"tokens":["aa","bb"],"replaces":"x","data":{"aps":{"event":"start"}}}"#
        #expect(try due(4) == nil)
        #expect(fixture.claim(job, rank: 5).settlements.count == 1)
        #expect(try due(6) == .after(Splits.partsWait))
        fixture.pass(Splits.partsWait)
        #expect(fixture.claim(String(job.dropLast() + #","_gapless_rank":5}"#), rank: 9).settlements.count == 1)
        #expect(try due(7) == .after(Splits.partsWait), "the parts go through the list, too")
        let part = #"{"token":"aa","replaces":"x","data":{"aps":{"event":"start"}},"_gapless_rank":5}"#
        #expect(try #require(Self.entry(fixture.claim(part, rank: 10))).due == nil)
        fixture.pass(Splits.partsWait)
        #expect(try due(11) == nil)
    }

    // MARK: Channels by name

    private static let named = #"{"channel_name":"match-1","replaces":"score","data":{"aps":{"event":"update"}}}"#

    private func find(_ id: String, _ fixture: Fixture) {
        fixture.machine.answered(.found(ChannelName(app: "", name: "match-1"), id: id, storage: .latest))
    }

    @Test func `a state of a channel by name has the scope and the pace of the channel`() throws {
        let fixture = Fixture()
        let waiting = fixture.claim(Self.named, rank: 1)
        #expect(waiting.contains(.askKeeper(.find(ChannelName(app: "", name: "match-1")))))
        #expect(Self.entry(waiting)?.scope.lane == "n::match-1" && Self.entry(waiting)?.due == .after(.milliseconds(100)))
        find("eA==", fixture)
        let entry = try #require(Self.entry(fixture.claim(Self.named, rank: 2)))
        let plain = try #require(Self.entry(fixture.claim(#"{"channel":"eA==","replaces":"score","data":{"aps":{}}}"#, rank: 3)))
        #expect(entry.scope.lane == "c::eA==" && plain.scope.lane == "c::eA==" && plain.scope.name == entry.scope.name)
        #expect(Self.text(entry) == Self.named.dropLast() + #","_gapless_rank":2,"_gapless_channel":"eA=="}"#)
    }

    @Test func `a state that waited for its channel moves to the scope of the channel, and is sent from there`() throws {
        let fixture = Fixture()
        fixture.close()
        _ = fixture.claim(Self.named, rank: 1)
        find("eA==", fixture)
        let marked = Self.named.dropLast() + #","_gapless_rank":1}"#
        let moved = fixture.claim(String(marked), isFromSlot: true)
        let entry = try #require(Self.entry(moved))
        #expect(entry.scope.lane == "c::eA==" && entry.scope.rank == 1 && entry.count == .released)
        #expect(moved.settlements[0].scope?.lane == "n::match-1" && moved.settlements[0].scope?.rank == 1)
        #expect(fixture.sent().isEmpty)
        #expect(fixture.claim(Self.text(entry), isFromSlot: true) == [])
        let accepted = fixture.accept(try #require(fixture.sent().first)).settlements
        #expect(accepted.map(\.effect) == [.ack] && accepted[0].scope?.lane == "c::eA==")
    }

    @Test func `a state of a channel that this process does not know yet returns to its scope`() throws {
        let fixture = Fixture()
        fixture.close()
        let marked = Self.named.dropLast() + #","_gapless_rank":1,"_gapless_channel":"eA=="}"#
        let entry = try #require(Self.entry(fixture.claim(String(marked), isFromSlot: true)))
        #expect(entry.scope.lane == "c::eA==" && entry.due == .after(.milliseconds(100)) && Self.text(entry) == marked)
        find("eB==", fixture)
        let moved = fixture.claim(String(marked), isFromSlot: true)
        #expect(Self.entry(moved)?.scope.lane == "c::eB==" && moved.settlements[0].scope?.lane == "c::eA==")
    }

    @Test func `a state whose channel does not exist is a bad job, and frees its scope`() throws {
        let fixture = Fixture()
        fixture.close()
        let marked = Self.named.dropLast() + #","_gapless_rank":1}"#
        _ = fixture.claim(String(marked), isFromSlot: true)
        fixture.machine.answered(.missing(ChannelName(app: "", name: "match-1")))
        let effects = fixture.claim(String(marked), isFromSlot: true)
        #expect(effects.deadLetter?.contains("channel_name") == true)
        #expect(effects.settlements[0].scope?.lane == "n::match-1" && effects.settlements[0].scope?.rank == 1)
    }

    @Test func `a broadcast without replaces waits for its channel among the delayed jobs`() throws {
        var plan = Fixture.plan()
        plan.pacesChannels = true
        let fixture = Fixture(plan)
        let job = #"{"channel_name":"match-1","data":{"aps":{"event":"update"}}}"#
        let delayed = Settlement.Effect.delay(job: Array(job.utf8), .after(.milliseconds(100)), isRetry: false)
        #expect(fixture.claim(job, rank: 1).settlements.map(\.effect) == [delayed])
        find("eA==", fixture)
        let scope = Self.entry(fixture.claim(job, rank: 1))?.scope
        #expect(scope?.lane == "c::eA==" && scope?.name == nil)
    }

    // MARK: Ends

    @Test func `a state whose campaign is paused waits in its slot`() throws {
        let fixture = Fixture()
        fixture.close()
        let pause = QueuePause(.campaign("spring"), record: Array("{}".utf8))
        _ = fixture.effects { $0.happened(.paused([pause]), list: 0, &$1) }
        let marked = Fixture.job("ab", #""replaces":"score","campaign":"spring","_gapless_rank":7"#)
        let entry = try #require(Self.entry(fixture.claim(marked, isFromSlot: true)))
        #expect(entry.due == .after(.seconds(5)) && entry.count == .postponed && fixture.sent().isEmpty)
        _ = fixture.effects { $0.happened(.paused([]), list: 0, &$1) }
        #expect(fixture.claim(marked, isFromSlot: true) == [] && fixture.sent().count == 1)
    }

    @Test func `the log has the bytes of the producer`() throws {
        let options = Settler.Options(loggedSuccesses: 1)
        let fixture = Fixture(Fixture.plan(options: options))
        fixture.close()
        let marked = Self.state.dropLast() + #","_gapless_rank":7}"#
        _ = fixture.claim(String(marked), isFromSlot: true)
        let effects = fixture.accept(try #require(fixture.sent().first))
        #expect(effects.contains(.logSent(Array(Self.state.utf8))))
    }

    @Test func `an expired job becomes a dead letter, and does not take the place of the one that waits`() {
        let fixture = Fixture()
        let effects = fixture.claim(Fixture.job("ab", #""replaces":"x","expires_at":1"#), rank: 5)
        #expect(effects.deadLetter == "Expired" && effects.settlements[0].scope?.rank == 5)
    }

    @Test func `a job before its not_before waits in its slot`() {
        let fixture = Fixture()
        let entry = Self.entry(fixture.claim(Fixture.job("ab", #""replaces":"x","not_before":1900000000"#), rank: 5))
        #expect(entry?.due == .at(milliseconds: 1_900_000_000_000))
    }

    @Test func `the slots of an app are offered its places, without taking those of the list`() {
        let fixture = Fixture(Fixture.plan(), capacity: 50)
        fixture.close()
        _ = fixture.effects { $0.happened(.slots([""]), list: 0, &$1) }
        #expect(fixture.slotOffers() == ["": 100] && fixture.offers() == [100])
        _ = fixture.reject(fixture.send(), 403, "Forbidden")
        #expect(fixture.slotOffers()[""] ?? 0 <= 1)
        _ = fixture.effects { $0.happened(.slots([]), list: 0, &$1) }
        #expect(fixture.slotOffers() == [:])
    }

    @Test(arguments: [#""replaces":7"#, #""replaces":"""#, #""replaces":"\#(String(repeating: "x", count: 65))""#])
    func `a name that is not a text of 1 to 64 bytes is a bad job`(member: String) {
        #expect(Fixture().claim(Fixture.job("ab", member)).deadLetter?.contains("replaces") == true)
    }
}
