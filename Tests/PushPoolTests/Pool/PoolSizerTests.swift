import Platform
import Testing

@testable import PushPool

/// A governor, a clock that goes from look to look, and what it said.
private struct Pool {
    var governor: PoolSizer
    private(set) var now: Double = 0
    private let start = Instant.now

    init(least: Int = 2, most: Int = 8, scale: PoolScale = .incremental(1)) {
        governor = PoolSizer(plan(least, most, scale), sessions: least, now: start)
    }

    mutating func woke() { governor.woke(now: start + .seconds(now)) }

    /// Looks whenever it wants to until then; returns when the target changed, to what.
    mutating func look(
        until end: Double, blocked: Bool, busy: Int = 0, capacity: Int? = nil, isComplete: Bool = true
    ) -> [(at: Double, target: Int)] {
        var changes: [(Double, Int)] = []
        while let deadline = governor.deadline, (deadline - start) / .seconds(1) <= end + 1e-6 {
            now = (deadline - start) / .seconds(1)
            let load = PoolSizer.Load(
                wasBlocked: blocked, busy: busy, capacity: capacity ?? 100 * governor.target, isComplete: isComplete)
            if governor.look(load, now: deadline) { changes.append(((now * 10).rounded() / 10, governor.target)) }
        }
        now = max(now, end)
        return changes
    }
}

private func plan(_ least: Int, _ most: Int, _ scale: PoolScale = .incremental(1)) -> PoolSizer.Plan {
    var settings = PoolSettings(host: "h", port: 1, sessions: least)
    (settings.mostSessions, settings.scale) = (most, scale)
    return PoolSizer.Plan(settings)
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
        pool.governor.adopt(plan(2, 4), now: now)
        #expect(pool.governor.target == 4)
        #expect(pool.governor.deadline != nil)
        pool.governor.adopt(plan(6, 9), now: now)
        #expect(pool.governor.target == 6)
        #expect(pool.governor.deadline == nil)
        pool.governor.adopt(plan(2, 2), now: now)
        #expect(pool.governor.target == 2)
        // An automatic pool had 8.
        pool.governor = PoolSizer(.automatic(most: 8), sessions: 8, now: now)
        pool.governor.adopt(plan(2, 9), now: now)
        #expect(pool.governor.target == 8)
        #expect(pool.governor.deadline != nil)
    }
}

private let interval = Duration.milliseconds(200)

@Suite("The size of an automatic pool")
struct AutoSizeTests {
    private let start = Instant.now
    /// 160 pushes a second.
    private let far = Reach(roundTrip: .milliseconds(100), window: 65_536, streams: 1000, payload: 2048)

    private func load(
        blocked: Bool = true, complete: Bool = true, rate: Double = 300, waiting: Int = 1000, near: Bool = false
    ) -> PoolSizer.Load {
        let reach = near ? Reach(roundTrip: .microseconds(100), window: 65_536, streams: 1000, payload: 200) : far
        return PoolSizer.Load(wasBlocked: blocked, isComplete: complete, rate: rate, waiting: waiting, reach: reach)
    }

    /// Looks every 0.2 s from a time on. Returns the looks that changed the target.
    private func looks(_ size: inout PoolSizer, _ count: Int, from first: Int = 0, _ load: PoolSizer.Load) -> [Int] {
        (first..<first + count).filter { size.look(load, now: start + interval * $0) }
    }

    @Test func `it grows in one step to the size that the demand needs`() {
        var size = PoolSizer(.automatic(most: 100), sessions: 1, now: start)
        #expect(size.deadline == nil)
        size.woke(now: start)
        #expect(size.deadline == start + interval)
        #expect(looks(&size, 3, load()) == [2])
        #expect(size.target == 34, "300 a second and 1000 within 0.2 s, at 160 a second")
        #expect(looks(&size, 20, from: 3, load()) == [])
    }

    @Test func `it never exceeds its maximum, and a lower one applies at once`() {
        var size = PoolSizer(.automatic(most: 8), sessions: 1, now: start)
        _ = looks(&size, 3, load(waiting: .max))
        #expect(size.target == 8)
        size.adopt(.automatic(most: 3), now: start)
        #expect(size.target == 3)
    }

    @Test(arguments: [true, false])
    func `it does not grow while nothing waits, or while a dial is running`(isBlocked: Bool) {
        var size = PoolSizer(.automatic(most: 32), sessions: 1, now: start)
        #expect(looks(&size, 50, load(blocked: isBlocked, complete: !isBlocked)) == [])
    }

    @Test func `a session that is full without a distance is enough`() {
        var size = PoolSizer(.automatic(most: 32), sessions: 1, now: start)
        #expect(looks(&size, 50, load(rate: 20_000, near: true)) == [])
    }

    @Test func `it shrinks after a minute, to what that minute needed`() {
        var size = PoolSizer(.automatic(most: 100), sessions: 1, now: start)
        _ = looks(&size, 3, load())
        let idle = load(blocked: false, rate: 0, waiting: 0)
        #expect(looks(&size, 100, from: 3, idle) == [])
        #expect(looks(&size, 1, from: 103, load(blocked: false, rate: 480, waiting: 0)) == [])
        #expect(looks(&size, 250, from: 104, idle) == [303])
        #expect(size.target == 4)
    }

