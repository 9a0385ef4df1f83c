import Platform
import Testing

@testable import PushPool

@Suite("Half the rate after ENHANCE_YOUR_CALM")
struct CalmLimiterTests {
    private let start = Instant.now
    private let limiter = Box()

    /// A reference, because `#expect` cannot call mutating functions.
    private final class Box {
        private var value = CalmLimiter(quietTime: .seconds(60))
        var limit: Int? { value.limit }
        var deadline: Instant? { value.deadline }
        func slowDown(rate: Int, now: Instant) -> Bool { value.slowDown(rate: rate, now: now) }
        func tick(now: Instant) -> Bool { value.tick(now: now) }
    }

    private func after(_ seconds: Double) -> Instant { start + .seconds(seconds) }

    @Test func `there is no limit at first`() {
        #expect(limiter.limit == nil)
        #expect(limiter.deadline == nil)
        #expect(!limiter.tick(now: after(1000)))
    }

    @Test func `the first word leaves half of what went lately, rounded down, and never less than one`() {
        for (rate, limit) in [(1000, 500), (7, 3), (3, 1), (2, 1), (1, 1)] {
            let limiter = Box()
            #expect(limiter.slowDown(rate: rate, now: start))
            #expect(limiter.limit == limit)
        }
    }

    @Test func `where nothing was pushed there is nothing to halve`() {
        #expect(!limiter.slowDown(rate: 0, now: start))
        #expect(limiter.limit == nil)
        #expect(limiter.deadline == nil)
    }

    @Test func `each further word halves again, down to one`() {
        var limits: [Int?] = []
        for word in 0..<6 {
            // The rate under the limit does not count: the limit itself is halved.
            #expect(limiter.slowDown(rate: word == 0 ? 40 : 3, now: after(Double(2 * word))) == (word < 5))
            limits.append(limiter.limit)
        }
        #expect(limits == [20, 10, 5, 2, 1, 1])
    }

    @Test func `messages to several sessions within the same second halve the limit once`() {
        #expect(limiter.slowDown(rate: 1000, now: start))
        for word in 1..<10 { #expect(!limiter.slowDown(rate: 1000, now: after(Double(word) / 10))) }
        #expect(limiter.limit == 500)
        #expect(limiter.slowDown(rate: 500, now: after(1)))
        #expect(limiter.limit == 250)
    }

    @Test func `each quiet minute doubles the limit until it is above what was measured, and then it is gone`() {
        _ = limiter.slowDown(rate: 1000, now: start)
        _ = limiter.slowDown(rate: 500, now: after(10))
        #expect(limiter.deadline == after(70))
        #expect(!limiter.tick(now: after(69.9)))
        var limits: [Int?] = []
        for minute in 0..<3 {
            #expect(limiter.tick(now: after(70 + 60 * Double(minute))))
            #expect(!limiter.tick(now: after(71 + 60 * Double(minute))))
            limits.append(limiter.limit)
        }
        #expect(limits == [500, 1000, nil])
        #expect(limiter.deadline == nil)
    }

    @Test func `every message restarts the quiet time, even if it does not change the limit`() {
        _ = limiter.slowDown(rate: 2, now: start)
        #expect(!limiter.slowDown(rate: 1, now: after(50)))
        #expect(!limiter.tick(now: after(60)))
        #expect(limiter.deadline == after(110))
        #expect(limiter.tick(now: after(110)))
        #expect(limiter.limit == 2)
    }

    @Test func `after the limit has ended, the next message uses the current rate`() {
        _ = limiter.slowDown(rate: 1, now: start)
        #expect(limiter.tick(now: after(60)))
        #expect(limiter.limit == nil)
        #expect(limiter.slowDown(rate: 800, now: after(61)))
        #expect(limiter.limit == 400)
    }
}

@Suite("The pushes of a pool per second")
struct PushTallyTests {
    private let start = Instant.now

    private func after(_ seconds: Double) -> Instant { start + .seconds(seconds) }

    private func tally(_ batches: [(at: Double, pushes: Int)]) -> PushTally {
        var tally = PushTally(now: start)
        for batch in batches { tally.count(batch.pushes, now: after(batch.at)) }
        return tally
    }

    @Test func `it is none at first`() {
        #expect(tally([]).rate(now: start) == 0)
    }

    @Test func `a steady rate counts the same wherever seconds begin`() {
        for length in [0.3, 0.9, 1.1, 2.5, 7.3] {
            let tally = tally(stride(from: 0, to: length, by: 0.01).map { ($0, 10) })
            #expect((min(1, length) * 990...1000).contains(Double(tally.rate(now: after(length)))), "\(length) s")
        }
    }

    @Test func `a second that has just begun does not hide the one before`() {
        #expect(tally([(0, 300), (0.9, 200), (1.2, 1)]).rate(now: after(1.2)) == 500)
        #expect(tally([(0, 3), (1.2, 100)]).rate(now: after(1.3)) == 100)
    }

    @Test func `a burst of some time ago is not the rate of now`() {
        #expect(tally([(0, 5000), (3, 2)]).rate(now: after(3)) == 2)
    }

    @Test func `the last second is remembered for ten, and then the pool is idle`() {
        let tally = tally([(0, 5000)])
        #expect(tally.rate(now: after(10.9)) == 5000)
        #expect(tally.rate(now: after(11)) == 0)
    }

    @Test func `a session whose turn began earlier also counts`() {
        #expect(tally([(0, 1), (5, 10), (4.9, 10), (5.5, 10)]).rate(now: after(5.5)) == 30)
    }
}
