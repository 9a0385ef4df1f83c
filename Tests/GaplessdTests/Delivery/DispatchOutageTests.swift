import DequeModule
import Platform
import PushPool
import RedisQueue
import Testing

@testable import gaplessd

@Suite("The dispatcher: an outage of APNs")
struct DispatchOutageTests {
    private typealias Fixture = MachineFixture
    private let fixture = MachineFixture()

    private static let failure = Outcome.rejected(Rejection(status: 503, reason: "ServiceUnavailable"))

    /// Lets jobs fail in a row.
    private func fail(_ count: Int, _ outcome: Outcome = DispatchOutageTests.failure) {
        for _ in 0..<count { _ = fixture.fail(fixture.send(), outcome) }
    }

    /// The job that returns to the list, with the deadline of its send; its only settlement.
    private func returned(_ effects: [DispatchEffect], toTail: Bool) -> String? {
        guard effects.settlements.count == 1, case .replace(let job, toTail) = effects.settlements[0].effect else { return nil }
        return String(decoding: job, as: UTF8.self)
    }

    private func job(_ attempts: Int, _ token: String = "ab") -> String {
        Fixture.job(token, #""_gapless_RETRYING":\#(attempts)"#)
    }

    private func hasCounts(_ attempts: Int, _ job: String?) -> Bool {
        job.map { $0.contains(#""_gapless_RETRYING":\#(attempts)"#) && !$0.contains("doubtful") } ?? false
    }

    @Test(arguments: [0, 3])
    func `an outage of twenty minutes makes no dead letter, and then every job is accepted once`(attempts: Int) {
        let (fixture, end) = (MachineFixture(capacity: 500), 1200)
        let mark = attempts > 0 ? #""_gapless_RETRYING":\#(attempts)"# : ""
        var list = ListInMemory((0..<20_000).map { Fixture.job("\(1_000_000 + $0)", mark) })
        // The first failures in a row may be those of their jobs.
        for _ in 0..<20 { list.waiting.prepend(Fixture.job("ab")) }
        let count = list.waiting.count
        var logged: [String] = []
        var sends = 0
        for step in 0..<(10 * end + 36_000) where list.accepted < count {
            fixture.pass(.milliseconds(100))
            list.promote(now: fixture.now)
            logged += list.apply(fixture.tick(), now: fixture.now)
            logged += list.claim(fixture.offers()[0], fixture)
            for id in fixture.sent() {
                sends += 1
                let isOver = step >= 10 * end
                logged += list.apply(isOver ? fixture.accept(id) : fixture.fail(id, Self.failure), now: fixture.now)
            }
            if step == 10 * end - 1 {
                #expect(logged.contains { $0.hasPrefix("APNs is failing") })
                #expect(sends < 3_000, "\(sends)")
                let notice = ProcessBoard.Notice(snapshot: fixture.machine.snapshot, at: .now)
                #expect(Readiness.faults(notice, now: .now).contains { $0.contains("is held: APNs is failing") })
            }
        }
        #expect(list.dead == 0)
        #expect(list.accepted == count)
        #expect(fixture.counters.dead == 0 && fixture.counters.sent == count)
        #expect(logged.count { $0.hasPrefix("APNs is failing") } == 1)
        #expect(logged.last == "APNs accepts pushes again: sending.")
    }

    @Test func `an outage of twenty minutes with a million waiting jobs makes no dead letter and touches few of them`() {
        let (fixture, end, count) = (MachineFixture(capacity: 500), 1200, 1_000_000)
        var list = ListInMemory([], untouched: count) { Fixture.job("\(1_000_000 + $0)") }
        func turn(_ isOver: Bool) {
            fixture.pass(.milliseconds(100))
            list.promote(now: fixture.now)
            _ = list.apply(fixture.tick(), now: fixture.now)
            _ = list.claim(fixture.offers()[0], fixture)
            for id in fixture.sent() {
                _ = list.apply(isOver ? fixture.accept(id) : fixture.fail(id, Self.failure), now: fixture.now)
            }
        }
        for _ in 0..<(10 * end) { turn(false) }
        #expect(list.dead == 0 && fixture.counters.dead == 0 && list.accepted == 0)
        #expect(list.count == count)
        #expect(list.untouched > count - 3_000, "\(list.untouched)")
        // Another daemon takes the others.
        let touched = count - list.untouched
        list.untouched = 0
        for _ in 0..<36_000 where list.accepted < touched { turn(true) }
        #expect(list.accepted == touched && list.dead == 0)
    }

    @Test func `a job that alone causes 500 ends as a dead letter while others are accepted`() {
        fixture.close()
        for attempt in 0...3 {
            for _ in 0..<30 { _ = fixture.accept(fixture.send()) }
            let bad = fixture.send(attempt == 0 ? Fixture.job("bad0") : job(attempt, "bad0"))
            let effects = fixture.reject(bad, 500, "InternalServerError")
            #expect(effects.deadLetter == (attempt == 3 ? "InternalServerError" : nil))
        }
    }

    @Test func `from the twentieth failure in a row on, a job without resends returns with the counts that it had`() {
        fixture.close()
        fail(18)
        let spent = job(3)
        #expect(fixture.fail(fixture.send(spent), Self.failure).deadLetter == "ServiceUnavailable")
        #expect(hasCounts(3, returned(fixture.fail(fixture.send(spent), Self.failure), toTail: true)))
        // A job with resends left uses them until the app is held.
        #expect(fixture.fail(fixture.send(), Self.failure).settlements.count == 1)
        #expect(fixture.counters.retried == 19 && fixture.counters.dead == 1)
        // APNs may have accepted a request without a response: this is counted, but not in the job.
        let effects = fixture.fail(fixture.send(spent), .timedOut)
        #expect(effects.contains(.countMaybeDuplicate(list: 0)) && hasCounts(3, returned(effects, toTail: true)))
        _ = fixture.accept(fixture.send())
        #expect(fixture.fail(fixture.send(spent), Self.failure).deadLetter == "ServiceUnavailable")
    }

    @Test func `200 jobs of a failing app fail in a second, and an acceptance ends this limit`() {
        let fixture = MachineFixture(capacity: 500)
        func fail() { _ = fixture.fail(fixture.send(), Self.failure) }
        fixture.close()
        for _ in 0..<19 { fail() }
        var failed = 0
        while fixture.offers()[0] > 0, failed < 1000 {
            fail()
            failed += 1
        }
        #expect(failed == CircuitBreaker.graceAllowance)
        #expect(fixture.deadline == fixture.now + .seconds(1))
        fixture.pass(.seconds(1))
        _ = fixture.tick()
        #expect(fixture.offers()[0] == CircuitBreaker.graceAllowance)
        let ids = (0..<CircuitBreaker.graceAllowance).map { _ in fixture.send() }
        #expect(fixture.offers()[0] == 0)
        _ = fixture.accept(ids[0])
        #expect(fixture.offers()[0] > CircuitBreaker.graceAllowance)
    }

    @Test(arguments: [(#","_gapless_deadline":1800000500"#, "1800000500"), ("", "1800000600")])
    func `a job that returns keeps the deadline of its first send`(mark: String, deadline: String) {
        fixture.close()
        fail(20)
        let spent = Fixture.job("ab", #""expiry":600,"_gapless_RETRYING":3\#(mark)"#)
        let job = returned(fixture.fail(fixture.send(spent), .timedOut), toTail: true)
        #expect(job?.contains(#""_gapless_deadline":\#(deadline)"#) == true)
    }

    @Test(arguments: [failure, .timedOut, .rejected(Rejection(status: 500, reason: "InternalServerError"))])
    func `ten seconds of failures hold the app, and its jobs return with the counts that they had`(outcome: Outcome) {
        fixture.close()
        fail(19, outcome)
        let (onStream, inPool) = (fixture.send(job(1)), fixture.send())
        #expect(fixture.deadline == nil)
        fail(1, outcome)
        #expect(fixture.deadline == fixture.now + .seconds(10))
        fixture.pass(.milliseconds(9_999))
        #expect(fixture.tick() == [])
        fixture.pass(.milliseconds(1))
        let effects = fixture.tick()
        #expect(effects == [.log(.held(app: "", .failing)), .withdraw(.release, app: 0)])
        #expect(fixture.withdraw([inPool]).releases(22))
        #expect(hasCounts(1, returned(fixture.fail(onStream, outcome), toTail: false)))
        #expect(fixture.inFlight == 0 && fixture.offers() == [0])
    }

    @Test func `a failing app is probed with one job after 5 s, doubling to 60 s, and an acceptance ends the hold`() {
        fixture.close()
        fail(20)
        fixture.pass(.seconds(10))
        _ = fixture.tick()
        for wait in [5, 10, 20, 40, 60, 60] {
            fixture.pass(.seconds(wait) - .milliseconds(1))
            #expect(fixture.offers() == [0])
            fixture.pass(.milliseconds(1))
            #expect(fixture.offers() == [1])
            let probe = fixture.send(job(2))
            #expect(fixture.offers() == [0])
            #expect(hasCounts(2, returned(fixture.fail(probe, Self.failure), toTail: true)))
        }
        fixture.pass(.seconds(60))
        #expect(fixture.accept(fixture.send()).contains(.log(.resumed(app: ""))))
        #expect(fixture.offers() == [200])
        #expect(fixture.counters.retried == 20 && fixture.counters.dead == 0)
    }

    @Test(arguments: [(410, "Unregistered"), (400, "PayloadEmpty"), (400, "BadDeviceToken"), (429, "TooManyRequests")])
    func `a definite response about a job ends an outage`(status: Int, reason: String) {
        fixture.close()
        fail(19)
        _ = fixture.reject(fixture.send(Fixture.job("cd")), status, reason)
        fail(19)
        #expect(!fixture.machine.snapshot.apps.contains { $0.hold != nil })
        fail(1)
        fixture.pass(.seconds(10))
        #expect(fixture.tick().contains(.log(.held(app: "", .failing))))
        fixture.pass(.seconds(5))
        #expect(fixture.reject(fixture.send(Fixture.job("ef")), status, reason).contains(.log(.resumed(app: ""))))
        #expect(fixture.offers()[0] > CircuitBreaker.caution)
    }

    @Test func `a refused credential holds a failing app for that reason`() {
        fixture.close()
        fail(20)
        fixture.pass(.seconds(10))
        _ = fixture.tick()
        fixture.pass(.seconds(5))
        let effects = fixture.reject(fixture.send(), 403, "InvalidProviderToken")
        #expect(effects.contains(.log(.held(app: "", .credential("InvalidProviderToken")))))
    }

    @Test func `an acceptance on a session with a replaced credential is one, too`() {
        fixture.close()
        let old = fixture.send()
        _ = fixture.reject(fixture.send(), 400, "BadDeviceToken")
        fail(19)
        _ = fixture.accept(old, isCurrent: false)
        fail(19)
        fixture.pass(.seconds(20))
        #expect(fixture.tick() == [])
    }
}

/// A list that follows the settlements of the machine.
private struct ListInMemory {
    var waiting: Deque<String>
    /// Jobs behind those that wait, made when they are claimed, and before those that were returned to the tail.
    var untouched: Int
    private let made: (Int) -> String
    private var tail: [String] = []
    private var delayed: [(due: Instant, job: String)] = []
    private var claimed: [ClaimID: String] = [:]
    private var claims: UInt64 = 0
    private(set) var accepted = 0
    private(set) var dead = 0

    init(_ jobs: [String], untouched: Int = 0, _ made: @escaping (Int) -> String = { _ in "" }) {
        (waiting, self.untouched, self.made) = (Deque(jobs), untouched, made)
    }

    /// The jobs that have not ended.
    var count: Int { waiting.count + untouched + tail.count + delayed.count + claimed.count }

    mutating func promote(now: Instant) {
        if delayed.isEmpty { return }
        for job in delayed where job.due <= now { put(job.job, toTail: true) }
        delayed.removeAll { $0.due <= now }
    }

    mutating func claim(_ count: Int, _ fixture: MachineFixture) -> [String] {
        var logged: [String] = []
        for _ in 0..<count {
            guard let job = next() else { break }
            claims += 1
            claimed[ClaimID(claims)] = job
            logged += apply(fixture.claim(job), now: fixture.now)
        }
        return logged
    }

    /// Returns the sentences of the log.
    mutating func apply(_ effects: [DispatchEffect], now: Instant) -> [String] {
        for settlement in effects.settlements {
            guard let job = claimed.removeValue(forKey: settlement.id) else { continue }
            switch settlement.effect {
            case .ack: accepted += 1
            case .release(let toTail): put(job, toTail: toTail)
            case .replace(let job, let toTail): put(String(decoding: job, as: UTF8.self), toTail: toTail)
            case .delay(let job, .after(let delay), _): delayed.append((now + delay, String(decoding: job, as: UTF8.self)))
            default: dead += 1
            }
        }
        return effects.compactMap { if case .log(.sentence(_, let text, _)) = $0 { text } else { nil } }
    }

    private mutating func next() -> String? {
        if let job = waiting.popFirst() { return job }
        if untouched > 0 {
            untouched -= 1
            return made(untouched)
        }
        waiting = Deque(tail)
        tail = []
        return waiting.popFirst()
    }

    private mutating func put(_ job: String, toTail: Bool) {
        if !toTail { waiting.prepend(job) } else if untouched > 0 { tail.append(job) } else { waiting.append(job) }
    }
}
