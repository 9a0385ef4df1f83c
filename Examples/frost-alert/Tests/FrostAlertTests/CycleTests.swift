import Foundation
import Testing

@testable import FrostAlert

@Suite("The next step of the forecast cycles")
struct CycleTests {
    private let start = Fixture.date("2026-11-25T00:00:00Z")

    private func step(after seconds: TimeInterval, isFinished: Bool, hasPlaces: Bool = true) -> Cycle.Step {
        let latest = Cycle(number: 4, start: start, isFinished: isFinished)
        return Cycle.next(after: latest, now: start + seconds, every: 100, hasPlaces: hasPlaces)
    }

    @Test func `is the first cycle in a new database`() {
        #expect(Cycle.next(after: nil, now: start, every: 100, hasPlaces: true) == .begin)
    }

    @Test func `waits for the first place`() {
        #expect(Cycle.next(after: nil, now: start, every: 100, hasPlaces: false) == .wait(until: start + 1))
        #expect(step(after: 100, isFinished: true, hasPlaces: false) == .wait(until: start + 101))
    }

    @Test func `continues an interrupted cycle`() {
        #expect(step(after: 99, isFinished: false) == .resume(Cycle(number: 4, start: start, isFinished: false)))
    }

    @Test func `waits for the interval after a complete cycle`() {
        #expect(step(after: 1, isFinished: true) == .wait(until: start + 100))
    }

    @Test func `begins a cycle when the interval is over, whether or not the last one is complete`() {
        #expect(step(after: 100, isFinished: true) == .begin)
        #expect(step(after: 5000, isFinished: false) == .begin)
    }

    @Test func `waits at most one interval if the clock was set back`() {
        #expect(step(after: -9000, isFinished: true) == .wait(until: start - 8900))
    }
}
