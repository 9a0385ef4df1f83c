import Platform
import PushPool
import Testing

@testable import APNSClient

@Suite("A send")
struct SendMachineTests {
    private var fixture = MachineFixture()
    private let lost = SessionError.connectionLost("reset")

    @Test mutating func `goes to the pool, and the response is its result`() {
        let (id, effects) = fixture.send()
        #expect(effects == [])
        #expect(fixture.pooled == [id])
        let receipt = Receipt(apnsID: "ID", attempts: 1, mayBeDuplicate: false)
        #expect(fixture.end(id, .delivered(apnsID: "ID")) == [.settle(id, .success(receipt))])
        #expect(fixture.end(id, .delivered(apnsID: "ID")) == [])
        #expect(fixture.machine.count == 0)
    }

    @Test func `waits while the pool is full, in the order of submission`() {
        var fixture = MachineFixture(capacity: 1)
        let ids = (0..<5).map { _ in fixture.send().id }
        // One stream, and one notification that the session finds when the stream is free.
        #expect(fixture.pooled == Array(ids[..<2]))
        _ = fixture.end(ids[1], .delivered(apnsID: nil))
        #expect(fixture.pooled == Array(ids[..<3]))
        fixture.tell { machine, _, _ in machine.observed(capacity: 100) }
        #expect(fixture.pooled == ids)
    }

    @Test mutating func `is one of at most twenty before the first acceptance`() {
        let ids = (0..<25).map { _ in fixture.send().id }
        #expect(fixture.pooled.count == 20)
        _ = fixture.end(ids[0], .delivered(apnsID: nil))
        #expect(fixture.pooled == ids)
    }

    @Test func `is cancelled while it waits`() {
        var fixture = MachineFixture(capacity: 0)
        let id = fixture.send().id
        let errors = fixture.tell { $0.cancelled(id, now: $1, &$2) }.errors
        #expect(errors.map(\.cause) == [.cancelled])
        #expect(errors.map(\.fate) == [.notSent])
        fixture.tell { machine, _, _ in machine.observed(capacity: 100) }
        #expect(fixture.pooled == [])
    }

    @Test mutating func `is withdrawn from the pool when it is cancelled`() {
        let id = fixture.send().id
        #expect(fixture.tell { $0.cancelled(id, now: $1, &$2) } == [.cancel(id)])
        #expect(fixture.tell { $0.cancelled(id, now: $1, &$2) } == [])
        let errors = fixture.tell { $0.withdrew(id, now: $1, &$2) }.errors
        #expect(errors.map(\.fate) == [.notSent])
        #expect(fixture.end(id, .delivered(apnsID: nil)) == [])
    }

    @Test(arguments: [
        (Outcome.maybeProcessed(.streamReset(code: 8)), APNSError.Fate.maybeSent),
        (.notProcessed(.streamReset(code: 8)), .notSent),
        (.timedOut, .maybeSent),
    ])
    mutating func `is not sent again once it is cancelled`(outcome: Outcome, fate: APNSError.Fate) {
        let id = fixture.send().id
        _ = fixture.tell { $0.cancelled(id, now: $1, &$2) }
        let errors = fixture.end(id, outcome).errors
        #expect(errors.map(\.cause) == [.cancelled])
        #expect(errors.map(\.fate) == [fate])
        #expect(fixture.pooled == [id])
    }

    @Test mutating func `has the response as its result if that came before the cancellation took effect`() {
        let id = fixture.send().id
        _ = fixture.tell { $0.cancelled(id, now: $1, &$2) }
        #expect(fixture.end(id, .delivered(apnsID: nil)).receipts.count == 1)
        let other = fixture.send().id
        _ = fixture.tell { $0.cancelled(other, now: $1, &$2) }
        #expect(fixture.reject(other, 410, "Unregistered").errors.map(\.token) == [.dead])
    }

    @Test mutating func `fails at its own deadline, and others later`() throws {
        fixture.warmUp()
        var push = MachineFixture.push
        push.deadline = .seconds(2)
        let (long, short) = (fixture.send().id, fixture.send(push).id)
        #expect(fixture.machine.deadline == fixture.now + .seconds(2))
        #expect(fixture.advance(.seconds(2)) == [.cancel(short)])
        let error = try #require(fixture.end(short, .maybeProcessed(.streamReset(code: 8))).errors.first)
        #expect(error.cause == .deadlineExceeded)
        #expect(error.fate == .maybeSent)
        #expect(fixture.advance(.seconds(58)) == [.cancel(long)])
    }

    @Test func `says why no session was open`() throws {
        var fixture = MachineFixture(capacity: 0)
        _ = fixture.send()
        let refused = SessionError.dial("connection refused", isCredential: false)
        fixture.tell {
            $0.happened(
                .dialFailed(SessionID(1), address: "127.0.0.1:1", refused, retryIn: .seconds(1)), isCurrent: true, now: $1, &$2)
        }
        let error = try #require(fixture.advance(.seconds(60)).errors.first)
        #expect(error.cause == .unreachable)
        #expect(error.fate == .notSent)
        #expect(error.message == "no session to APNs is open (127.0.0.1:1: connection refused)")
    }

