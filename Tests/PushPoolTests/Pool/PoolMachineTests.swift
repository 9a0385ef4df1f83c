import Platform
import Testing

@testable import PushPool

private typealias Effect = PoolMachine.Effect

private struct Pool {
    let start = Instant.now
    var machine: PoolMachine
    var nextID: UInt64 = 1
    /// Sessions that start slowly.
    var slow: Set<UInt64> = []

    init(_ target: Int) {
        let backoff = Backoff(first: .seconds(1), most: .seconds(60), jitter: 0)
        machine = PoolMachine(target: target, backoff: backoff, now: start)
    }

    /// A pool with open sessions 1 to `target`.
    static func open(_ target: Int) -> Pool {
        var pool = Pool(target)
        for id in pool.plan() { _ = pool.opened(id) }
        return pool
    }

    /// A pool with open sessions 1 to `target`, whose credential APNs has accepted.
    static func proven(_ target: Int) -> Pool {
        var pool = Pool.open(target)
        _ = pool.machine.proved(SessionID(1))
        return pool
    }

    /// A pool with an open session 1, and an open session 2 whose credential is on trial.
    static func onTrial() -> Pool {
        var pool = Pool.proven(1)
        _ = pool.replace()
        _ = pool.plan()
        _ = pool.opened(2)
        return pool
    }

    mutating func replace(target: Int = 1) -> [Effect] { machine.replace(target: target, backoff: Backoff(), now: start) }

    mutating func plan(_ seconds: Double = 0) -> [UInt64] {
        var next = nextID
        let effects = machine.plan(now: start + .seconds(seconds)) {
            defer { next += 1 }
            return SessionID(next)
        }
        nextID = next
        return effects.compactMap {
            guard case .dial(let id, let startsSlowly) = $0 else { return nil }
            if startsSlowly { slow.insert(id.number) }
            return id.number
        }
    }

    mutating func opened(_ id: UInt64, _ seconds: Double = 0) -> [Effect] {
        machine.opened(SessionID(id), address: "a", streams: 9, now: start + .seconds(seconds))
    }

    mutating func failed(_ id: UInt64, _ seconds: Double = 0) -> [Effect] {
        machine.dialFailed(SessionID(id), address: "a", fault, now: start + .seconds(seconds), random: 0.5)
    }

    mutating func ended(_ id: UInt64, _ seconds: Double = 0, hasServed: Bool = true, unanswered: Int = 0) -> [Effect] {
        machine.ended(
            SessionID(id), address: "a", fault, hasServed: hasServed, unanswered: unanswered, now: start + .seconds(seconds),
            random: 0.5)
    }

    mutating func retired(_ id: UInt64, _ seconds: Double = 0, hasServed: Bool = true) -> [Effect] {
        machine.retired(SessionID(id), hasServed: hasServed, now: start + .seconds(seconds), random: 0.5)
    }
}

private let fault = SessionError.connectionLost("x")
private func told(_ id: UInt64) -> Effect { .tell(.opened(SessionID(id), address: "a", streams: 9)) }
private func drain(_ id: UInt64) -> Effect { .drain(SessionID(id)) }
private func end(_ id: UInt64) -> Effect { .end(SessionID(id)) }

@Suite("Which sessions a pool dials")
struct PoolMachineTests {
    @Test func `all at once in the beginning, and then no more`() {
        var pool = Pool(3)
        #expect(pool.plan() == [1, 2, 3])
        #expect(pool.plan() == [])
        #expect(pool.opened(1) == [told(1)])
        #expect(pool.machine.deadline == nil)
    }

    @Test func `after a failure one at a time, with doubling waits`() {
        var pool = Pool(2)
        _ = pool.plan()
        #expect(pool.failed(1) == [.tell(.dialFailed(SessionID(1), address: "a", fault, retryIn: .seconds(1)))])
        #expect(pool.plan(1) == [])
        // Begun together with the first: the same failure.
        #expect(pool.failed(2) == [.tell(.dialFailed(SessionID(2), address: "a", fault, retryIn: .seconds(1)))])
        #expect(pool.plan(0.9) == [])
        #expect(pool.machine.deadline == pool.start + .seconds(1))
        #expect(pool.plan(1) == [3])
        #expect(pool.failed(3, 1) == [.tell(.dialFailed(SessionID(3), address: "a", fault, retryIn: .seconds(2)))])
        #expect(pool.plan(3) == [4])
        #expect(pool.failed(4, 3) == [.tell(.dialFailed(SessionID(4), address: "a", fault, retryIn: .seconds(4)))])
    }

