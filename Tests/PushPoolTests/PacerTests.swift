import Testing

@testable import PushPool

@Suite("Pushes a second")
struct PacerTests {
    private let start = ContinuousClock.now

    /// Asks at random moments, now and then late; returns when each push went.
    private func run(_ limits: Pacer.Limits, payload: Int = 100, seconds: Double, seed: UInt64) -> [Double] {
        var random = PacerRandom(state: seed)
        var pacer = Pacer(limits: limits, now: start)
        var now = 0.0
        var went: [Double] = []
        while now < seconds {
            now += Double.random(in: 0...0.002, using: &random) * (Int.random(in: 0..<50, using: &random) == 0 ? 200 : 1)
            while pacer.admit(payload: payload, now: start + .seconds(now)) { went.append(now) }
        }
        return went
    }

    /// The most within any second.
    private func most(_ times: [Double]) -> Int {
        var (first, most) = (0, 0)
        for (place, time) in times.enumerated() {
            while times[first] <= time - 1 { first += 1 }
            most = max(most, place - first + 1)
        }
        return most
    }

    @Test(arguments: [1.0, 7, 100, 1000, 20_000])
    func `no second has more than the limit, however late one asks`(rate: Double) {
        let seed = UInt64.random(in: 1...1_000_000)
        let times = run(.init(pushesPerSecond: rate), seconds: 10, seed: seed)
        #expect(most(times) <= Int(rate), "seed \(seed)")
        #expect(!times.isEmpty)
    }

    @Test func `who asks in time gets the whole limit but half a percent`() {
        var pacer = Pacer(limits: .init(pushesPerSecond: 1000), now: start)
        var count = 0
        for millisecond in 0..<10_000 {
            while pacer.admit(payload: 1, now: start + .milliseconds(millisecond)) { count += 1 }
        }
        #expect((9900...9960).contains(count))
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

    @Test func `a refused push says when to ask again`() {
        let pacer = SharedPacer(pushesPerSecond: 10, bitsPerSecond: 0)
        let now = ContinuousClock.now
        let first = pacer.admit(5, now: now) { _ in 100 }
        #expect(first.count == 1)
        #expect(first.again.map { $0 > now && $0 < now + .milliseconds(110) } == true)
        #expect(pacer.holding == 5)
    }

    @Test func `without limits everything goes`() {
        let pacer = SharedPacer(pushesPerSecond: 0, bitsPerSecond: 0)
        #expect(pacer.admit(1000, now: .now) { _ in 4096 }.count == 1000)
        #expect(pacer.holding == nil)
    }
}

/// SplitMix64: a generator that a seed replays.
private struct PacerRandom: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}
