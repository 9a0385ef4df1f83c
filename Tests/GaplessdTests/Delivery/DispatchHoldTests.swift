import Platform
import PushPool
import RedisQueue
import Testing

@testable import gaplessd

@Suite("The dispatcher: held apps")
struct DispatchHoldTests {
    private typealias Fixture = MachineFixture
    private let fixture = MachineFixture()

    @Test mutating func `a suspect response waits for an acceptance, before and after the first one`() {
        let (suspect, good) = (fixture.send(), fixture.send(Fixture.job("cd")))
        #expect(
            fixture.reject(suspect, 400, "BadDeviceToken")
                == [.log(.firstSuspect(app: "", .rejected(Rejection(status: 400, reason: "BadDeviceToken"))))])
        #expect(fixture.inFlight == 2)
        let settlements = fixture.accept(good).settlements
        #expect(settlements.count == 2 && settlements.allSatisfy { $0.id.number <= 2 })
        #expect(fixture.counters.dead == 1 && fixture.counters.sent == 1)
        let (next, last) = (fixture.send(), fixture.send())
        #expect(fixture.reject(next, 400, "BadDeviceToken") == [])
        #expect(fixture.inFlight == 2 && fixture.deadline == fixture.now + .seconds(60))
        #expect(fixture.accept(last).settlements.count == 2)
        #expect(fixture.counters.dead == 2 && fixture.inFlight == 0 && fixture.deadline == nil)
    }

    @Test(arguments: [true, false])
    func `a suspect response is final after a minute`(isProven: Bool) {
        let fixture = MachineFixture()
        if isProven { fixture.close() }
        let first = fixture.send()
        _ = fixture.reject(first, 400, "DeviceTokenNotForTopic")
        fixture.pass(.seconds(59))
        let second = fixture.send()
        _ = fixture.reject(second, 400, "BadDeviceToken")
        #expect(fixture.tick() == [])
        fixture.pass(.seconds(1))
        #expect(fixture.tick().deadLetter == "DeviceTokenNotForTopic")
        #expect(fixture.inFlight == 1 && fixture.deadline == fixture.now + .seconds(59))
    }

    @Test mutating func `twenty suspect responses hold an app a day after its acceptance, a second after the last response`() {
        fixture.close()
        fixture.pass(CircuitBreaker.proofLifetime)
        for _ in 0..<20 { _ = fixture.reject(fixture.send(), 400, "BadDeviceToken") }
        let id = fixture.send()
        fixture.pass(.seconds(1))
        #expect(fixture.tick() == [])
        _ = fixture.reject(id, 400, "BadDeviceToken")
        fixture.pass(.seconds(1))
        #expect(fixture.tick().contains(.log(.held(app: "", .suspectTokens))))
        #expect(fixture.inFlight == 0 && fixture.counters.dead == 0)
    }

    @Test mutating func `if one response stays away, they hold it after ten seconds, and every job goes back`() {
        fixture.close()
        fixture.pass(CircuitBreaker.proofLifetime)
        let ids = (0..<30).map { _ in fixture.send() }
        for id in ids.dropLast() { #expect(fixture.reject(id, 400, "BadDeviceToken") == []) }
        #expect(fixture.inFlight == 30)
        fixture.pass(.seconds(10))
        let effects = fixture.tick()
        #expect(effects.contains(.log(.held(app: "", .suspectTokens))))
        #expect(effects.settlements.count == 29)
        #expect(effects.settlements.allSatisfy { $0.effect == .release(toTail: true) })
        #expect(fixture.reject(ids[29], 400, "BadDeviceToken").releases(31, toTail: true))
        #expect(fixture.inFlight == 0 && fixture.counters.dead == 0)
    }

    @Test mutating func `dead tokens alone end as suspect dead letters after a minute if the app was accepted within a day`() {
        fixture.close()
        fixture.pass(.seconds(3600))
        var effects: [DispatchEffect] = []
        for _ in 0..<300 { effects += fixture.reject(fixture.send(), 400, "BadDeviceToken") }
        #expect(effects == [] && fixture.inFlight == 300 && fixture.offers()[0] > 0)
        fixture.pass(.seconds(59))
        #expect(fixture.tick() == [])
        fixture.pass(.seconds(1))
        #expect(fixture.tick().settlements.count == 300)
        #expect(fixture.counters.dead == 300 && fixture.inFlight == 0 && fixture.counters.released == 0)
    }

    @Test mutating func `at most two thousand jobs in a row are settled as suspect, whatever their pace is`() {
        fixture.close()
        var logged = 0
        for _ in 0..<2100 {
            if fixture.offers()[0] == 0 { break }
            for effect in fixture.reject(fixture.send(), 400, "BadDeviceToken") + fixture.tick() {
                if effect == .log(.held(app: "", .suspectTokens)) { logged += 1 }
            }
            fixture.pass(.seconds(1))
        }
        #expect(logged == 1)
        // The pending suspects are settled in time; a probe returns to the list.
        fixture.pass(.seconds(60))
        _ = fixture.tick()
        #expect(fixture.counters.dead == 2000 && fixture.inFlight == 0)
        for _ in 0..<30 {
            let probe = fixture.send()
            let effects = fixture.reject(probe, 400, "BadDeviceToken")
            #expect(effects.settlements.map(\.effect) == [.release(toTail: true)])
            fixture.pass(.seconds(5))
        }
        #expect(fixture.counters.dead == 2000)
        #expect(fixture.accept(fixture.send()).contains(.log(.resumed(app: ""))))
    }

    @Test mutating func `a suspect response while others are pending for a held app does not stop its probes`() {
        fixture.close()
        let late = fixture.send()
        for _ in 0..<2000 { _ = fixture.reject(fixture.send(), 400, "BadDeviceToken") }
        #expect(fixture.inFlight == 2001 && fixture.offers() == [0])
        #expect(fixture.reject(late, 400, "BadDeviceToken").releases(2, toTail: true))
        fixture.pass(.seconds(5))
        #expect(fixture.offers() == [1])
        let effects = fixture.accept(fixture.send())
        #expect(effects.contains(.log(.resumed(app: ""))) && effects.settlements.count == 2001)
        #expect(fixture.counters.dead == 2000 && fixture.offers() == [200])
    }

    @Test mutating func `probes of suspect tokens grow from one to twenty, and any acceptance ends the hold`() {
        for _ in 0..<20 { _ = fixture.reject(fixture.send(), 400, "BadDeviceToken") }
        for size in [1, 2, 4, 8, 16, 20, 20] {
            fixture.pass(.seconds(5) - .milliseconds(1))
            #expect(fixture.offers() == [0])
            fixture.pass(.milliseconds(1))
            #expect(fixture.offers() == [size])
            let probes = (0..<size).map { _ in fixture.send() }
            #expect(fixture.offers() == [0])
            for probe in probes {
                let settlements = fixture.reject(probe, 400, "BadDeviceToken").settlements
                #expect(settlements.map(\.effect) == [.release(toTail: true)])
            }
        }
        fixture.pass(.seconds(5))
        let probes = (0..<20).map { _ in fixture.send() }
        _ = fixture.reject(probes[0], 400, "BadDeviceToken")
        #expect(fixture.accept(probes[1]).contains(.log(.resumed(app: ""))))
        #expect(fixture.reject(probes[2], 400, "BadDeviceToken").settlements == [])
        #expect(fixture.counters.dead == 0)
    }

    @Test mutating func `probes that are lost or inconclusive do not stop the next round`() {
        for _ in 0..<20 { _ = fixture.reject(fixture.send(), 400, "BadDeviceToken") }
        fixture.pass(.seconds(5))
        _ = fixture.reject(fixture.send(), 400, "BadDeviceToken")
        fixture.pass(.seconds(5))
        let probes = (0..<2).map { _ in fixture.send() }
        #expect(fixture.fail(probes[0], .timedOut).settlements.count == 1)
        #expect(fixture.fail(probes[1], .notProcessed(.connectionLost("gone"))).settlements.count == 1)
        #expect(fixture.tick() == [])
        #expect(fixture.deadline == fixture.now + .seconds(5))
        fixture.pass(.seconds(5))
        #expect(fixture.offers() == [2])
    }

    @Test mutating func `twenty suspect responses hold the app, and every job goes back`() {
        let ids = (0..<20).map { _ in fixture.send() }
        for id in ids.dropLast() { _ = fixture.reject(id, 400, "BadDeviceToken") }
        let effects = fixture.reject(ids[19], 400, "BadDeviceToken")
        #expect(effects.contains(.log(.held(app: "", .suspectTokens))))
        #expect(effects.settlements.count == 20)
        #expect(effects.settlements.allSatisfy { $0.effect == .release(toTail: true) })
        #expect(fixture.inFlight == 0 && fixture.counters.dead == 0)
    }

    @Test mutating func `a refused credential holds the app and takes back what no session has taken`() {
        fixture.close()
        let (refused, onStream, inPool) = (fixture.send(), fixture.send(), fixture.send())
        _ = fixture.claim(Fixture.job())
        let reason = HoldReason.credential("InvalidProviderToken")
        let effects = fixture.reject(refused, 403, "InvalidProviderToken")
        #expect(effects.settlements.map(\.id) == [ClaimID(2), ClaimID(5)])
        #expect(effects.settlements.map(\.effect) == [.release(toTail: true), .release(toTail: false)])
        #expect(effects.contains(.log(.held(app: "", reason))))
        #expect(effects.suffix(2) == [.withdraw(.release, app: 0), .reconnect(app: 0)])
        #expect(fixture.withdraw([inPool]).releases(4))
        #expect(fixture.sent() == [] && fixture.offers() == [0])
        #expect(fixture.deadline == fixture.now + .seconds(5))
        #expect(fixture.fail(onStream, .notProcessed(.connectionLost("gone"))).releases(3))
    }

    @Test mutating func `a held app probes with one job and goes on with its acceptance`() {
        let first = fixture.send()
        _ = fixture.reject(first, 403, "Forbidden")
        fixture.pass(.seconds(5))
        #expect(fixture.offers() == [1])
        let probe = fixture.send()
        #expect(fixture.offers() == [0] && fixture.claim(Fixture.job()).releases(3))
        let effects = fixture.accept(probe)
        #expect(effects.contains(.log(.resumed(app: ""))))
        #expect(fixture.offers() == [200])
    }

    @Test mutating func `a probe that is refused goes to the tail, and the wait doubles`() {
        let first = fixture.send()
        #expect(fixture.reject(first, 403, "Forbidden").releases(1))
        fixture.pass(.seconds(5))
        let probe = fixture.send()
        let effects = fixture.reject(probe, 403, "Forbidden")
        #expect(effects.releases(2, toTail: true))
        #expect(effects.last == .reconnect(app: 0))
        #expect(fixture.deadline == fixture.now + .seconds(10))
    }

    @Test mutating func `a job that was twice the only rejected one, while others were accepted, becomes a dead letter`() {
        fixture.close()
        for _ in 0..<2 {
            let bad = fixture.send(Fixture.job("bad"))
            #expect(fixture.reject(bad, 403, "Forbidden").settlements.map(\.effect) == [.release(toTail: true)])
            fixture.pass(.seconds(5))
            let probe = fixture.send()
            #expect(fixture.accept(probe).contains(.log(.resumed(app: ""))))
        }
        let (bad, other) = (fixture.send(Fixture.job("bad")), fixture.send())
        #expect(fixture.reject(bad, 403, "Forbidden").deadLetter == "Forbidden")
        #expect(fixture.accept(other).settlements.count == 1 && fixture.offers() == [200])
    }

    @Test mutating func `a 403 about the channel or topic of a job does not hold the app`() {
        fixture.close()
        let channel = fixture.send(#"{"channel":"AAAA","data":{}}"#)
        #expect(fixture.reject(channel, 403, "TopicMismatch").deadLetter == "TopicMismatch")
        let topic = fixture.send(Fixture.job("ab", #""topic":"other""#))
        #expect(fixture.reject(topic, 403, "TopicMismatch").deadLetter == "TopicMismatch")
        #expect(fixture.offers() == [200])
        let settings = fixture.send()
        #expect(fixture.reject(settings, 403, "TopicMismatch").contains(.log(.held(app: "", .topic("TopicMismatch")))))
    }

    @Test mutating func `a probe that may be a duplicate goes to the tail, too`() throws {
        let first = fixture.send()
        _ = fixture.reject(first, 403, "Forbidden")
        fixture.pass(.seconds(5))
        let probe = fixture.send()
        let goAway = Outcome.maybeProcessed(.goAway(code: 0, reason: "BadCertificate"))
        let effects = fixture.fail(probe, goAway)
        let settlement = try #require(effects.settlements.first)
        guard case .replace(let job, toTail: true) = settlement.effect else {
            return #expect(Bool(false), "\(settlement.effect)")
        }
        #expect(String(decoding: job, as: UTF8.self).contains(#""_gapless_doubtful":1"#))
        #expect(effects.first == .countMaybeDuplicate(list: 0))
    }

    @Test mutating func `a probe without a response is followed by another after a longer wait`() {
        let first = fixture.send()
        _ = fixture.reject(first, 403, "Forbidden")
        fixture.pass(.seconds(5))
        let probe = fixture.send()
        #expect(fixture.fail(probe, .notProcessed(.connectionLost("gone"))).releases(2))
        #expect(fixture.tick() == [.reconnect(app: 0)])
        #expect(fixture.deadline == fixture.now + .seconds(10))
    }

    @Test mutating func `a refused topic of the settings holds the app, and one of the job is the job's fault`() {
        let first = fixture.send()
        #expect(fixture.reject(first, 400, "TopicDisallowed").contains(.log(.held(app: "", .topic("TopicDisallowed")))))
        let other = MachineFixture()
        other.close()
        let named = other.send(Fixture.job("ab", #""topic":"other""#))
        #expect(other.reject(named, 400, "TopicDisallowed").deadLetter == "TopicDisallowed")
    }

    @Test(arguments: ["Forbidden", "ExpiredProviderToken"])
    func `a session whose replaced credential is refused gets no more jobs, and the app is not held`(reason: String) {
        let fixture = MachineFixture()
        let effects = fixture.reject(fixture.send(), 403, reason, isCurrent: false)
        #expect(effects.first == .retire(Fixture.session, app: 0))
        #expect(reason == "Forbidden" ? effects.releases(1) : effects.settlements == [])
        #expect(fixture.offers() == [20 - fixture.inFlight])
    }

    @Test mutating func `a job that must be alone does not wait for an acceptance, which no other job could bring`() {
        fixture.close()
        #expect(fixture.claim(Fixture.job(), isAlone: true) == [])
        let id = fixture.sent()[0]
        #expect(fixture.reject(id, 400, "BadDeviceToken").releases(2, toTail: true))
        #expect(fixture.inFlight == 0)
    }

    @Test mutating func `an acceptance on a session with a replaced credential settles no suspect`() {
        fixture.close()
        let old = fixture.send()
        let suspect = fixture.send()
        let present = fixture.send()
        #expect(fixture.reject(suspect, 400, "BadDeviceToken").settlements == [])
        #expect(fixture.accept(old, isCurrent: false).settlements == [Settlement(id: ClaimID(2), effect: .ack)])
        let settlements = fixture.accept(present).settlements
        #expect(settlements.map(\.id) == [ClaimID(3), ClaimID(4)])
        guard case .deadLetter = settlements[0].effect else { return #expect(Bool(false), "\(settlements)") }
    }

    @Test mutating func `a response on a session with a replaced credential ends no hold`() {
        fixture.close()
        let old = (0..<2).map { _ in fixture.send() }
        let refused = fixture.send()
        #expect(fixture.reject(refused, 403, "Forbidden").contains(.log(.held(app: "", .credential("Forbidden")))))
        #expect(!fixture.accept(old[0], isCurrent: false).contains(.log(.resumed(app: ""))))
        #expect(!fixture.reject(old[1], 410, "Unregistered", isCurrent: false).contains(.log(.resumed(app: ""))))
        #expect(fixture.offers() == [0])
    }

    @Test mutating func `suspect responses on sessions with a replaced credential hold no app`() {
        let old = (0..<CircuitBreaker.caution).map { _ in fixture.send() }
        for id in old {
            let effects = fixture.reject(id, 400, "BadDeviceToken", isCurrent: false)
            #expect(!effects.contains(.log(.held(app: "", .suspectTokens))))
        }
    }

    @Test mutating func `a closed session or a failed dial holds the app if the credential is the cause`() {
        let error = SessionError.dial("unknown ca", isCredential: true)
        let event = PoolEvent.dialFailed(Fixture.session, address: "host", error, retryIn: .seconds(1))
        #expect(fixture.effects { $0.happened(event, app: 0, isCurrent: false, &$1) }.count == 1)
        let effects = fixture.effects { $0.happened(event, app: 0, isCurrent: true, &$1) }
        #expect(effects.contains(.log(.held(app: "", .credential("unknown ca")))))
    }

    @Test mutating func `TooManyProviderTokenUpdates keeps the token and holds the app`() {
        let id = fixture.send()
        let effects = fixture.reject(id, 429, "TooManyProviderTokenUpdates")
        #expect(effects.first == .keepToken(app: 0))
        #expect(effects.contains(.log(.held(app: "", .tokenUpdates))) && effects.releases(1))
    }

    @Test mutating func `TooManyProviderTokenUpdates for a replaced key says nothing about the new one`() {
        let id = fixture.send()
        #expect(!fixture.reject(id, 429, "TooManyProviderTokenUpdates", isCurrent: false).contains(.keepToken(app: 0)))
    }

    @Test func `a throttle holds every app with the credential, and its end resumes them`() {
        let fixture = MachineFixture(MachineFixture.plan(apps: [nil, "beta"], sharesCredential: true))
        let beta = #""app":"beta""#
        fixture.close()
        fixture.close(app: 1, Fixture.job("ab", beta))
        let id = fixture.send()
        let held = fixture.reject(id, 429, "Busy")
        let label = #"app "beta": "#
        #expect(held.contains(.log(.held(app: "", .throttled("429 Busy")))))
        #expect(held.contains(.log(.held(app: label, .throttled("429 Busy")))))
        #expect(fixture.counters.retried == 1 && fixture.offers() == [0])
        fixture.pass(.seconds(5))
        let probe = fixture.send(Fixture.job("ab", beta), by: 1)
        let resumed = fixture.accept(probe)
        #expect(resumed.contains(.log(.resumed(app: ""))) && resumed.contains(.log(.resumed(app: label))))
    }

    @Test mutating func `a reload gives suspects back and lets a held app start again on new sessions`() {
        let suspect = fixture.send()
        _ = fixture.reject(suspect, 400, "BadDeviceToken")
        #expect(fixture.effects { $0.adopted(Fixture.plan(), &$1) }.releases(1, toTail: true))
        let refused = fixture.send()
        _ = fixture.reject(refused, 403, "Forbidden")
        let effects = fixture.effects { $0.adopted(Fixture.plan(), &$1) }
        #expect(
            effects == [
                .reconnect(app: 0), .log(.resumed(app: "", isReload: true)), .log(.reloaded(keepsSessions: false)),
            ])
        #expect(fixture.offers() == [20])
    }

    @Test mutating func `a reload leaves an app alone that it does not change`() {
        fixture.close()
        let suspect = fixture.send()
        _ = fixture.reject(suspect, 400, "BadDeviceToken")
        let effects = fixture.effects { $0.adopted(Fixture.plan(), replaced: [false], &$1) }
        #expect(effects == [.log(.reloaded(keepsSessions: true))])
        #expect(fixture.inFlight == 1)
    }

    @Test mutating func `an app whose credential cannot be used is held until a reload corrects it`() {
        var plan = Fixture.plan(apps: [nil, "b"])
        plan.apps[1].fault = "apps.b.apns_cert_path: expired"
        let fixture = Fixture(plan)
        fixture.machine.observed(.init(capacity: 0), app: 1)
        let held = LogEntry.held(app: "app \"b\": ", .unusable("apps.b.apns_cert_path: expired"))
        #expect(fixture.effects { $0.holdFaultyApps(&$1) } == [.log(held), .withdraw(.release, app: 1)])
        #expect(fixture.machine.snapshot.apps.map(\.hold) == [nil, .unusable("apps.b.apns_cert_path: expired")])
        fixture.close()
        #expect(fixture.claim(Fixture.job("ab", #""app":"b""#)).releases(2, aside: "b", toTail: true))
        fixture.pass(.seconds(100))
        #expect(fixture.claim(Fixture.job("ab", #""app":"b""#)).releases(3, aside: "b", toTail: true))
        // The same fault is logged once.
        #expect(
            fixture.effects { $0.adopted(plan, replaced: [false, false], &$1) } == [.log(.reloaded(keepsSessions: true))])
        plan.apps[1].fault = nil
        let effects = fixture.effects { $0.adopted(plan, replaced: [false, true], &$1) }
        #expect(effects.contains(.log(.resumed(app: "app \"b\": ", isReload: true))))
        #expect(fixture.machine.snapshot.apps.map(\.hold) == [nil, nil])
        fixture.machine.observed(.init(capacity: 100), app: 1)
        fixture.aside()
        _ = fixture.send(Fixture.job("ab", #""app":"b""#), by: 1)
    }

    @Test mutating func `a reload takes over what is derived from the settings`() {
        _ = fixture.effects { $0.adopted(Fixture.plan(options: .init(loggedSuccesses: 1)), &$1) }
        let id = fixture.send()
        #expect(fixture.accept(id).first == .logSent(Array(Fixture.job().utf8)))
    }

    @Test mutating func `an app without a session gives its jobs back after a second`() {
        fixture.close()
        let waiting = fixture.send()
        fixture.machine.observed(.init(capacity: 0), app: 0)
        #expect(fixture.tick() == [])
        #expect(fixture.deadline == fixture.now + .seconds(1))
        fixture.pass(.seconds(1))
        #expect(fixture.tick() == [.withdraw(.release, app: 0)])
        #expect(fixture.withdraw([waiting]).releases(2))
        #expect(fixture.deadline == nil)
    }

    @Test mutating func `ENHANCE_YOUR_CALM takes back what waits in the pool`() {
        let effects = fixture.effects { $0.happened(.slowed(pushesPerSecond: 50), app: 0, isCurrent: true, &$1) }
        #expect(effects.last == .withdraw(.release, app: 0))
    }

    @Test mutating func `an app that waits for acceptances takes at most 200 jobs for the places of another`() {
        let fixture = MachineFixture(MachineFixture.plan(apps: [nil, "beta"]), capacity: 1000)
        fixture.close(app: 0)
        fixture.close(app: 1, Fixture.job("bb", #""app":"beta""#))
        for _ in 0..<CircuitBreaker.caution { _ = fixture.reject(fixture.send(), 400, "BadDeviceToken") }
        for _ in 0..<300 { _ = fixture.claim(Fixture.job()) }
        #expect(fixture.inFlight == CircuitBreaker.caution + CircuitBreaker.graceAllowance)
    }

    @Test mutating func `a probe for a token with too many requests shows that the credential works`() {
        _ = fixture.reject(fixture.send(), 403, "InvalidProviderToken")
        fixture.pass(CircuitBreaker.firstProbeWait)
        let probe = fixture.send(Fixture.job("cd"))
        let effects = fixture.reject(probe, 429, "TooManyRequests")
        #expect(effects.contains(.log(.resumed(app: ""))))
        #expect(fixture.offers() == [CircuitBreaker.caution])
    }
}

@Suite("The log about an app")
struct AppLogTests {
    private typealias Fixture = MachineFixture

    @Test func `a hold names the app and the settings to check`() {
        var app = DispatchPlan.App(name: nil)
        #expect(app.place(of: .credential("403")) == " (top level, apns_auth_key_path)")
        #expect(app.place(of: .suspectTokens) == " (top level, apns_server, apns_topic)")
        #expect(app.place(of: .failing) == " (top level)")
        #expect(app.place(of: .rule("429")) == " (top level, retry_rules)")
        (app.name, app.keyPrefix, app.credentialSetting) = ("beta", "apps.beta.", "apns_p12_path")
        #expect(app.place(of: .unusable("x")) == " (apps.beta.apns_p12_path)")
        #expect(app.place(of: .untrusted("x")) == " (apps.beta.apns_ca_path, apps.beta.apns_server)")
        #expect(app.place(of: .topic("x")) == " (apps.beta.apns_topic)")
        #expect(app.place(of: .throttled("x")) == "")
        #expect(app.place(of: .rule("429")) == " (retry_rules)")
    }

    @Test func `the first accepted push of each app is logged, unless each push is`() {
        func lines(_ fixture: Fixture, _ id: JobID) -> [String] {
            fixture.effects { $0.delivered(id, nil, isCurrent: true, &$1) }.compactMap {
                if case .log(.sentence(.info, let text, .firstAccepted)) = $0 { text } else { nil }
            }
        }
        let fixture = Fixture(Fixture.plan(apps: [nil, "beta"]))
        let id = fixture.send(Fixture.job("0a1b2c3d4e", #""identifier":7"#))
        #expect(
            lines(fixture, id) == [
                "APNs has accepted the first push (ID 7, token 0a1b2c3d…). To log each one, set log_successes."
            ])
        #expect(lines(fixture, fixture.send()) == [])
        let other = fixture.send(Fixture.job("ab", #""app":"beta""#), by: 1)
        #expect(
            lines(fixture, other) == [
                #"app "beta": APNs has accepted the first push (ID 0, token ab). To log each one, set log_successes."#
            ])
        let talkative = Fixture(Fixture.plan(options: Settler.Options(loggedSuccesses: 1)))
        #expect(lines(talkative, talkative.send()) == [])
    }
}