    @Test func `a session that opened after failures lets the others go on when it serves`() {
        var pool = Pool(2)
        _ = pool.plan()
        _ = pool.failed(1)
        _ = pool.opened(2)
        #expect(pool.plan(1) == [3])
        _ = pool.opened(3, 1)
        #expect(pool.plan(1) == [])
    }

    @Test func `the replacement of a session that said GOAWAY is dialled at once, while it drains`() {
        var pool = Pool.open(1)
        #expect(pool.retired(1) == [.tell(.capacityChanged)])
        #expect(pool.plan() == [2])
        #expect(pool.opened(2) == [told(2)])
        #expect(pool.ended(1) == [.tell(.closed(SessionID(1), address: "a", fault))])
        #expect(pool.plan() == [])
    }

    @Test func `a session that dies young without an answer counts as a failed dial, once`() {
        var pool = Pool.open(1)
        _ = pool.retired(1, hasServed: false)
        _ = pool.ended(1, hasServed: false)
        #expect(pool.plan(0.5) == [])
        #expect(pool.plan(1) == [2])
        _ = pool.opened(2, 1)
        _ = pool.ended(2, 1, hasServed: false)
        #expect(pool.plan(2.9) == [])
        #expect(pool.plan(3) == [3])
        _ = pool.opened(3, 3)
        // A session that lived long is no failure, even without requests.
        _ = pool.ended(3, 20, hasServed: false)
        #expect(pool.plan(20) == [4])
    }

    @Test func `dials that begin together and fail together are one failure`() {
        var pool = Pool(8)
        #expect(pool.plan().count == 8)
        for id in 1...8 { _ = pool.failed(UInt64(id), 0.1 * Double(id) / 8) }
        #expect(pool.plan(1) == [])
        #expect(pool.plan(1.1) == [9])
        _ = pool.failed(9, 1.2)
        // A second failure in a row: two seconds.
        #expect(pool.plan(3.1) == [])
        #expect(pool.plan(3.2) == [10])
        _ = pool.opened(10, 3.3)
        #expect(pool.plan(3.3) == [11])
    }

    @Test func `a late failure of a round that was counted delays the next dial by no more than the first did`() {
        var pool = Pool(2)
        _ = pool.plan()
        _ = pool.failed(1)
        // Its time-out came when the next dial was due.
        _ = pool.failed(2, 1.5)
        #expect(pool.plan(2.4) == [])
        #expect(pool.plan(2.5) == [3])
    }

    @Test func `sessions that serve and break together are dialled again together, and then fail as one`() {
        var pool = Pool.open(4)
        for id in 1...4 { _ = pool.ended(UInt64(id), 20) }
        #expect(pool.plan(20) == [5, 6, 7, 8])
        for id in 5...8 { _ = pool.failed(UInt64(id), 20) }
        #expect(pool.plan(21) == [9])
    }

    @Test func `ENHANCE_YOUR_CALM delays the next dial even if the session has served requests`() {
        var pool = Pool.open(2)
        pool.machine.mustSlowDown(SessionID(1), now: pool.start + .seconds(100), random: 0.5)
        pool.machine.mustSlowDown(SessionID(1), now: pool.start + .seconds(100), random: 0.5)
        _ = pool.retired(1, 100)
        _ = pool.ended(1, 100)
        #expect(pool.plan(100.9) == [])
        #expect(pool.plan(101) == [3])
    }

    @Test func `sessions that serve and go, over and over, run out of their budget`() {
        var pool = Pool(1)
        var dials = 0
        for step in 0..<1000 {
            let now = Double(step) * 0.01
            for id in pool.plan(now) {
                dials += 1
                _ = pool.opened(id, now)
                _ = pool.ended(id, now)
            }
        }
        // 10 to begin with and 4 a second for 10 seconds.
        #expect((45...51).contains(dials), "\(dials)")
    }

