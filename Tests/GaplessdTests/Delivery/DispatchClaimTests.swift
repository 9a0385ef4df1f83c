import Platform
import PushPool
import RedisQueue
import Testing

@testable import gaplessd

@Suite("The dispatcher: claims")
struct DispatchClaimTests {
    private typealias Fixture = MachineFixture
    private let fixture = MachineFixture()

    @Test mutating func `a claimed job goes to its pool and is acknowledged when APNs has accepted it`() {
        #expect(fixture.claim(Fixture.job("aa"), Fixture.job("bb")) == [])
        let sent = fixture.sent()
        #expect(sent.count == 2 && fixture.inFlight == 2)
        #expect(fixture.accept(sent[1]) == [.acknowledge(ClaimID(2), list: 0)])
        #expect(fixture.accept(sent[1]) == [])
        #expect(fixture.accept(sent[0]) == [.acknowledge(ClaimID(1), list: 0)])
        #expect(fixture.inFlight == 0)
        #expect(fixture.counters.claimed == 2 && fixture.counters.sent == 2)
    }

    @Test func `a delivered job is logged and recorded as the settings say`() {
        let fixture = MachineFixture(
            MachineFixture.plan(options: .init(loggedSuccesses: 1, recordsResults: true)))
        let id = fixture.send()
        let effects = fixture.accept(id)
        #expect(effects.first == .logSent(Array(Fixture.job().utf8)))
        #expect(effects.settlements.first?.result != nil && effects.settlements.first?.effect == .ack)
    }

    @Test func `the lines about pushes name app, apns-id, attempt and trace if the settings say so`() {
        let job = Fixture.job("ab", #""app":"beta","trace":"order-7","apns_id":"0a1b2c3d-0000-4000-8000-000000000001""#)
        let fixture = MachineFixture(MachineFixture.plan(apps: ["beta"], options: .init(loggedSuccesses: 1, tagsLines: true)))
        _ = fixture.claim(job, job)
        let ids = fixture.sent()
        var push = LoggedPush(
            app: "beta", apnsID: "0a1b2c3d-0000-4000-8000-000000000001", attempt: 1, status: 200, trace: "order-7")
        #expect(fixture.accept(ids[0]).first == .log(.sent(Array(job.utf8), push)))
        let effects = fixture.reject(ids[1], 410, "Unregistered")
        push.status = 410
        #expect(
            effects.contains(.log(.final(identifier: "0", reason: "410 Unregistered", job: Array(job.utf8), push: push))),
            "\(effects)")
    }

