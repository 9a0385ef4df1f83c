import Harness
import Platform
import PushPool
import RedisQueue
import Testing

@testable import gaplessd

@Suite("The dispatcher: deadlines")
struct DispatchDeadlineTests {
    private typealias Fixture = MachineFixture

    @Test func `a held job of an unreachable app does not keep the loop awake`() {
        let fixture = MachineFixture()
        fixture.close()
        let onStream = fixture.send()
        fixture.machine.observed(.init(capacity: 0), app: 0)
        for _ in 0..<5 {
            fixture.pass(.seconds(1))
            #expect(fixture.tick() == [.withdraw(.release, app: 0)])
            #expect(fixture.deadline == fixture.now + .seconds(1))
        }
        #expect(fixture.accept(onStream) == [.acknowledge(ClaimID(2), list: 0)])
        #expect(fixture.deadline == nil)
    }

    /// Tells random facts; a deadline that has passed after a turn would make the loop spin.
    @Test(arguments: 1...20 as ClosedRange<UInt64>)
    func `after a turn no deadline has passed`(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let fixture = MachineFixture(MachineFixture.plan(apps: [nil, "beta"]))
        var sent: [JobID] = []
        for step in 0..<300 {
            let app = Int.random(in: 0...1, using: &random)
            switch Int.random(in: 0..<10, using: &random) {
            case 0...2: _ = fixture.claim(Fixture.job("ab", app == 0 ? "" : #""app":"beta""#))
            case 3: if let id = sent.popLast() { _ = fixture.accept(id) }
            case 4: if let id = sent.popLast() { _ = fixture.reject(id, 503, "ServiceUnavailable") }
            case 5: if let id = sent.popLast() { _ = fixture.reject(id, 403, "Forbidden") }
            case 6: if let id = sent.popLast() { _ = fixture.reject(id, 400, "BadDeviceToken") }
            case 7: fixture.machine.observed(.init(capacity: 0), app: app)
            case 8: fixture.machine.observed(.init(capacity: 100, limit: 10, waiting: 3), app: app)
            default: _ = fixture.effects { $0.happened(.leaseInDoubt, list: 0, &$1) }
            }
            if step % 50 == 0 { _ = fixture.effects { $0.happened(.connected(warnings: []), list: 0, &$1) } }
            _ = fixture.tick()
            _ = fixture.offers()
            sent += fixture.sent(by: 0) + fixture.sent(by: 1)
            let deadline = fixture.deadline
            #expect(deadline.map { $0 > fixture.now } ?? true, "seed \(seed), step \(step)")
            fixture.pass(.milliseconds(Int.random(in: 1...2000, using: &random)))
        }
    }
}
