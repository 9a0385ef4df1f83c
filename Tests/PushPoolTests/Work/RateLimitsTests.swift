import Harness
import Platform
import Testing

@testable import PushPool

@Suite("Pushes a second")
struct RateLimitsTests {
    private let start = Instant.now

    /// Asks at random moments, now and then late; returns when each push went.
    private func run(_ limits: RateLimits.Limits, payload: Int = 100, seconds: Double, seed: UInt64) -> [Double] {
        var random = SeededGenerator(seed: seed)
        var limits = RateLimits(limits: limits, now: start)
        var now = 0.0
        var went: [Double] = []
        while now < seconds {
            now += Double.random(in: 0...0.002, using: &random) * (Int.random(in: 0..<50, using: &random) == 0 ? 200 : 1)
            while limits.admit(payload: payload, now: start + .seconds(now)) == nil { went.append(now) }
        }
        return went
    }

    @Test(arguments: [1.0, 7, 100, 1000, 20_000])
    func `no second has more than the limit, however late one asks`(rate: Double) {
        let seed = UInt64.random(in: 1...1_000_000)
        let times = run(.init(pushesPerSecond: rate), seconds: 10, seed: seed)
        #expect(most(times) <= Int(rate), "seed \(seed)")
        #expect(!times.isEmpty)
    }

    @Test(arguments: [RateLimits.Limits(pushesPerSecond: 300), .init(pushesPerSecond: 2000), .init(bitsPerSecond: 80_000)])
    func `no second at the server has more than the limit, although pushes leave late and arrive with jitter`(
        limits: RateLimits.Limits
    ) {
        let seed = UInt64.random(in: 1...1_000_000)
        var random = SeededGenerator(seed: seed)
        var limiter = RateLimits(limits: limits, now: start)
        var now = 0.0
        var arrived: [Double] = []
        while now < 20 {
            now += Double.random(in: 0...0.02, using: &random)
            while limiter.admit(payload: 1000, now: start + .seconds(now)) == nil {
                arrived.append(now + Double.random(in: 0...0.0199, using: &random))
            }
        }
        let limit = limits.pushesPerSecond > 0 ? limits.pushesPerSecond : limits.bitsPerSecond / 8000
        #expect(most(arrived.sorted()) <= Int(limit), "seed \(seed)")
        #expect(Double(arrived.count) >= limit * 20 * 0.95, "seed \(seed)")
    }

    @Test func `a caller that asks in time gets 98 % of the limit`() {
        var limits = RateLimits(limits: .init(pushesPerSecond: 1000), now: start)
        var count = 0
        for millisecond in 0..<10_000 {
            while limits.admit(payload: 1, now: start + .milliseconds(millisecond)) == nil { count += 1 }
        }
        #expect((9800...9820).contains(count))
    }

    @Test func `bits are counted by payload`() {
        let seed = UInt64.random(in: 1...1_000_000)
        // 1000 bytes are 8000 bits: ten of them make 80,000.
        let times = run(.init(bitsPerSecond: 80_000), payload: 1000, seconds: 20, seed: seed)
        #expect(most(times) <= 10, "seed \(seed)")
        #expect(times.count > 40)
    }

    @Test func `the tighter of two limits holds`() {
        let seed = UInt64.random(in: 1...1_000_000)
        let times = run(.init(pushesPerSecond: 50, bitsPerSecond: 16_000), payload: 100, seconds: 10, seed: seed)
        #expect(most(times) <= 20, "seed \(seed)")
    }

    @Test func `a late caller catches up, and no second exceeds the limit`() {
        var limits = RateLimits(limits: .init(pushesPerSecond: 1000), now: start)
        var times: [Double] = []
        // 15 ms late, every time.
        for step in 0..<400 {
            let now = Double(step) * 0.015
            while limits.admit(payload: 1, now: start + .seconds(now)) == nil { times.append(now) }
        }
        #expect(times.count > 5800)
        #expect(most(times) <= 1000)
    }

