import Harness
import Platform
import PushPool
import Testing

@testable import APNSClient

@Suite("Random facts")
struct SendRandomTests {
    private static let outcomes: [Outcome] = [
        .delivered(apnsID: nil), .delivered(apnsID: "ID"), .timedOut, .outdated, .begun(expiration: 9),
        .notProcessed(.connectionLost("a")), .maybeProcessed(.connectionLost("b")), .notProcessed(.goAway(code: 0, reason: "")),
        .rejected(Rejection(status: 400, reason: "BadDeviceToken")), .rejected(Rejection(status: 410, reason: "Unregistered")),
        .rejected(Rejection(status: 429, reason: "TooManyRequests", retryAfter: .seconds(2))),
        .rejected(Rejection(status: 429, reason: "Busy")), .rejected(Rejection(status: 503, reason: "Shutdown")),
        .rejected(Rejection(status: 403, reason: "ExpiredProviderToken")),
        .rejected(Rejection(status: 403, reason: "InvalidProviderToken")), .rejected(Rejection(status: 500, reason: "")),
    ]

    /// A pool that never forgets a notification, with random outcomes.
    private struct World {
        var fixture: MachineFixture
        var generator: SeededGenerator
        var inPool: [SendID] = []
        var seen = 0
        var results: [SendID: Int] = [:]
        var sent: [SendID] = []

        mutating func tell(_ facts: (inout SendMachine, Instant, inout [SendEffect]) -> Void) {
            var effects = fixture.tell(facts)
            var turns = 0
            while true {
                inPool += fixture.pooled[seen...]
                seen = fixture.pooled.count
                if effects.isEmpty { return }
                turns += 1
                precondition(turns < 10_000, "the effects do not end")
                let effect = effects.removeFirst()
                switch effect {
                case .settle(let id, _): results[id, default: 0] += 1
                case .cancel(let id):
                    // A session may have taken it already.
                    guard Bool.random(using: &generator), let place = inPool.firstIndex(of: id) else { continue }
                    inPool.remove(at: place)
                    effects += fixture.tell { $0.withdrew(id, now: $1, &$2) }
                case .takeBack:
                    let back = inPool.filter { _ in Bool.random(using: &generator) }
                    inPool.removeAll { back.contains($0) }
                    for id in back { effects += fixture.tell { $0.withdrew(id, now: $1, &$2) } }
                case .renewToken(let id, _):
                    let renewal = [SessionPool.TokenRenewal.renewed, .alreadyRenewed, .tooYoung].randomElement(using: &generator)!
                    effects += fixture.tell { $0.renewed(id, renewal, now: $1, &$2) }
                case .reconnect, .keepToken, .close: break
                }
            }
        }
    }

    @Test(arguments: 1...100 as ClosedRange<UInt64>)
    func `give every send exactly one result`(seed: UInt64) {
        var world = World(fixture: MachineFixture(capacity: 20), generator: SeededGenerator(seed: seed))
        for _ in 0..<600 {
            switch Int.random(in: 0..<10, using: &world.generator) {
            case 0...3:
                var push = MachineFixture.push
                if Bool.random(using: &world.generator) {
                    push.deadline = .milliseconds(.random(in: 1...20_000, using: &world.generator))
                }
                let id = world.fixture.machine.reserve()
                world.sent.append(id)
                world.tell { $0.submitted(id, push, now: $1, time: 1_700_000_000, &$2) }
            case 4...6:
                guard let id = world.inPool.randomElement(using: &world.generator) else { continue }
                let outcome = Self.outcomes.randomElement(using: &world.generator)!
                if case .begun = outcome {} else { world.inPool.removeAll { $0 == id } }
                world.tell { $0.ended(id, outcome, on: SessionID(1), isCurrent: true, now: $1, random: 0.5, &$2) }
            case 7:
                guard let id = world.sent.randomElement(using: &world.generator) else { continue }
                world.tell { $0.cancelled(id, now: $1, &$2) }
            case 8:
                world.fixture.now += .milliseconds(.random(in: 0...3000, using: &world.generator))
                world.tell { $0.tick(now: $1, &$2) }
            default:
                let capacity = Int.random(in: 0...40, using: &world.generator)
                world.tell { machine, _, _ in machine.observed(capacity: capacity) }
            }
            #expect(Set(world.inPool).count == world.inPool.count, "seed \(seed): a notification is in the pool twice")
        }
        world.fixture.now += .seconds(1)
        world.tell { $0.stopped(until: $1, now: $1, &$2) }
        for id in world.inPool {
            world.tell { $0.ended(id, .maybeProcessed(.closedByUs), on: SessionID(1), isCurrent: true, now: $1, random: 0, &$2) }
        }
        world.tell { machine, _, effects in machine.poolClosed(&effects) }
        #expect(world.sent.allSatisfy { world.results[$0] == 1 }, "seed \(seed)")
        #expect(world.results.count == world.sent.count, "seed \(seed)")
        #expect(world.fixture.machine.count == 0, "seed \(seed)")
    }

    @Test func `leave no memory behind`() {
        var fixture = MachineFixture(capacity: 0)
        for _ in 0..<20_000 {
            let id = fixture.send().id
            fixture.tell { $0.cancelled(id, now: $1, &$2) }
        }
        #expect(fixture.machine.records < 3000)
    }
}