    @Test func `after one that broke with requests in flight, those of the next minute start slowly`() {
        var pool = Pool.open(2)
        _ = pool.ended(1, 5)
        #expect(pool.plan(5) == [3])
        _ = pool.opened(3, 5)
        _ = pool.ended(2, 10, unanswered: 1)
        #expect(pool.plan(10) == [4])
        #expect(pool.slow == [4])
        _ = pool.opened(4, 10)
        _ = pool.ended(4, 69)
        #expect(pool.plan(69) == [5])
        _ = pool.opened(5, 69)
        _ = pool.ended(5, 71)
        #expect(pool.plan(71) == [6])
        #expect(pool.slow == [4, 5])
    }

    @Test func `growing dials what is missing, shrinking drains the youngest`() {
        var pool = Pool(1)
        _ = pool.plan()
        #expect(!pool.machine.isComplete)
        _ = pool.opened(1)
        #expect(pool.machine.isComplete)
        #expect(pool.machine.resize(to: 4) == [])
        #expect(!pool.machine.isComplete)
        #expect(pool.plan() == [2, 3, 4])
        for id in [2, 3] as [UInt64] { _ = pool.opened(id) }
        #expect(pool.machine.resize(to: 2) == [drain(4), drain(3)])
        #expect(pool.plan() == [])
        #expect(pool.machine.isComplete)
        _ = pool.retired(3)
        _ = pool.ended(3)
        pool.machine.dialAbandoned(SessionID(4))
        #expect(pool.plan() == [])
        #expect(pool.machine.resize(to: 1) == [drain(2)])
    }

    @Test func `a session too many that opened before it heard of it drains, and its end is no failure`() {
        var pool = Pool(2)
        _ = pool.plan()
        _ = pool.opened(1)
        #expect(pool.machine.resize(to: 1) == [drain(2)])
        #expect(pool.opened(2) == [told(2), drain(2)])
        _ = pool.retired(2, hasServed: false)
        _ = pool.ended(2, hasServed: false)
        #expect(pool.machine.isComplete)
        #expect(pool.machine.resize(to: 2) == [])
        #expect(pool.plan() == [3])
    }

    @Test func `reconnecting drains what is open and dials without waiting`() {
        var pool = Pool(2)
        _ = pool.plan()
        _ = pool.opened(1)
        _ = pool.failed(2)
        #expect(pool.machine.reconnect(now: pool.start) == [drain(1)])
        #expect(pool.plan() == [3, 4])
        _ = pool.retired(1)
        _ = pool.ended(1)
        #expect(pool.plan() == [])
    }

    /// Never by an `end`: it may be open since, and then pushes in flight would be in doubt.
    @Test func `a dial under way is given up for a new one`() {
        var pool = Pool(1)
        _ = pool.plan()
        #expect(pool.machine.reconnect(now: pool.start) == [drain(1)])
        #expect(pool.plan() == [2])
        #expect(pool.failed(1) == [])
        // It opened before it heard of it.
        _ = pool.machine.reconnect(now: pool.start)
        _ = pool.plan()
        #expect(pool.opened(2) == [told(2), drain(2)])
    }

    @Test func `replacing lets the old ones go as the new ones come`() {
        var pool = Pool.open(2)
        #expect(pool.replace(target: 2) == [])
        #expect(pool.plan() == [3, 4])
        #expect(pool.opened(3) == [told(3), drain(1)])
        #expect(pool.opened(4) == [told(4), drain(2)])
    }

    @Test func `replacing by fewer lets all old ones go with the last new one`() {
        var pool = Pool.open(3)
        _ = pool.replace()
        #expect(pool.plan() == [4])
        #expect(pool.opened(4) == [told(4), drain(1), drain(2), drain(3)])
    }

    @Test func `an old session whose credential is refused drains before a new one opens`() {
        var pool = Pool.open(2)
        #expect(pool.machine.retire(SessionID(1)) == [], "its credential is in use")
        _ = pool.replace(target: 2)
        #expect(pool.machine.retire(SessionID(1)) == [drain(1)])
        #expect(pool.machine.retire(SessionID(1)) == [])
        #expect(pool.plan() == [3, 4])
        #expect(pool.opened(3) == [told(3), drain(2)])
    }