    @Test mutating func `is retried after a temporary error, on another session, up to the limit`() throws {
        fixture.warmUp()
        let id = fixture.send().id
        #expect(fixture.reject(id, 503, "ServiceUnavailable") == [])
        #expect(fixture.advance(.milliseconds(999)) == [])
        #expect(fixture.pooled == [id])
        _ = fixture.advance(.milliseconds(1))
        #expect(fixture.pooled == [id, id])
        #expect(fixture.avoided == [MachineFixture.session])
        _ = fixture.reject(id, 503, "ServiceUnavailable")
        _ = fixture.advance(.seconds(5))
        let error = try #require(fixture.reject(id, 503, "ServiceUnavailable").errors.first)
        #expect(error.response?.status == 503)
        #expect(error.fate == .rejected)
        #expect(error.attempts == 3)
        #expect(error.token == .none)
    }

    @Test mutating func `fails at once if the retry would come after its deadline`() throws {
        fixture.warmUp()
        let id = fixture.send().id
        let error = try #require(fixture.reject(id, 429, "TooManyRequests", retryAfter: .seconds(60)).errors.first)
        #expect(error.cause == .rejected)
        #expect(error.retryAfter == .seconds(60))
    }

    @Test mutating func `stays in doubt after a request without a response`() throws {
        fixture.warmUp()
        let first = fixture.send().id
        #expect(fixture.end(first, .maybeProcessed(lost)) == [])
        #expect(fixture.pooled == [first, first])
        _ = fixture.tell { $0.cancelled(first, now: $1, &$2) }
        let error = try #require(fixture.tell { $0.withdrew(first, now: $1, &$2) }.errors.first)
        #expect(error.fate == .maybeSent)
        let second = fixture.send().id
        _ = fixture.end(second, .maybeProcessed(lost))
        #expect(fixture.end(second, .delivered(apnsID: nil)).receipts.map(\.mayBeDuplicate) == [true])
    }

    @Test func `is not sent again in doubt if the rule forbids it`() {
        var fixture = MachineFixture { $0.resendsMaybeSent = false }
        fixture.warmUp()
        let ids = (0..<3).map { _ in fixture.send().id }
        #expect(fixture.end(ids[0], .maybeProcessed(lost)).errors.map(\.fate) == [.maybeSent])
        #expect(fixture.end(ids[1], .timedOut).errors.map(\.cause) == [.noResponse])
        #expect(fixture.end(ids[2], .notProcessed(lost)) == [])
        #expect(fixture.pooled == ids + [ids[2]])
    }

    @Test mutating func `follows the rule of the caller`() throws {
        fixture.warmUp()
        let id = fixture.send().id
        let gone = Outcome.rejected(Rejection(status: 410, reason: "Unregistered", timestamp: 5))
        let failure = try #require(fixture.machine.failure(id, gone, on: MachineFixture.session, random: 0.5))
        #expect(failure.standard == .giveUp)
        #expect(failure.error.attempts == 1)
        #expect(failure.error.response?.timestamp == 5)
        #expect(fixture.end(id, gone, decision: .resend(after: .seconds(3))) == [])
        _ = fixture.advance(.seconds(3))
        #expect(fixture.pooled == [id, id])
        let busy = Outcome.rejected(Rejection(status: 503, reason: "ServiceUnavailable"))
        let second = fixture.machine.failure(id, busy, on: MachineFixture.session, random: 0.5)
        #expect(second?.standard == .resend(after: .seconds(5)))
        #expect(fixture.end(id, busy, decision: .giveUp).errors.map(\.response?.status) == [503])
        #expect(fixture.machine.failure(id, busy, on: MachineFixture.session, random: 0.5) == nil)
    }

    @Test mutating func `may have any deadline, and rest for any time`() {
        var push = MachineFixture.push
        push.deadline =
            Duration(secondsComponent: .max, attosecondsComponent: 0) + .seconds(Double.greatestFiniteMagnitude / 1e300)
        fixture.tell { $0.stopped(until: $1 + .seconds(Int64.max), now: $1, &$2) }
        fixture = MachineFixture()
        let id = fixture.send(push).id
        let busy = Outcome.rejected(Rejection(status: 503, reason: ""))
        #expect(fixture.end(id, busy, decision: .resend(after: .seconds(Int64.max))).errors.count == 1)
    }

    @Test mutating func `is refused if it is invalid, expired, or late`() {
        var push = MachineFixture.push
        push.collapseID = ""
        #expect(fixture.send(push).effects.errors.map(\.cause) == [.invalid])
        let id = fixture.send().id
        let error = fixture.end(id, .outdated).errors.first
        #expect(error?.cause == .expired)
        #expect(error?.attempts == 0)
        fixture.tell { $0.stopped(until: $1 + .seconds(1), now: $1, &$2) }
        #expect(fixture.send().effects.errors.map(\.cause) == [.shutDown])
    }
}

@Suite("The state of the pool")
struct PoolStateTests {
    private var pool = PoolState()

