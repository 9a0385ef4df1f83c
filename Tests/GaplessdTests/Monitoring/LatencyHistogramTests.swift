import Harness
import Testing

@testable import gaplessd

@Suite("The histogram of latencies")
struct LatencyHistogramTests {
    private func histogram(_ durations: [Duration]) -> LatencyHistogram {
        var histogram = LatencyHistogram()
        for duration in durations { histogram.record(duration) }
        return histogram
    }

    @Test func `a bucket includes its upper bound`() {
        #expect(histogram([.milliseconds(1)]).counts[0] == 1)
        #expect(histogram([.microseconds(1001)]).counts[1] == 1)
        #expect(histogram([.seconds(50)]).counts[14] == 1)
        #expect(histogram([.seconds(51), .seconds(Int64.max)]).counts[15] == 2)
        #expect(histogram([.seconds(-1)]).counts[0] == 1)
    }

    @Test func `the sum is that of the durations`() {
        let sum = histogram([.milliseconds(250), .seconds(3), .nanoseconds(1000)]).sum
        #expect(abs(sum - 3.250_001) < 1e-6)
    }

    @Test func `quantiles lie in the bucket of the true quantile`() {
        let seed = UInt64.random(in: .min ... .max)
        var random = SeededGenerator(seed: seed)
        for _ in 0..<200 {
            let microseconds = (0..<Int.random(in: 1...300, using: &random)).map { _ in
                Int(pow10(Double.random(in: 1...7, using: &random)))
            }
            let filled = histogram(microseconds.map { .microseconds($0) })
            for share in [0.5, 0.99] {
                let rank = max(1, Int((share * Double(microseconds.count)).rounded(.up)))
                let exact = Double(microseconds.sorted()[rank - 1]) / 1e6
                let low = LatencyHistogram.bounds.last { $0 < exact } ?? 0
                let high = LatencyHistogram.bounds.first { $0 >= exact } ?? 50
                let estimate = filled.quantile(share) ?? -1
                #expect(estimate >= low && estimate <= high, "seed \(seed), \(exact) \(estimate)")
            }
        }
        #expect(LatencyHistogram().quantile(0.5) == nil)
    }

    @Test func `a difference has the later durations only`() {
        let before = histogram([.milliseconds(5), .seconds(2)])
        var after = before
        after.record(.milliseconds(70))
        #expect(after.since(before) == histogram([.milliseconds(70)]))
        var sum = before
        sum.add(histogram([.milliseconds(70)]))
        #expect(sum == after)
    }

    private func pow10(_ exponent: Double) -> Double {
        var value = 1.0
        for _ in 0..<Int(exponent) { value *= 10 }
        return value * (1 + 9 * (exponent - exponent.rounded(.down)))
    }
}
