import Clocks
import Testing

@testable import PushPool

@Suite("Half the rate after ENHANCE_YOUR_CALM")
struct CalmLimiterTests {
    private let start = Instant.now
    private let brake = Brake()

    /// What `#expect` may ask though it changes.
    private final class Brake {
        private var value = CalmLimiter(quietTime: .seconds(60))
        var limit: Int? { value.limit }
        var deadline: Instant? { value.deadline }
        func told(rate: Int, now: Instant) -> Bool { value.told(rate: rate, now: now) }
        func tick(now: Instant) -> Bool { value.tick(now: now) }
    }

    private func after(_ seconds: Double) -> Instant { start + .seconds(seconds) }

    @Test func `nothing brakes who was told nothing`() {
        #expect(brake.limit == nil)
        #expect(brake.deadline == nil)
        #expect(!brake.tick(now: after(1000)))
    }

    @Test func `the first word leaves half of what went lately, rounded down, and never less than one`() {
        for (rate, limit) in [(1000, 500), (7, 3), (3, 1), (2, 1), (1, 1)] {
            let brake = Brake()
            #expect(brake.told(rate: rate, now: start))
            #expect(brake.limit == limit)
        }
    }

    @Test func `where nothing was pushed there is nothing to halve`() {
        #expect(!brake.told(rate: 0, now: start))
        #expect(brake.limit == nil)
        #expect(brake.deadline == nil)
    }

    @Test func `each further word halves again, down to one`() {
        var limits: [Int?] = []
        for word in 0..<6 {
            // What goes under the brake is not measured: its limit is halved.
            #expect(brake.told(rate: word == 0 ? 40 : 3, now: after(Double(2 * word))) == (word < 5))
            limits.append(brake.limit)
        }
        #expect(limits == [20, 10, 5, 2, 1, 1])
    }

    @Test func `sessions that are told within the same second halve once`() {
        #expect(brake.told(rate: 1000, now: start))
        for word in 1..<10 { #expect(!brake.told(rate: 1000, now: after(Double(word) / 10))) }
        #expect(brake.limit == 500)
        #expect(brake.told(rate: 500, now: after(1)))
        #expect(brake.limit == 250)
    }

    @Test func `each quiet minute doubles the limit until it is above what was measured, and then it is gone`() {
        _ = brake.told(rate: 1000, now: start)
        _ = brake.told(rate: 500, now: after(10))
        #expect(brake.deadline == after(70))
        #expect(!brake.tick(now: after(69.9)))
        var limits: [Int?] = []
        for minute in 0..<3 {
            #expect(brake.tick(now: after(70 + 60 * Double(minute))))
            #expect(!brake.tick(now: after(71 + 60 * Double(minute))))
            limits.append(brake.limit)
        }
        #expect(limits == [500, 1000, nil])
        #expect(brake.deadline == nil)
    }

    @Test func `a word begins the quiet time anew, also where it halves nothing`() {
        _ = brake.told(rate: 2, now: start)
        #expect(!brake.told(rate: 1, now: after(50)))
        #expect(!brake.tick(now: after(60)))
        #expect(brake.deadline == after(110))
        #expect(brake.tick(now: after(110)))
        #expect(brake.limit == 2)
    }

    @Test func `once it is gone the next word measures anew`() {
        _ = brake.told(rate: 1, now: start)
        #expect(brake.tick(now: after(60)))
        #expect(brake.limit == nil)
        #expect(brake.told(rate: 800, now: after(61)))
        #expect(brake.limit == 400)
    }
}

@Suite("What a pool pushes in a second")
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

    @Test func `what goes steadily counts by the second, wherever it is cut`() {
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

    @Test func `a session whose turn began earlier counts all the same`() {
        #expect(tally([(0, 1), (5, 10), (4.9, 10), (5.5, 10)]).rate(now: after(5.5)) == 30)
    }
}