    @Test func `a pool that shrinks to its new sessions while it replaces drains the old ones`() {
        var pool = Pool.open(4)
        #expect(pool.replace(target: 4) == [])
        #expect(pool.plan() == [5, 6, 7, 8])
        #expect(pool.opened(5) == [told(5), drain(1)])
        #expect(pool.opened(6) == [told(6), drain(2)])
        #expect(pool.machine.resize(to: 3) == [drain(8)])
        #expect(pool.machine.resize(to: 2) == [drain(7), drain(3), drain(4)])
        #expect(pool.machine.resize(to: 1) == [drain(6)])
    }

    @Test func `old sessions stay as long as the new settings lead nowhere`() {
        var pool = Pool.open(1)
        _ = pool.replace()
        _ = pool.plan()
        guard case .tell(.dialFailed) = pool.failed(2).first else {
            Issue.record("no word of the failure")
            return
        }
        #expect(pool.opened(2) == [])
    }

    @Test func `after an acceptance, old sessions stay until the new credential is accepted`() {
        var pool = Pool.proven(2)
        #expect(pool.replace(target: 2) == [])
        #expect(pool.machine.isOnTrial)
        #expect(pool.plan() == [3, 4])
        #expect(pool.opened(3) == [told(3)])
        #expect(pool.machine.proved(SessionID(1)) == [], "of the old credential")
        #expect(pool.machine.proved(SessionID(3)) == [.adopt, drain(1)])
        #expect(pool.opened(4) == [told(4), drain(2)])
        #expect(!pool.machine.isOnTrial)
    }

    @Test func `a refused new credential leaves the old sessions, and the next dial is theirs`() {
        var pool = Pool.proven(2)
        _ = pool.replace(target: 2)
        _ = pool.plan()
        _ = pool.opened(3)
        #expect(pool.machine.refused(SessionID(3), because: "403") == [.revert("403"), drain(3), drain(4)])
        #expect(pool.opened(4) == [told(4), drain(4)])
        #expect(pool.machine.refused(SessionID(3), because: "403") == [])
        #expect(pool.machine.proved(SessionID(3)) == [])
        _ = pool.ended(1)
        #expect(pool.plan() == [5])
        #expect(pool.opened(5) == [told(5)])
    }

    @Test func `a dial that fails because of the new credential ends the trial, another failure does not`() {
        var pool = Pool.proven(1)
        _ = pool.replace()
        _ = pool.plan()
        _ = pool.failed(2)
        #expect(pool.machine.isOnTrial)
        #expect(pool.plan(60) == [3])
        let alert = SessionError.dial("alert", isCredential: true)
        let effects = pool.machine.dialFailed(SessionID(3), address: "a", alert, now: pool.start, random: 0.5)
        #expect(effects.dropFirst() == [.revert("alert")])
    }

    @Test func `a refused credential is tried again only if the pool can return to the one that works`() {
        var pool = Pool.onTrial()
        _ = pool.machine.refused(SessionID(2), because: "403")
        #expect(pool.machine.mayTryAgain)
        _ = pool.ended(1)
        #expect(!pool.machine.mayTryAgain, "without a network there is no session to return to")
        #expect(pool.plan() == [3])
        _ = pool.failed(3)
        #expect(!pool.machine.mayTryAgain)
        #expect(pool.plan(1) == [4])
        _ = pool.opened(4, 1)
        #expect(pool.machine.mayTryAgain)
        _ = pool.ended(4, 2)
        #expect(pool.plan(2) == [5])
        let alert = SessionError.dial("alert", isCredential: true)
        _ = pool.machine.dialFailed(SessionID(5), address: "a", alert, now: pool.start + .seconds(2), random: 0.5)
        #expect(pool.machine.mayTryAgain, "both are refused")
    }

