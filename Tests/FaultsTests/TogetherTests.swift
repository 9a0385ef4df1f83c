import Harness
import Platform
import Testing

@testable import Faults

@Suite("Trials at the same time")
struct TogetherTests {
    /// One delivered job, one lost job for each place, and one unexpected delivery.
    private static func result(_ place: Int) -> Trial.Result {
        let ledger = Ledger("200 good id hash\n200 good id hash\n200 strange id hash\n")
        let lost = (0..<place).map { "lost \($0)" }
        return Trial.Result(
            times: 1 + place, accounting: Accounting(queued: Set(lost + ["good", "dead"]), ledger: ledger, dead: ["dead"]),
            bound: 10,
            counted: 20,
            recovery: place == 0 ? nil : .seconds(place), gone: 3,
            figures: DaemonFigures(
                idleShare: 0.01 * Double(place), longestTurn: .milliseconds(place), exitTime: .seconds(3 - place)),
            failures: place == 1 ? ["of one"] : [])
    }

    @Test func `their results are added`() throws {
        let sum = try together(3, Self.result)
        #expect(sum.times == 6)
        #expect(sum.accounting.queued == 9)
        #expect(sum.accounting.delivered == 6)
        #expect(sum.accounting.extra == 3)
        #expect(sum.accounting.dead == 3)
        #expect(sum.accounting.unexpected == 3)
        #expect(sum.accounting.lost == 3)
        #expect((sum.bound, sum.counted, sum.gone) == (30, 60, 9))
        #expect(sum.recovery == .seconds(2))
        #expect(sum.figures == DaemonFigures(idleShare: 0.02, longestTurn: .milliseconds(2), exitTime: .seconds(3)))
        #expect(sum.failures == ["of one"])
    }

    @Test func `a failed trial throws, and the others run to their end`() {
        let ended = Locked(0)
        #expect(throws: TrialError.self) {
            _ = try together(4) { place in
                if place == 2 { throw TrialError(description: "not back") }
                ended.withLock { $0 += 1 }
                return Self.result(place)
            }
        }
        #expect(ended.withLock { $0 } == 3)
    }

    @Test func `they run at the same time`() throws {
        let present = Locked(0)
        let sum = try together(3) { place in
            present.withLock { $0 += 1 }
            guard waitUntil(atMost: .seconds(30), { present.withLock { $0 } == 3 }) else {
                throw TrialError(description: "alone")
            }
            return Self.result(place)
        }
        #expect(sum.times == 6)
    }
}