    @Test func `a pool that becomes automatic begins with its sessions, up to the maximum, and shrinks after a minute`() {
        #expect(PoolSizer(.automatic(most: 4), sessions: 8, now: start).target == 4)
        var size = PoolSizer(.automatic(most: 32), sessions: 8, now: start)
        #expect(size.target == 8 && size.deadline == start + interval)
        #expect(looks(&size, 400, load(blocked: false, rate: 0, waiting: 0)) == [300])
        #expect(size.target == 1)
    }

    @Test func `load that comes and goes within a minute does not change the size`() {
        var size = PoolSizer(.automatic(most: 32), sessions: 1, now: start)
        _ = looks(&size, 3, load())
        var changes: [Int] = []
        for wave in 0..<20 {
            changes += looks(&size, 150, from: 3 + wave * 300, load(blocked: false, rate: 0, waiting: 0))
            changes += looks(&size, 150, from: 153 + wave * 300, load())
        }
        #expect(changes == [])
    }
}

@Suite("An automatic pool under a square wave")
struct SquareWaveTests {
    /// Returns the sizes after each change, by burst, in an hour of 30 s without jobs and 30 s of jobs.
    ///
    /// - Parameters:
    ///   - arriving: jobs per second in a burst.
    ///   - carried: pushes per second of one session.
    private func sizes(arriving: Double, carried: Double, reach: Reach) -> [[Int]] {
        let start = Instant.now
        var size = PoolSizer(.automatic(most: 32), sessions: 1, now: start)
        var tally = PushTally(now: start)
        var (backlog, changes) = (0.0, [[Int]]())
        for tick in 0..<3600 * 5 {
            let now = start + interval * tick
            let second = tick / 5 % 60
            if tick % 300 == 0 { changes.append([]) }
            if second >= 30 { backlog += arriving / 5 }
            let capacity = carried * Double(size.target) / 5
            let sent = min(backlog, capacity)
            tally.count(Int(sent), now: now)
            backlog -= sent
            // A pool holds at most a claim more than its sessions can send.
            let waiting = min(backlog, 250 + 1000 * Double(size.target))
            if waiting > 0 { size.woke(now: now) }
            guard let deadline = size.deadline, deadline <= now else { continue }
            let load = PoolSizer.Load(
                wasBlocked: waiting > 0, isComplete: true, rate: Double(tally.rate(now: now)), waiting: Int(waiting), reach: reach
            )
            if size.look(load, now: now) { changes[changes.count - 1].append(size.target) }
        }
        return changes
    }

    @Test(arguments: [(100.0, 160.0), (500, 160), (5000, 160), (1_000_000, 160), (3000, 1600), (40_000, 1600)])
    func `an hour has at most two changes in a burst, and few dials`(arriving: Double, reach: Double) {
        let distance = Reach(roundTrip: .milliseconds(100), window: 65_535, streams: 1000, payload: Int(65_535 / 2 / reach / 0.1))
        // The server confirms half of a window at a time, or all at once.
        for carried in [reach, 2 * reach] {
            let changes = sizes(arriving: arriving, carried: carried, reach: distance)
            #expect(changes.count == 60)
            #expect(changes.allSatisfy { $0.count <= 2 }, "\(changes)")
            let dials = changes.joined().reduce((last: 1, sum: 0)) { ($1, $0.sum + max(0, $1 - $0.last)) }.sum
            #expect(dials <= 31, "\(changes)")
            let capacity = Double(changes.joined().last ?? 1) * carried
            #expect(capacity >= min(arriving, 32 * carried) * 0.99, "\(changes)")
        }
    }
}

@Suite("The reach of a session")
struct ReachTests {
    @Test func `windows limit it at a distance, and streams if payloads are small`() {
        let small = Reach(roundTrip: .milliseconds(100), window: 65_536, streams: 100, payload: 128)
        #expect(small.pushesPerSecond.rounded() == 1000)
        let large = Reach(roundTrip: .milliseconds(100), window: 65_536, streams: 1000, payload: 4096)
        #expect(large.pushesPerSecond.rounded() == 80)
        #expect(large.sessions(for: 0, atMost: 9) == 1)
        #expect(large.sessions(for: 200, atMost: 9) == 3)
        #expect(large.sessions(for: .infinity, atMost: 9) == 9)
    }

    @Test func `a round trip, a payload or a window of 0 divides by nothing`() {
        let reach = Reach(roundTrip: .zero, window: 0, streams: 0, payload: 0)
        #expect(reach.pushesPerSecond.isFinite && reach.pushesPerSecond > 0)
    }

