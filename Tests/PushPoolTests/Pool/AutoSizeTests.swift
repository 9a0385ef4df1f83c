import Platform
import Testing

@testable import PushPool

@Suite("The size of an automatic pool")
struct AutoSizeTests {
    private let start = Instant.now
    /// 160 pushes a second.
    private let far = Reach(roundTrip: .milliseconds(100), window: 65_536, streams: 1000, payload: 2048)

    private func load(
        blocked: Bool = true, complete: Bool = true, rate: Double = 300, waiting: Int = 1000, near: Bool = false
    ) -> AutoSize.Load {
        let reach = near ? Reach(roundTrip: .microseconds(100), window: 65_536, streams: 1000, payload: 200) : far
        return AutoSize.Load(wasBlocked: blocked, isComplete: complete, rate: rate, waiting: waiting, reach: reach)
    }

    /// Looks every 0.2 s from a time on. Returns the looks that changed the target.
    private func looks(_ size: inout AutoSize, _ count: Int, from first: Int = 0, _ load: AutoSize.Load) -> [Int] {
        (first..<first + count).filter { size.look(load, now: start + AutoSize.interval * $0) }
    }

    @Test func `it grows in one step to the size that the demand needs`() {
        var size = AutoSize(most: 100)
        #expect(size.deadline == nil)
        size.woke(now: start)
        #expect(size.deadline == start + AutoSize.interval)
        #expect(looks(&size, 3, load()) == [2])
        #expect(size.target == 34, "300 a second and 1000 within 0.2 s, at 160 a second")
        #expect(looks(&size, 20, from: 3, load()) == [])
    }

    @Test func `it never exceeds its maximum, and a lower one applies at once`() {
        var size = AutoSize(most: 8)
        _ = looks(&size, 3, load(waiting: .max))
        #expect(size.target == 8)
        size.change(most: 3)
        #expect(size.target == 3)
    }

    @Test(arguments: [true, false])
    func `it does not grow while nothing waits, or while a dial is running`(isBlocked: Bool) {
        var size = AutoSize(most: 32)
        #expect(looks(&size, 50, load(blocked: isBlocked, complete: !isBlocked)) == [])
    }

    @Test func `a session that is full without a distance is enough`() {
        var size = AutoSize(most: 32)
        #expect(looks(&size, 50, load(rate: 20_000, near: true)) == [])
    }

    @Test func `it shrinks after a minute, to what that minute needed`() {
        var size = AutoSize(most: 100)
        _ = looks(&size, 3, load())
        let idle = load(blocked: false, rate: 0, waiting: 0)
        #expect(looks(&size, 100, from: 3, idle) == [])
        #expect(looks(&size, 1, from: 103, load(blocked: false, rate: 480, waiting: 0)) == [])
        #expect(looks(&size, 250, from: 104, idle) == [303])
        #expect(size.target == 4)
    }

    @Test func `a pool that becomes automatic begins with its sessions, up to the maximum, and shrinks after a minute`() {
        #expect(AutoSize(most: 4, target: 8).target == 4)
        var size = AutoSize(most: 32, target: 8, now: start)
        #expect(size.target == 8 && size.deadline == start + AutoSize.interval)
        #expect(looks(&size, 400, load(blocked: false, rate: 0, waiting: 0)) == [300])
        #expect(size.target == 1)
    }

    @Test func `load that comes and goes within a minute does not change the size`() {
        var size = AutoSize(most: 32)
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
        var size = AutoSize(most: 32)
        var tally = PushTally(now: .now)
        let start = Instant.now
        var (backlog, changes) = (0.0, [[Int]]())
        for tick in 0..<3600 * 5 {
            let now = start + AutoSize.interval * tick
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
            let load = AutoSize.Load(
                wasBlocked: waiting > 0, isComplete: true, rate: Double(tally.rate(now: now)), waiting: Int(waiting), reach: reach
            )
            if size.look(load, now: now) { changes[changes.count - 1].append(size.target) }
        }
        return changes
    }

    @Test(arguments: [(100.0, 160.0), (500, 160), (5000, 160), (1_000_000, 160), (3000, 1600), (40_000, 1600)])
    func `an hour has at most two changes in a burst, and few dials`(arriving: Double, reach: Double) {
        let distance = Reach(
            roundTrip: .milliseconds(100), window: 65_535, streams: 1000, payload: Int(65_535 / 2 / reach / 0.1))
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
struct AdviceScheduleTests {
    @Test func `it comes after five blocked seconds, and again after ten minutes`() {
        let start = Instant.now
        var schedule = AdviceSchedule()
        schedule.woke(blocked: .seconds(7), now: start)
        #expect(schedule.deadline == start + .seconds(5))
        let first = schedule.look(blocked: .seconds(10), now: start + .seconds(5))
        #expect(first)
        #expect(schedule.deadline == start + .seconds(605))
        schedule.woke(blocked: .seconds(20), now: start + .seconds(20))
        let afterPause = schedule.look(blocked: .seconds(600), now: start + .seconds(605))
        let second = schedule.look(blocked: .seconds(604), now: start + .seconds(610))
        #expect(!afterPause && second)
    }

    @Test func `it does not come for less, and sleeps until something is blocked again`() {
        let start = Instant.now
        var schedule = AdviceSchedule()
        schedule.woke(blocked: .zero, now: start)
        let isAdvised = schedule.look(blocked: .seconds(2), now: start + .seconds(5))
        #expect(!isAdvised)
        #expect(schedule.deadline == nil)
    }
}
