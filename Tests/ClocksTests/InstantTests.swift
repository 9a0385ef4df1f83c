import Clocks
import Testing

@Suite("Moments of the clock that no one sets")
struct InstantTests {
    private let start = Instant.now

    @Test("is the clock that ContinuousClock reads")
    func isTheBootClock() {
        let clock = ContinuousClock.now
        let start = Instant.now
        let both = (clock.duration(to: .now), Instant.now - start)
        #expect(both.0 >= .zero && both.1 >= .zero)
        #expect(both.1 - both.0 < .seconds(1))
    }

    @Test("sums and differences undo each other to the nanosecond", arguments: [0, 1, 999_999_999, 86_400_000_000_000, -1, -3_000_000_001])
    func undoesEachOther(nanoseconds: Int64) {
        let step = Duration.nanoseconds(nanoseconds)
        #expect(start + step - step == start)
        #expect(start + step - start == step)
        #expect(start - (start + step) == .zero - step)
        var moved = start
        moved += step
        #expect(moved == start + step)
        #expect((start < start + step) == (nanoseconds > 0))
    }

    @Test("drops parts of a nanosecond")
    func dropsParts() {
        let parts = Duration(secondsComponent: 1, attosecondsComponent: 1_999_999_999)
        #expect(start + parts - start == Duration.seconds(1) + .nanoseconds(1))
    }

    @Test("stays at its end where a sum would leave it", arguments: [Duration.seconds(1e12), .seconds(Int64.max), .seconds(Int64.min)])
    func staysAtItsEnd(step: Duration) {
        let end = start + step
        #expect(end + step == end)
        #expect((end > start) == (step > .zero))
        #expect((start - step < start) == (step > .zero))
    }
}
