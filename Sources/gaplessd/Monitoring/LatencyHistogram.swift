/// Counts durations in fixed buckets.
struct LatencyHistogram: Sendable, Equatable {
    /// The upper bounds of the buckets, in seconds. One more bucket holds longer durations.
    static let bounds = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50]

    /// Attoseconds in a tick: a shift instead of a division of 128 bits for each push.
    private static let shift = 30
    private static let ticksPerSecond = 1e18 / Double(1 << shift)
    private static let limits = bounds.map { Int64(($0 * ticksPerSecond).rounded()) }

    /// The number of durations in each bucket alone.
    private(set) var counts = LatencyHistogram.none
    /// Shared by all apps without responses: thousands of arrays of their own would cost a snapshot a millisecond.
    private static let none = [Int](repeating: 0, count: bounds.count + 1)
    private var ticks: Int64 = 0

    /// Counts a duration. One below zero counts as zero.
    mutating func record(_ duration: Duration) {
        let ticks = Int64(clamping: max(0, duration.attoseconds >> Self.shift))
        var low = 0
        var high = Self.limits.count
        while low < high {
            let middle = (low + high) / 2
            if ticks <= Self.limits[middle] { high = middle } else { low = middle + 1 }
        }
        counts[low] += 1
        self.ticks &+= ticks
    }

    var total: Int { counts.reduce(0, +) }

    /// The sum of all durations, in seconds.
    var sum: Double { Double(ticks) / Self.ticksPerSecond }

    /// The durations since an earlier state.
    func since(_ earlier: LatencyHistogram) -> LatencyHistogram {
        var difference = self
        for index in counts.indices { difference.counts[index] -= earlier.counts[index] }
        difference.ticks &-= earlier.ticks
        return difference
    }

    /// Adds the durations of another histogram.
    mutating func add(_ other: LatencyHistogram) {
        for index in counts.indices { counts[index] += other.counts[index] }
        ticks &+= other.ticks
    }

    /// The estimated duration, in seconds, that a share of the durations does not exceed; `nil` without durations. Within a
    /// bucket it is interpolated, as Prometheus' `histogram_quantile` does; beyond the last bound it is that bound.
    func quantile(_ share: Double) -> Double? {
        let total = total
        if total <= 0 { return nil }
        let rank = share * Double(total)
        var below = 0
        for (index, bound) in Self.bounds.enumerated() {
            let inside = counts[index]
            if inside > 0, Double(below + inside) >= rank {
                let start = index == 0 ? 0 : Self.bounds[index - 1]
                return min(bound, start + (bound - start) * max(0, rank - Double(below)) / Double(inside))
            }
            below += inside
        }
        return Self.bounds.last
    }
}