    @Test func `the next trial is due after a minute, and waits another minute for a session to return to`() {
        var pool = Pool.onTrial()
        _ = pool.machine.refused(SessionID(2), because: "403")
        pool.machine.tryAgainLater(now: pool.start)
        #expect(pool.machine.deadline == pool.start + .seconds(60))
        func isDue(_ seconds: Double) -> Bool { pool.machine.mustTryAgain(now: pool.start + .seconds(seconds)) }
        #expect(!isDue(59))
        _ = pool.ended(1)
        #expect(!isDue(60))
        #expect(pool.plan(60) == [3])
        _ = pool.opened(3, 60)
        #expect(pool.machine.deadline == pool.start + .seconds(120))
        #expect(!isDue(119))
        #expect(isDue(120))
        #expect(!isDue(1000), "once")
        #expect(pool.machine.deadline == nil)
    }

    @Test func `a topic of the settings that is refused on trial ends it`() {
        var pool = Pool.onTrial()
        #expect(pool.machine.retire(SessionID(2)) == [.revert("a topic of the settings"), drain(2)])
    }

    @Test func `a trial ends with the last old session, and with a reconnect`() {
        var pool = Pool.proven(2)
        _ = pool.replace(target: 2)
        _ = pool.plan()
        #expect(pool.machine.refused(SessionID(1), because: "403") == [drain(1)])
        #expect(pool.ended(2).dropFirst() == [.adopt])
        #expect(pool.machine.refused(SessionID(3), because: "403") == [])
        var other = Pool.proven(1)
        _ = other.replace()
        #expect(other.machine.reconnect(now: other.start) == [.adopt, drain(1)])
    }

    @Test func `a credential that was refused since its acceptance is replaced as soon as a session opens`() {
        var pool = Pool.proven(1)
        #expect(pool.machine.refused(SessionID(1), because: "403") == [])
        _ = pool.replace()
        #expect(!pool.machine.isOnTrial)
        #expect(pool.plan() == [2])
        #expect(pool.opened(2) == [told(2), drain(1)])
    }

    @Test func `a rejected device token ends a trial, but without an acceptance there is no other trial`() {
        var pool = Pool.onTrial()
        #expect(pool.machine.proved(SessionID(2), isAcceptance: false) == [.adopt, drain(1)])
        _ = pool.replace()
        #expect(!pool.machine.isOnTrial)
    }

    @Test func `a trial without a session ends after a minute, and the settings are tried again`() {
        var pool = Pool.proven(1)
        _ = pool.replace()
        #expect(pool.plan() == [2])
        _ = pool.failed(2)
        #expect(pool.machine.endTrial(now: pool.start + .seconds(59)) == [])
        let deadline = pool.machine.deadline
        #expect(deadline.map { $0 <= pool.start + .seconds(60) } == true)
        #expect(pool.machine.endTrial(now: pool.start + .seconds(60)) == [.revert("no session within 60 s: x")])
        #expect(!pool.machine.isOnTrial)
        #expect(pool.machine.phase(of: SessionID(1)) == .open, "the present session goes on")
        #expect(pool.plan(60) == [], "and suffices")
        pool.machine.tryAgainLater(now: pool.start + .seconds(60))
        let triesAgain = pool.machine.mustTryAgain(now: pool.start + .seconds(120))
        #expect(triesAgain)
    }

    @Test func `a trial with an open session waits for a push`() {
        var pool = Pool.onTrial()
        #expect(pool.machine.endTrial(now: pool.start + .seconds(600)) == [])
        #expect(pool.machine.isOnTrial)
    }

    @Test func `a pool that finishes drains every session and is done when they have ended`() {
        var pool = Pool(3)
        #expect(pool.plan() == [1, 2, 3])
        _ = pool.opened(1)
        #expect(pool.machine.finish() == [drain(1), drain(2), drain(3)])
        #expect(pool.opened(2) == [told(2), drain(2)], "it opened before the order arrived")
        #expect(pool.plan(100) == [])
        pool.machine.dialAbandoned(SessionID(3))
        _ = pool.ended(1)
        #expect(!pool.machine.isDone)
        _ = pool.ended(2)
        #expect(pool.machine.isDone)
    }

    @Test func `a third credential replaces one on trial, and the proven one stays`() {
        var pool = Pool.onTrial()
        #expect(pool.replace() == [drain(2)])
        #expect(pool.plan() == [3])
        #expect(pool.opened(3) == [told(3)])
        #expect(pool.machine.refused(SessionID(3), because: "403") == [.revert("403"), drain(3)])
        #expect(pool.plan() == [])
    }

