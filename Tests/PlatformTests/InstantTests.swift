import Platform
import Testing

@Suite("Moments of the clock that no one sets")
struct InstantTests {
    private let start = Instant.now

    @Test("is the clock that ContinuousClock reads")
    func isTheBootClock() {
        let outer = ContinuousClock.now
        let start = Instant.now
        let inner = ContinuousClock.now
        let least = inner.duration(to: .now)
        let elapsed = Instant.now - start
        #expect(least <= elapsed && elapsed <= outer.duration(to: .now))
    }

    @Test(
        "sums and differences undo each other",
        arguments: [.zero, .nanoseconds(1), .nanoseconds(-1), .seconds(86_400), .milliseconds(-3001), Duration(attoseconds: 1)])
    func undoesEachOther(step: Duration) {
        #expect(start + step - step == start)
        #expect(start + step - start == step)
        #expect(start - (start + step) == .zero - step)
        var moved = start
        moved += step
        #expect(moved == start + step)
        #expect((start < start + step) == (step > .zero))
        #expect((start > start + step) == (step < .zero))
    }

    @Test("stays at its end where a sum would leave it", arguments: [Duration(attoseconds: .max), Duration(attoseconds: .min)])
    func staysAtItsEnd(step: Duration) {
        let (end, other) = (start + step + step, start - step - step)
        #expect(end + step == end)
        #expect(other - step == other)
        #expect((end > start) == (step > .zero))
        #expect((other < start) == (step > .zero))
        #expect((end - other > .zero) == (step > .zero))
    }

    @Test("the earliest of several is kept, and nothing of nothing")
    func keepsTheEarliest() {
        var earliest = Earliest()
        earliest.consider(nil)
        #expect(earliest.instant == nil)
        for step in [3, 1, 2] {
            earliest.consider(start + .seconds(step))
            earliest.consider(nil)
        }
        #expect(earliest.instant == start + .seconds(1))
        #expect(Earliest(start).instant == start)
    }
}
