import Platform
import Testing

@testable import PushPool

/// A governor, a clock that goes from look to look, and what it said.
private struct Pool {
    var governor: Governor
    private(set) var now: Double = 0
    private let start = Instant.now

    init(least: Int = 2, most: Int = 8, scale: PoolScale = .incremental(1)) {
        governor = Governor(Governor.Plan(least: least, most: most, scale: scale))
    }

    mutating func woke() { governor.woke(now: start + .seconds(now)) }

    /// Looks whenever it wants to until then; returns when the target changed, to what.
    mutating func look(
        until end: Double, blocked: Bool, busy: Int = 0, capacity: Int? = nil, isComplete: Bool = true
    ) -> [(at: Double, target: Int)] {
        var changes: [(Double, Int)] = []
        while let deadline = governor.deadline, (deadline - start) / .seconds(1) <= end + 1e-6 {
            now = (deadline - start) / .seconds(1)
            let load = Governor.Load(
                wasBlocked: blocked, busy: busy, capacity: capacity ?? 100 * governor.target, isComplete: isComplete)
            if governor.look(load, now: deadline) { changes.append(((now * 10).rounded() / 10, governor.target)) }
        }
        now = max(now, end)
        return changes
    }
}

private func == (left: [(at: Double, target: Int)], right: [(Double, Int)]) -> Bool {
    left.map(\.at) == right.map(\.0) && left.map(\.target) == right.map(\.1)
}

@Suite("How many sessions a pool keeps")
struct GovernorTests {
    @Test func `it does not look before something waited, nor without need`() {
        var pool = Pool()
        #expect(pool.governor.target == 2)
        #expect(pool.governor.deadline == nil)
        pool.woke()
        #expect(pool.governor.deadline != nil)
        #expect(pool.look(until: 1, blocked: false).isEmpty)
        #expect(pool.governor.deadline == nil)
    }

    @Test func `two seconds of waiting add a session, and five pass before the next`() {
        var pool = Pool()
        pool.woke()
        #expect(pool.look(until: 20, blocked: true) == [(2, 3), (7, 4), (12, 5), (17, 6)])
    }

    @Test func `never more than the most`() {
        var pool = Pool(least: 2, most: 3, scale: .incremental(5))
        pool.woke()
        #expect(pool.look(until: 30, blocked: true) == [(2, 3)])
    }

    @Test func `an interrupted sequence of looks starts again`() {
        var pool = Pool()
        pool.woke()
        #expect(pool.look(until: 1.8, blocked: true).isEmpty)
        #expect(pool.look(until: 2, blocked: false).isEmpty)
        pool.woke()
        #expect(pool.look(until: 3.9, blocked: true).isEmpty)
        #expect(pool.look(until: 4.1, blocked: true).map(\.target) == [3])
    }

    @Test func `while a session is missing none is added`() {
        var pool = Pool()
        pool.woke()
        #expect(pool.look(until: 10, blocked: true, isComplete: false).isEmpty)
        #expect(pool.look(until: 10.2, blocked: true).map(\.target) == [3])
    }

    @Test func `two seconds of fewer streams than a session less would have take one away, down to the least`() {
        var pool = Pool(least: 1)
        pool.woke()
        _ = pool.look(until: 8, blocked: true)
        #expect(pool.governor.target == 3)
        // Changed at 7 s, so not before 12.
        #expect(pool.look(until: 30, blocked: false) == [(12, 2), (17, 1)])
        #expect(pool.governor.deadline == nil)
    }

    @Test func `the pool does not shrink if its load would fill the smaller pool`() {
        var pool = Pool()
        pool.woke()
        _ = pool.look(until: 2, blocked: true)
        // 150 of 200 streams of two sessions are the most that three are given up for.
        #expect(pool.look(until: 20, blocked: false, busy: 151).isEmpty)
        #expect(pool.governor.deadline != nil)
        #expect(pool.look(until: 22.2, blocked: false, busy: 150).map(\.target) == [2])
    }

    @Test func `by a factor, and at least one`() {
        var pool = Pool(least: 1, most: 20, scale: .exponential(1.5))
        pool.woke()
        #expect(pool.look(until: 28, blocked: true).map(\.target) == [2, 3, 4, 6, 9, 13])
        #expect(pool.look(until: 100, blocked: false).map(\.target) == [8, 5, 3, 2, 1])
    }

    @Test func `constant stays, and so does a pool that may not grow`() {
        for pool in [Pool(scale: .constant), Pool(least: 4, most: 4)] {
            var pool = pool
            pool.woke()
            #expect(pool.governor.deadline == nil)
        }
    }

    @Test func `other settings keep what they allow`() {
        var pool = Pool()
        pool.woke()
        _ = pool.look(until: 13, blocked: true)
        #expect(pool.governor.target == 5)
        let now = Instant.now
        pool.governor.change(.init(least: 2, most: 4), sessions: 5, now: now)
        #expect(pool.governor.target == 4)
        #expect(pool.governor.deadline != nil)
        pool.governor.change(.init(least: 6, most: 9), sessions: 4, now: now)
        #expect(pool.governor.target == 6)
        #expect(pool.governor.deadline == nil)
        pool.governor.change(.init(least: 2, most: 2), sessions: 6, now: now)
        #expect(pool.governor.target == 2)
        // An automatic pool had 8.
        pool.governor.change(.init(least: 2, most: 9), sessions: 8, now: now)
        #expect(pool.governor.target == 8)
    }
}