    @Test func `round trips are smoothed, and only the response to the latest PING counts`() throws {
        let start = Instant.now
        var trip = RoundTrip(now: start)
        let due = trip.due(now: start)
        let first = try #require(due)
        let early = trip.due(now: start + .seconds(9))
        #expect(early == nil)
        let answers = [100, 200].map { trip.answered(first, now: start + .milliseconds($0)) }
        #expect(answers == [true, false])
        #expect(trip.smoothed == .milliseconds(100))
        let later = trip.due(now: start + .seconds(10))
        let second = try #require(later)
        let late = [trip.answered(first, now: start + .seconds(11)), trip.answered(second, now: start + .milliseconds(10_500))]
        #expect(late == [false, true])
        #expect(trip.smoothed == .milliseconds(200))
        #expect(trip.shortest == .milliseconds(100))
    }
}

@Suite("The advice of a larger pool")
struct PoolAdvisorTests {
    private let start = Instant.now
    private let plan = PoolSizer.Plan(PoolSettings(host: "h", port: 1, sessions: 2))

    /// A pool that windows and streams have blocked for this long.
    private func figures(blocked seconds: Double, roundTrip: Duration = .milliseconds(100), sessions: Int = 2) -> PoolFigures {
        var figures = PoolFigures()
        (figures.sessions, figures.shortestRoundTrip, figures.payload) = (sessions, roundTrip, 200)
        figures.blocked[Limitation.window.rawValue] = .seconds(seconds / 2)
        figures.blocked[Limitation.streams.rawValue] = .seconds(seconds / 2)
        return figures
    }

    private func looks(_ figures: PoolFigures, _ plan: PoolSizer.Plan) -> PoolAdvice? {
        var advisor = PoolAdvisor()
        advisor.woke(self.figures(blocked: 0), now: start)
        return advisor.look(figures, rate: 300, plan, now: start + .seconds(5))
    }

    @Test func `it comes after five blocked seconds, and again after ten minutes`() {
        var advisor = PoolAdvisor()
        advisor.woke(figures(blocked: 7), now: start)
        #expect(advisor.deadline == start + .seconds(5))
        let first = advisor.look(figures(blocked: 10), rate: 300, plan, now: start + .seconds(5))
        #expect(
            first
                == PoolAdvice(
                    sessions: 2, roundTrip: .milliseconds(100), payload: 200, pushesPerSecond: 300, suggestion: 8,
                    suggestedPushesPerSecond: 1200, isMaximum: false))
        #expect(advisor.deadline == start + .seconds(605))
        advisor.woke(figures(blocked: 20), now: start + .seconds(20))
        let afterPause = advisor.look(figures(blocked: 600), rate: 300, plan, now: start + .seconds(605))
        let second = advisor.look(figures(blocked: 604), rate: 300, plan, now: start + .seconds(610))
        #expect(afterPause == nil && second != nil)
    }

    @Test func `it does not come for less, and sleeps until something is blocked again`() {
        var advisor = PoolAdvisor()
        advisor.woke(figures(blocked: 0), now: start)
        #expect(advisor.look(figures(blocked: 2), rate: 300, plan, now: start + .seconds(5)) == nil)
        #expect(advisor.deadline == nil)
    }

    @Test func `it comes only at a distance, and at the most sessions that the plan allows`() {
        #expect(looks(figures(blocked: 5), plan) != nil)
        #expect(looks(figures(blocked: 5, roundTrip: .milliseconds(1)), plan) == nil)
        #expect(looks(figures(blocked: 5), .automatic(most: 9)) == nil)
        #expect(looks(figures(blocked: 5, sessions: 9), .automatic(most: 9))?.isMaximum == true)
        #expect(looks(figures(blocked: 5, sessions: 100), .automatic(most: 100)) == nil)
    }
}

@Suite("The sizer and its queue")
struct SizerTickTests {
    private let start = Instant.now

    /// A queue whose only session is full while a notification waits.
    private func blockedQueue() -> PushQueue {
        var queue = PushQueue(rateLimits: SharedRateLimits(), now: start)
        queue.join(SessionID(1), wakeUp: WakeUp())
        var batch = [notification(1)]
        _ = queue.push(&batch, now: start)
        return queue
    }

    @Test func `a governed pool looks while its queue is blocked, and reports the new size`() {
        var settings = PoolSettings(host: "h", port: 1, sessions: 2)
        settings.mostSessions = 3
        var sizer = PoolSizer(PoolSizer.Plan(settings), sessions: 2, now: start)
        var queue = blockedQueue()
        var events: [PoolEvent] = []
        for step in 0...20 {
            events += sizer.tick(&queue, capacity: 200, isComplete: true, now: start + .milliseconds(200 * step))
        }
        #expect(events == [.resized(from: 2, to: 3)])
        #expect(sizer.target == 3)
    }

    @Test func `a fixed pool looks once for advice, and sleeps when nothing is blocked any more`() {
        var sizer = PoolSizer(PoolSizer.Plan(PoolSettings(host: "h", port: 1)), sessions: 2, now: start)
        var queue = blockedQueue()
        #expect(sizer.tick(&queue, capacity: 200, isComplete: true, now: start) == [])
        #expect(sizer.nextTick == start + PoolAdvisor.interval)
        #expect(queue.withdraw(now: start) == [1])
        #expect(sizer.tick(&queue, capacity: 200, isComplete: true, now: start + PoolAdvisor.interval) == [])
        #expect(sizer.nextTick == nil)
        #expect(!queue.wasBlocked)
    }
}