    @Test func `the line about a dead letter shows no unprintable character of its job`() {
        let job = Fixture.job("ab", "\"x\":\"\u{9B}\u{2028}\"")
        let fixture = MachineFixture()
        fixture.close()
        let effects = fixture.reject(fixture.send(job), 410, "Unregistered")
        let shown = Array(Fixture.job("ab", #""x":"\u009b\u2028""#).utf8)
        #expect(effects.contains(.log(.final(identifier: "0", reason: "410 Unregistered", job: shown))), "\(effects)")
        #expect(effects.deadLetter == "Unregistered")
    }

    @Test(arguments: ["no JSON", "[]", "{}", #"{"token":"ab"}"#, #"{"token":"ab","data":{},"app":"unknown"}"#])
    mutating func `a bad job becomes a dead letter and does not stop the others`(job: String) {
        let effects = fixture.claim(job, Fixture.job())
        #expect(effects.deadLetter != nil)
        #expect(fixture.sent().count == 1)
        #expect(fixture.counters.dead == 1)
    }

    @Test mutating func `a job is delayed until its not_before`() {
        let job = Fixture.job("ab", #""not_before":1800000060"#)
        let effect = Settlement.Effect.delay(job: Array(job.utf8), .at(milliseconds: 1_800_000_060_000), isRetry: false)
        #expect(fixture.claim(job).settlements.map(\.effect) == [effect])
        #expect(fixture.sent().isEmpty)
    }

    @Test mutating func `a job with several tokens is replaced by one job for each`() {
        let job = #"{"tokens":["aa","bb"],"data":{"aps":{}}}"#
        #expect(fixture.split(job) == [#"{"token":"aa","data":{"aps":{}}}"#, #"{"token":"bb","data":{"aps":{}}}"#])
    }

    @Test mutating func `a part without a token is no broadcast to the channel beside the tokens`() {
        let job = #"{"tokens":["aa",null],"channel":"AAAA","data":{"aps":{}}}"#
        #expect(fixture.split(job) == [#"{"token":"aa","data":{"aps":{}}}"#, #"{"token":null,"data":{"aps":{}}}"#])
    }

    /// Jobs of an app that is held, paused, without a session, or full return whole to the list, or to its side list.
    @Test(arguments: [[nil], [nil, "beta"]] as [[String?]])
    func `a job with several tokens stays one job while its app takes none`(apps: [String?]) {
        let job = #"{"tokens":["aa","bb"],"data":{"aps":{}}}"#
        let isShared = apps.count > 1
        let held = Fixture(Fixture.plan(apps: apps))
        _ = held.reject(held.send(), 403, "InvalidProviderToken")
        #expect(held.claim(job).releases(2, aside: isShared ? "" : nil, toTail: isShared))
        let away = Fixture(Fixture.plan(apps: apps))
        away.machine.observed(.init(), app: 0)
        #expect(away.claim(job).releases(1, aside: isShared ? "" : nil, toTail: isShared))
        let full = Fixture(Fixture.plan(apps: apps))
        for _ in 0..<CircuitBreaker.caution { _ = full.claim(Fixture.job()) }
        #expect(full.claim(job).releases(21, aside: isShared ? "" : nil, toTail: isShared))
        let paused = Fixture(Fixture.plan(apps: apps))
        let pause = QueuePause(.app(PauseNote.topLevel), record: Array("{}".utf8))
        _ = paused.effects { $0.happened(.paused([pause]), list: 0, &$1) }
        #expect(paused.claim(job).releases(1, aside: isShared ? "" : nil, toTail: isShared))
    }

    @Test func `a job with several tokens is delayed, expired, filtered and dead-lettered as a whole`() throws {
        var plan = Fixture.plan(options: .init(recordsResults: true))
        plan.filter = WordFilter(["darn"], action: .drop)
        let fixture = Fixture(plan)
        func job(_ members: String) -> String { #"{"tokens":["aa","bb"],"identifier":7,"data":{"aps":{}}\#(members)}"# }
        let late = job(#","not_before":1800000060"#)
        let delay = Settlement.Effect.delay(job: Array(late.utf8), .at(milliseconds: 1_800_000_060_000), isRetry: false)
        #expect(fixture.claim(late).settlements.map(\.effect) == [delay])
        for (job, reason) in [
            (job(#","expires_at":1"#), "Expired"), (job(#","data":{"a":"darn"}"#), "Filtered"),
            (job(#","app":"absent""#), #"Parsing apns structure error: app "absent" is unknown at byte 61"#),
        ] {
            let effects = fixture.claim(job)
            #expect(effects.count == 2, "one line and one record: \(effects)")
            let settlement = try #require(effects.settlements.first)
            guard case .deadLetter(let record, _, _) = settlement.effect else { return #expect(Bool(false), "\(effects)") }
            let letter = try #require(DeadLetter(record: record))
            #expect(letter.reason == reason && letter.token == nil && letter.job == Array(job.utf8))
            #expect(letter.identifier == [UInt8(ascii: "7")] && letter.attempts == 0)
            #expect(settlement.result?.texts.count(where: { $0 == Array(reason.utf8) }) == 1)
        }
        #expect(fixture.counters.expired == 1 && fixture.counters.dead == 2 && fixture.counters.released == 0)
    }

    @Test func `an expiry in a wrong unit is sent as it stands, with one warning for all tokens of a job`() {
        let fixture = Fixture()
        let parts = fixture.claim(#"{"tokens":["aa","bb"],"identifier":7,"data":{},"expires_at":1895300000000}"#)
        let text = "expires_at is in seconds, and this value is after the year 5000; is it in milliseconds?"
        #expect(parts.first == .log(.sentence(.warning, "A job (ID 7) is unusual: \(text)", .jobUnusual)) && parts.count == 2)
        let part = Fixture.job("aa", #""expires_at":1895300000000"#)
        #expect(fixture.claim(part, part) == [] && fixture.sent().count == 2)
        #expect(fixture.claim(Fixture.job("aa", #""expiry":1895300000"#)).count == 1, "another key")
        fixture.pass(.seconds(1))
        let resend = Fixture.job("aa", #""expires_at":1895300000000,"_gapless_RETRYING":1"#)
        #expect(fixture.claim(resend) == [], "its first send has warned")
        #expect(fixture.claim(part).count == 1)
    }

    @Test func `a payload that is nearly a background push is sent as it stands, with one warning for all tokens of a job`() {
        let fixture = Fixture()
        func job(_ data: String) -> String { #"{"tokens":["aa","bb"],"identifier":7,"data":\#(data)}"# }
        func warning(_ text: String) -> DispatchEffect {
            .log(.sentence(.warning, "A job (ID 7) is unusual: \(text).", .jobUnusual))
        }
        for (data, text) in [
            (
                #"{"aps":{"content-available":"1"}}"#,
                "content-available is not the number 1, so that the push is not a background push"
            ),
            (#"{"aps":{"content_available":1}}"#, "content_available is not a key of aps; it is content-available"),
            (
                #"{"aps":{"content-available":1,"sound":""}}"#,
                "sound is empty: leave it out of a background push, because with it the push is an alert"
            ),
        ] {
            let effects = fixture.claim(job(data))
            #expect(effects.first == warning(text) && effects.count == 2, "\(effects)")
            let part = #"{"token":"aa","data":\#(data)}"#
            #expect(fixture.claim(part, part) == [] && fixture.sent().count == 2)
            fixture.pass(.seconds(1))
        }
        for data in [
            #"{"aps":{"content-available":1}}"#, #"{"aps":{"content-available":1,"alert":"x","sound":"s"}}"#,
            #"{"aps":{"content-available":0,"alert":"x"}}"#, #"{"aps":{"alert":"content_available","sound":""}}"#,
        ] {
            #expect(fixture.claim(#"{"token":"aa","data":\#(data)}"#) == [], "\(data)")
        }
    }

    @Test func `with mask, a word does not stop a job with several tokens`() {
        var plan = Fixture.plan()
        plan.filter = WordFilter(["darn"], action: .mask)
        let fixture = Fixture(plan)
        #expect(fixture.split(#"{"tokens":["aa","bb"],"data":{"a":"darn"}}"#).count == 2)
    }

    @Test func `no more tokens than the app takes become jobs, and the others stay one job`() {
        let fixture = Fixture()
        let job = #"{"tokens":["a1","a2","a3","a4"],"data":{}}"#
        for _ in 0..<CircuitBreaker.caution - 3 { _ = fixture.claim(Fixture.job()) }
        let parts = fixture.split(job)
        #expect(parts == [#"{"tokens":["a1","a2","a3"],"data":{}}"#, #"{"tokens":["a4"],"data":{}}"#])
        #expect(fixture.split(parts[0]) == ["a1", "a2", "a3"].map { #"{"token":"\#($0)","data":{}}"# })
        // The places are taken by the jobs before it.
        let effects = fixture.claim(parts[0], job, Fixture.job()).settlements.map(\.effect)
        #expect(effects.count == 2 && effects[1] == .release(toTail: false))
        let closed = Fixture()
        closed.close()
        #expect(closed.split(job).count == 4)
        closed.machine.observed(.init(capacity: 100, limit: 4), app: 0)
        #expect(closed.split(job).count == 2)
    }

    @Test func `many bad tokens of one job become one dead letter with one line, and the good ones are sent`() throws {
        let fixture = Fixture()
        let bad = (1...11).map { "\"z\($0)\"" }
        let tokens = "\"aa\", " + bad.joined(separator: " , ") + ",\"bb\""
        let parts = fixture.split(#"{ "tokens" : [ \#(tokens) ] , "x":[1, 2], "data": {} }"#)
        let onlyBad = #"{ "tokens" : [ \#(bad.joined(separator: ",")) ] , "x":[1, 2], "data": {} }"#
        #expect(parts == [onlyBad, #"{ "tokens" : [ "aa","bb" ] , "x":[1, 2], "data": {} }"#])
        // Also while its app takes no jobs.
        fixture.machine.observed(.init(), app: 0)
        let effects = fixture.claim(onlyBad)
        let error = JobError.structure("11 tokens are invalid; first fault: token is not hex", at: 16)
        #expect(effects.first == .log(.badJob(Array(onlyBad.utf8), error, redacts: false)) && effects.count == 2)
        #expect(effects.deadLetter == error.reason)
        let few = Fixture()
        #expect(few.split(#"{"tokens":[\#(bad.dropLast().joined(separator: ","))],"data":{}}"#).count == 10)
        #expect(few.split(#"{"token":"z1","data":{}}"#).isEmpty && few.counters.dead == 1)
    }

    @Test mutating func `one claim splits no more than a megabyte`() {
        fixture.close()
        let tokens = Array(repeating: #""\#(String(repeating: "a", count: 1000))""#, count: 250).joined(separator: ",")
        let job = #"{"tokens":[\#(tokens)],"data":{"aps":{}}}"#
        let effects = fixture.claim(job, job, job, job, job, job).settlements.map(\.effect)
        #expect(effects.count == 6 && effects[5] == .release(toTail: false))
        guard case .split = effects[4] else { return #expect(Bool(false), "\(effects[4])") }
    }

    @Test mutating func `an expired job is a dead letter and is not sent`() {
        let effects = fixture.claim(Fixture.job("ab", #""expires_at":1799999999"#))
        #expect(effects.deadLetter == "Expired")
        #expect(fixture.sent().isEmpty && fixture.counters.expired == 1)
    }

    @Test mutating func `an expired job is a dead letter also before its not_before and without a session`() {
        #expect(fixture.claim(Fixture.job("ab", #""expires_at":1,"not_before":1900000000"#)).deadLetter == "Expired")
        fixture.machine.observed(.init(capacity: 0), app: 0)
        #expect(fixture.claim(Fixture.job("ab", #""expires_at":1"#)).deadLetter == "Expired")
    }

    @Test mutating func `no more than twenty jobs are out before the first acceptance`() {
        #expect(fixture.offers() == [20])
        for _ in 0..<20 { _ = fixture.claim(Fixture.job()) }
        #expect(fixture.offers() == [0])
        #expect(fixture.claim(Fixture.job()).releases(21))
        _ = fixture.accept(fixture.sent()[0])
        #expect(fixture.offers() == [200 - 19])
    }

    @Test mutating func `a job of an app without a session goes back to its place`() {
        fixture.machine.observed(.init(capacity: 0), app: 0)
        #expect(fixture.offers() == [0])
        #expect(fixture.claim(Fixture.job()).releases(1))
    }

    @Test mutating func `newer jobs of a token wait behind its retry after TooManyRequests`() {
        fixture.close()
        let id = fixture.send()
        _ = fixture.reject(id, 429, "TooManyRequests")
        let pause = Duration.seconds(1) + TokenMemory.distance
        #expect(
            fixture.claim(Fixture.job()).settlements.map(\.effect) == [
                .delay(job: Array(Fixture.job().utf8), .after(pause), isRetry: false)
            ])
        #expect(fixture.claim(Fixture.job("cd")).isEmpty)
        #expect(fixture.sent().count == 1)
    }

    @Test mutating func `a job that was in flight at several crashes becomes a dead letter`() {
        let job = ClaimedJob(id: ClaimID(5), bytes: Array("x".utf8))
        #expect(fixture.effects { $0.happened(.suspects([job]), list: 0, &$1) }.deadLetter == "crash_suspect")
    }

    @Test func `a list of lower priority gets places while those before it are empty`() {
        let fixture = MachineFixture(MachineFixture.plan(lists: ["first", "second"]))
        #expect(fixture.offers(mayHaveJobs: [true, true]) == [20, 0])
        #expect(fixture.offers(mayHaveJobs: [false, true]) == [20, 20])
    }

    @Test mutating func `under a limit half a second's jobs wait at most, and more are claimed when half are gone`() {
        fixture.close()
        let limit = ClaimBudget.Rate(pushesPerSecond: 20)
        #expect(fixture.offers(limit: limit) == [10])
        for _ in 0..<8 { _ = fixture.claim(Fixture.job()) }
        #expect(fixture.offers(limit: limit) == [2])
        #expect(fixture.deadline == fixture.now + .milliseconds(200))
        fixture.machine.observed(.init(capacity: 100, limit: 2, waiting: 0), app: 0)
        #expect(fixture.offers() == [0], "the limit of the pool after ENHANCE_YOUR_CALM")
    }

    @Test func `an app that APNs has slowed down leaves the places of the other apps of its list to them`() {
        let fixture = MachineFixture(MachineFixture.plan(apps: ["alpha", "beta"]), capacity: 50)
        fixture.close(app: 0, Fixture.job("aa", #""app":"alpha""#))
        fixture.close(app: 1, Fixture.job("bb", #""app":"beta""#))
        fixture.machine.observed(.init(capacity: 50, limit: 2, waiting: 0), app: 0)
        for _ in 0..<300 {
            _ = fixture.claim(Fixture.job("ab", #""app":"alpha""#))
            fixture.pass(.seconds(6))
            _ = fixture.tick()
        }
        #expect(fixture.offers()[0] >= 100)
        // As many as it sends in half a second.
        #expect(fixture.inFlight == 1)
    }

    @Test func `jobs of an app that APNs has slowed down do not use up a limit of all apps`() {
        let fixture = MachineFixture(MachineFixture.plan(apps: ["alpha", "beta"]), capacity: 50)
        fixture.close(app: 0, Fixture.job("aa", #""app":"alpha""#))
        fixture.close(app: 1, Fixture.job("bb", #""app":"beta""#))
        fixture.machine.observed(.init(capacity: 50, limit: 2), app: 0)
        var waiting = 0
        for _ in 0..<10 {
            _ = fixture.claim(Fixture.job("ab", #""app":"alpha""#))
            waiting += fixture.sent().count
            fixture.machine.observed(.init(capacity: 50, limit: 2, waiting: waiting), app: 0)
            fixture.pass(.seconds(6))
            _ = fixture.tick()
        }
        #expect(fixture.offers(limit: ClaimBudget.Rate(pushesPerSecond: 20))[0] > 0)
        #expect(waiting == 1)
    }

    @Test func `jobs of an app that wait for its few streams do not use up a limit of all apps`() {
        let fixture = MachineFixture(MachineFixture.plan(apps: ["alpha", "beta"]), capacity: 50)
        fixture.close(app: 0, Fixture.job("aa", #""app":"alpha""#))
        fixture.close(app: 1, Fixture.job("bb", #""app":"beta""#))
        for _ in 0..<100 { _ = fixture.claim(Fixture.job("ab", #""app":"alpha""#)) }
        #expect(fixture.sent().count == 100)
        fixture.machine.observed(.init(capacity: 50, waiting: 50), app: 0)
        #expect(fixture.offers(limit: ClaimBudget.Rate(pushesPerSecond: 20)) == [10])
    }

    @Test func `an app whose streams become few gives back what waits for them, and leaves its list to other apps`() {
        let fixture = MachineFixture(MachineFixture.plan(apps: ["alpha", "beta"]), capacity: 50)
        fixture.close(app: 0, Fixture.job("aa", #""app":"alpha""#))
        fixture.close(app: 1, Fixture.job("bb", #""app":"beta""#))
        for _ in 0..<100 { _ = fixture.claim(Fixture.job("ab", #""app":"alpha""#)) }
        let sent = fixture.sent()
        fixture.machine.observed(.init(capacity: 1), app: 0)
        #expect(fixture.tick() == [], "a new session may have one stream at first")
        #expect(fixture.offers() == [100] && fixture.deadline == fixture.now + .seconds(1))
        fixture.pass(.seconds(1))
        fixture.machine.observed(.init(capacity: 1), app: 0)
        #expect(fixture.tick() == [.withdraw(.release, app: 0)])
        #expect(fixture.tick() == [])
        // The streams that are open stay.
        #expect(fixture.withdraw(Array(sent[50...])).settlements.allSatisfy { $0.aside == "alpha" })
        #expect(fixture.inFlight == 50)
        #expect(fixture.offers() == [100])
        #expect(fixture.claim(Fixture.job("ab", #""app":"alpha""#)).releases(103, aside: "alpha", toTail: true))
        for id in sent[..<50] { _ = fixture.accept(id) }
        fixture.machine.observed(.init(capacity: 1), app: 0)
        #expect(fixture.asideOffers() == ["alpha": 2])
        fixture.aside()
        #expect(fixture.send(Fixture.job("ab", #""app":"alpha""#)).rawValue > 0)
    }
}

extension MachineFixture {
    /// Claims a job and returns its parts.
    fileprivate func split(_ job: String) -> [String] {
        claim(job).settlements.flatMap { settlement in
            guard case .split(let parts) = settlement.effect else { return [String]() }
            return parts.parts(of: Array(job.utf8)).map { String(decoding: $0, as: UTF8.self) }
        }
    }
}
