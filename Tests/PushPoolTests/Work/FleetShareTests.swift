import Harness
import Platform
import Testing

@testable import PushPool

@Suite("The share of the fleet's limits")
struct FleetShareTests {
    private let start = Instant.now

    /// Several daemons with jobs ask at random moments, sometimes late, and get consecutive windows. Returns each push's time.
    private func run(_ limits: RateLimits.Limits, payload: Int = 100, daemons: Int, seconds: Double, seed: UInt64) -> [Double] {
        var random = SeededGenerator(seed: seed)
        var shares = (0..<daemons).map { _ in
            var share = RateLimits(limits: .init(), now: start)
            share.change(fleet: limits)
            return share
        }
        var (now, free) = (0.0, 0.0)
        var times: [Double] = []
        while now < seconds {
            now += Double.random(in: 0...0.002, using: &random) * (Int.random(in: 0..<50, using: &random) == 0 ? 100 : 1)
            for index in shares.indices.shuffled(using: &random) {
                if let length = shares[index].wantedLease, free < now + 1 {
                    free = max(free, now)
                    shares[index].leased(from: start + .seconds(free), length: length)
                    free += Double(length.components.attoseconds) / 1e18 + Double(length.components.seconds)
                }
                while shares[index].admit(payload: payload, now: start + .seconds(now)) == nil { times.append(now) }
            }
        }
        return times
    }

    @Test(arguments: [1.0, 7, 100, 1000, 20_000], [1, 2, 5])
    func `no second has more than the limit, all daemons together`(rate: Double, daemons: Int) {
        let seed = UInt64.random(in: 1...1_000_000)
        let times = run(.init(pushesPerSecond: rate), daemons: daemons, seconds: 10, seed: seed)
        #expect(most(times) <= Int(rate), "seed \(seed)")
        #expect(!times.isEmpty)
    }

    @Test func `bits are counted by payload, and a payload above the usual window gets a longer one`() {
        let seed = UInt64.random(in: 1...1_000_000)
        // 1000 bytes are 8000 bits: ten of them make 80,000, and a window of 100 ms has room for less than one.
        let times = run(.init(bitsPerSecond: 80_000), payload: 1000, daemons: 3, seconds: 20, seed: seed)
        #expect(most(times) <= 10, "seed \(seed)")
        #expect(times.count > 40)
    }

    @Test func `one daemon that asks in time gets 97 % of the limit`() {
        var limits = RateLimits(limits: .init(), now: start)
        limits.change(fleet: .init(pushesPerSecond: 1000))
        var (count, free) = (0, start)
        for millisecond in 0..<10_000 {
            let now = start + .milliseconds(millisecond)
            while limits.admit(payload: 1, now: now) == nil { count += 1 }
            guard let length = limits.wantedLease else { continue }
            free = max(free, now)
            limits.leased(from: free, length: length)
            free += length
        }
        #expect((9600...9760).contains(count))
    }

    @Test func `without a lease nothing goes, and without a limit everything does`() {
        var limits = RateLimits(limits: .init(), now: start)
        #expect(limits.admit(payload: 1, now: start) == nil)
        limits.change(fleet: .init(pushesPerSecond: 10))
        #expect(limits.admit(payload: 1, now: start) != nil)
        #expect(limits.wantedLease != nil)
        limits.change(fleet: .init())
        #expect(limits.admit(payload: 1, now: start) == nil)
        #expect(limits.wantedLease == nil)
    }
}