    private func notification(_ id: UInt64) throws -> PushPool.Notification {
        var cache = SharedHeadersCache()
        return try PushRequest(MachineFixture.push, topic: PushTopic("com.example.app"), cache: &cache, time: 0)
            .notification(id: id, avoiding: nil)
    }

    /// Adds notifications until there is no room. Returns their number.
    private mutating func fill(allowance: Int) throws -> Int {
        var count = 0
        while pool.hasRoom(allowance: allowance) {
            pool.add(try notification(UInt64(count)))
            count += 1
        }
        return count
    }

    @Test(arguments: [(0, Int.max, 0), (1, .max, 2), (100, .max, 200), (1000, .max, 1250), (1000, 20, 20), (0, 1, 0)])
    mutating func `has room for its streams and a batch, within the allowance`(capacity: Int, allowance: Int, room: Int) throws {
        pool.observed(capacity: capacity)
        #expect(try fill(allowance: allowance) == room)
        #expect(pool.isEmpty == (room == 0))
    }

    @Test mutating func `has room again when a send leaves it`() throws {
        pool.observed(capacity: 1)
        _ = try fill(allowance: .max)
        var batch: [PushPool.Notification] = []
        pool.takeOutgoing(into: &batch)
        #expect(batch.map(\.id) == [0, 1])
        pool.removed()
        #expect(try fill(allowance: .max) == 1)
        pool.removed()
        pool.removed()
        #expect(pool.isEmpty)
    }

    @Test mutating func `says why no session is open`() {
        #expect(pool.unreachable == "no session to APNs is open")
        pool.dialFailed("a: refused")
        #expect(pool.unreachable == "no session to APNs is open (a: refused)")
        pool.opened()
        #expect(pool.unreachable == "no session to APNs is open")
        pool.observed(capacity: 1)
        #expect(pool.unreachable == nil)
    }
}

@Suite("A client that shuts down")
struct SendShutdownTests {
    private var fixture = MachineFixture()

    @Test mutating func `closes its pool once every send has a result`() {
        let id = fixture.send().id
        #expect(fixture.tell { $0.stopped(until: $1 + .seconds(30), now: $1, &$2) } == [])
        #expect(fixture.end(id, .delivered(apnsID: nil)).last == .close)
        var effects: [SendEffect] = []
        fixture.machine.poolClosed(&effects)
        #expect(effects == [])
        #expect(fixture.machine.isClosed)
    }

    @Test func `ends what is left at the limit`() {
        var fixture = MachineFixture(capacity: 1)
        let ids = (0..<3).map { _ in fixture.send().id }
        fixture.tell { $0.stopped(until: $1 + .seconds(30), now: $1, &$2) }
        #expect(fixture.machine.deadline == fixture.now + .seconds(30))
        let effects = fixture.advance(.seconds(30))
        #expect(effects.prefix(2) == [.cancel(ids[0]), .cancel(ids[1])])
        #expect(effects.errors.map(\.cause) == [.shutDown])
        #expect(effects.last == .close)
        #expect(fixture.tell { $0.withdrew(ids[1], now: $1, &$2) }.errors.map(\.fate) == [.notSent])
        #expect(fixture.end(ids[0], .maybeProcessed(.closedByUs)).errors.map(\.fate) == [.maybeSent])
    }

    @Test mutating func `reports what a stuck session did not report`() {
        let id = fixture.send().id
        fixture.tell { $0.stopped(until: $1, now: $1, &$2) }
        var effects: [SendEffect] = []
        fixture.machine.poolClosed(&effects)
        #expect(effects.errors.map(\.fate) == [.maybeSent])
        #expect(fixture.end(id, .delivered(apnsID: nil)) == [])
    }
}

@Suite("The shutdown of a client")
struct ShutdownPhaseTests {
    private var shutdown = Shutdown()
    private let now = Instant.now

    @Test mutating func `drains until no send is left, and closes once`() {
        let early = shutdown.endDrain(isIdle: true, now: now)
        #expect(!early)
        #expect(!shutdown.isOrdered)
        shutdown.order(until: now + .seconds(30))
        #expect(shutdown.isOrdered)
        #expect(shutdown.deadline == now + .seconds(30))
        let steps = [false, true, true].map { shutdown.endDrain(isIdle: $0, now: now) }
        #expect(steps == [false, true, false])
        #expect(shutdown.deadline == nil)
        #expect(!shutdown.isComplete)
        shutdown.poolClosed()
        #expect(shutdown.isComplete)
    }

    @Test mutating func `closes at the earliest limit`() {
        for seconds in [30, 10, 20] { shutdown.order(until: now + .seconds(seconds)) }
        let steps = [9, 10].map { shutdown.endDrain(isIdle: false, now: now + .seconds($0)) }
        #expect(steps == [false, true])
    }

    @Test mutating func `does not begin again after the pool is closed`() {
        shutdown.poolClosed()
        shutdown.order(until: now)
        let begins = shutdown.endDrain(isIdle: true, now: now)
        #expect(!begins)
        #expect(shutdown.isOrdered)
        #expect(shutdown.isComplete)
    }
}