    @Test func `closing ends everything and is done when the last has ended`() {
        var pool = Pool(2)
        _ = pool.plan()
        _ = pool.opened(1)
        #expect(pool.machine.close() == [end(1), end(2)])
        #expect(pool.plan(100) == [])
        #expect(pool.opened(2) == [told(2), end(2)])
        _ = pool.ended(1)
        #expect(!pool.machine.isDone)
        _ = pool.ended(2)
        #expect(pool.machine.isDone)
        #expect(pool.machine.deadline == nil)
    }

    @Test func `news of a session that is not there is nothing`() {
        var pool = Pool(1)
        #expect(pool.opened(9) == [])
        #expect(pool.retired(9) == [])
        #expect(pool.ended(9) == [])
        #expect(pool.failed(9) == [])
    }
}

@Suite("How long to wait between dials")
struct BackoffTests {
    @Test func `it doubles up to its end, with jitter both ways`() {
        let backoff = Backoff(first: .seconds(1), most: .seconds(60), jitter: 0.2)
        #expect(backoff.wait(afterFailures: 1, random: 0.5) == .seconds(1))
        #expect(backoff.wait(afterFailures: 4, random: 0.5) == .seconds(8))
        #expect(backoff.wait(afterFailures: 1000, random: 0.5) == .seconds(60))
        #expect(backoff.wait(afterFailures: 1000, random: 0) == .seconds(48))
        #expect(backoff.wait(afterFailures: 1000, random: 1) == .seconds(60))
        #expect(backoff.wait(afterFailures: 1, random: 0) == .milliseconds(800))
        #expect(backoff.wait(afterFailures: 0, random: 1) == .milliseconds(1200))
    }
}

@Suite("The table of a pool's transitions")
struct PoolTableTests {
    private let id = SessionID(1)

    /// Returns a pool with a session in this phase, which is on trial or of an older generation if the message says so.
    private func pool(_ message: String, _ phase: String) -> (Pool, SessionID) {
        if message.hasSuffix("on trial") { return (Pool.onTrial(), SessionID(2)) }
        var pool = Pool(1)
        _ = pool.plan()
        let staysUnopened = message.hasPrefix("`opened`") || message == "`dialAbandoned`"
        if phase == "open" || phase == "draining" && !staysUnopened { _ = pool.opened(1) }
        if phase == "draining" { _ = staysUnopened ? pool.machine.resize(to: 0) : pool.retired(1) }
        if message.hasSuffix("older generation") { _ = pool.replace() }
        if message.hasSuffix("the pool closes") { _ = pool.machine.close() }
        return (pool, id)
    }

    private func effects(of message: String, on pool: inout Pool, _ id: SessionID) -> [Effect]? {
        switch String(message.dropFirst().prefix { $0 != "`" }) {
        case "opened": return pool.opened(id.number)
        case "dialFailed": return pool.failed(id.number)
        case "dialAbandoned":
            pool.machine.dialAbandoned(id)
            return []
        case "retired": return pool.retired(id.number)
        case "ended": return pool.ended(id.number)
        case "proved": return pool.machine.proved(id)
        case "refused": return pool.machine.refused(id, because: "403")
        case "retire": return pool.machine.retire(id)
        case "reconnect": return pool.machine.reconnect(now: pool.start)
        case "replace": return pool.replace()
        case "resize": return pool.machine.resize(to: 0)
        case "finish": return pool.machine.finish()
        case "close": return pool.machine.close()
        default: return nil
        }
    }

    private func kind(_ effect: Effect, of id: SessionID) -> String {
        switch effect {
        case .tell(let event): TransitionTable.kind(event)
        case .drain(let other) where other != id: "drain the older one"
        default: TransitionTable.kind(effect)
        }
    }

    @Test func `is that of the code`() {
        TransitionTable("Sources/PushPool/Pool/PoolMachine.swift").compare { message, phase in
            var (pool, id) = pool(message, phase)
            let effects = effects(of: message, on: &pool, id)
            let after = pool.machine.phase(of: id).map { "\($0)" } ?? "gone"
            return effects.map { TransitionTable.cell($0.map { kind($0, of: id) }, from: phase, to: after) }
        }
    }
}