    @Test func `payloads of any size keep to the bits of a second`() {
        let seed = UInt64.random(in: 1...1_000_000)
        var random = SeededGenerator(seed: seed)
        var limits = RateLimits(limits: .init(bitsPerSecond: 50_000), now: start)
        // In whole milliseconds: a fraction of a second less one may be a little more than it was.
        var went: [(time: Int, bits: Int)] = []
        for millisecond in 0..<30_000 {
            let payload = Int.random(in: 1...5120, using: &random)
            if limits.admit(payload: payload, now: start + .milliseconds(millisecond)) == nil {
                went.append((millisecond, payload * 8))
            }
        }
        for (place, last) in went.enumerated() {
            let bits = went[...place].reduce(0) { $0 + ($1.time > last.time - 1000 ? $1.bits : 0) }
            #expect(bits <= 50_000, "seed \(seed) at \(last.time) ms")
        }
        #expect(went.reduce(0) { $0 + $1.bits } > 30 * 25_000, "seed \(seed)")
    }

    @Test func `a limit below one push per second admits one push in several seconds`() {
        let times = run(.init(pushesPerSecond: 0.5), seconds: 10, seed: 7)
        #expect((4...5).contains(times.count))
    }

    @Test func `a payload above the limit goes alone instead of never`() {
        var limits = RateLimits(limits: .init(bitsPerSecond: 1000), now: start)
        #expect(limits.admit(payload: 500, now: start) == nil)
        #expect(limits.admit(payload: 1, now: start + .seconds(1)).map { $0 <= start + .seconds(5) } == true)
        #expect(limits.admit(payload: 1, now: start + .seconds(5)) == nil)
    }

    @Test func `a refused push says when to ask again, and then it goes`() {
        var limits = RateLimits(limits: .init(pushesPerSecond: 10), now: start)
        #expect(limits.admit(payload: 100, now: start) == nil)
        guard let opening = limits.admit(payload: 100, now: start) else {
            Issue.record("admitted at once")
            return
        }
        #expect(opening > start && opening < start + .milliseconds(110))
        #expect(limits.admit(payload: 100, now: opening) == nil)
        #expect(limits.halfASecond == 5)
    }

    @Test func `other limits hold at once, and what went counts for them`() {
        var limits = RateLimits(limits: .init(pushesPerSecond: 0.1), now: start)
        #expect(limits.admit(payload: 1, now: start) == nil)
        #expect(limits.admit(payload: 1, now: start + .seconds(2)) != nil)
        limits.change(limits: .init(pushesPerSecond: 100), now: start + .seconds(2))
        #expect(limits.admit(payload: 1, now: start + .milliseconds(2020)) == nil)
        for step in 0..<90 { _ = limits.admit(payload: 1, now: start + .milliseconds(2100 + 10 * step)) }
        limits.change(limits: .init(pushesPerSecond: 5), now: start + .seconds(3))
        // 90 within the last second: none of the five until they are old.
        #expect(limits.admit(payload: 1, now: start + .milliseconds(3500)) != nil)
        #expect(limits.admit(payload: 1, now: start + .seconds(4)) == nil)
    }

    @Test func `the number of jobs to claim follows the size of the payloads`() {
        var limits = RateLimits(limits: .init(bitsPerSecond: 1_000_000), now: start)
        #expect(limits.halfASecond == 15)
        for step in 0..<2000 { _ = limits.admit(payload: 100, now: start + .milliseconds(10 * step)) }
        #expect((600...625).contains(limits.halfASecond))
        #expect(limits.duration(of: 1250) > .milliseconds(990))
    }

    @Test func `without limits everything goes`() {
        let limits = SharedRateLimits(pushesPerSecond: 0, bitsPerSecond: 0)
        #expect(!limits.isLimiting)
        for _ in 0..<1000 { #expect(limits.admit(payload: 4096, now: .now) == nil) }
        #expect(limits.holding == nil)
    }
}

/// The most within any second.
func most(_ times: [Double]) -> Int {
    var (first, most) = (0, 0)
    for (place, time) in times.enumerated() {
        while times[first] <= time - 1 { first += 1 }
        most = max(most, place - first + 1)
    }
    return most
}
