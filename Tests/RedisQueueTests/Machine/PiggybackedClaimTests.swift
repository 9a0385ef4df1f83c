import Platform
import Testing

@testable import RedisQueue

@Suite("The claim behind the wait")
struct PiggybackedClaimTests {
    private var machine = MachineFixture()

    @Test mutating func `a wait without a job is followed by a claim without jobs, and by the next wait`() {
        machine.waitForJobs()
        machine.wake(nil)
        machine.advance()
        #expect(machine.effects().isEmpty)
        machine.piggybackedClaim([], chunk: 3, drained: 1)
        machine.advance()
        #expect(machine.effects() == [.wait(MachineFixture.claim(5, 32, after: 0))])
    }

    @Test mutating func `a wait begins without a claim while a job is being split`() {
        machine.serve()
        machine.offer(100)
        machine.advance()
        machine.effects()
        machine.claim(["many"], asked: 100, drained: 1)
        machine.settle(id(1, 0), .split(into: JobParts(prefix: [], ranges: [0..<1, 1..<2], suffix: [])))
        machine.advance()
        #expect(machine.effects().contains(.wait(nil)))
    }

    @Test mutating func `jobs that do not arrive for some inspections cause a reconnect, a reply on its way does not`() {
        machine.waitForJobs()
        var now = start
        /// Replies to the next inspection, and returns the time it took.
        func inspect(_ machine: inout MachineFixture, found: Int64) -> Duration {
            let began = now
            while machine.phase == .serving {
                now = max(now, machine.deadline ?? now)
                machine.advance(to: now)
                for case .call(let call) in machine.effects() {
                    if case .beat = call {
                        machine.reply([.integer(0), .integer(-1)], to: call, at: now)
                    } else {
                        machine.reply(.integer(found), to: call, at: now)
                        return now - began
                    }
                }
            }
            return now - began
        }
        _ = inspect(&machine, found: 0)
        for _ in 1...4 { _ = inspect(&machine, found: 1) }
        _ = inspect(&machine, found: 0)
        #expect(machine.phase == .serving)
        var lasted = Duration.zero
        while machine.phase == .serving { lasted += inspect(&machine, found: 1) }
        #expect(machine.phase == .disconnected)
        #expect(lasted < .seconds(3))
    }

    @Test mutating func `a piggybacked claim of an unregistered worker has no effect`() {
        machine.waitForJobs()
        machine.stop()
        machine.advance()
        #expect(machine.effects() == [.call(.unregister)])
        machine.wake("a")
        machine.reply(.string(bytes("FENCED")), to: .claim(MachineFixture.claim(3, 32, after: 0)))
        #expect(machine.effects().isEmpty)
        machine.reply(.integer(0), to: .unregister)
        #expect(machine.effects() == [.hangUp, .report(.stopped)])
    }

    @Test mutating func `a job that a piggybacked claim brings during the stop is given back`() {
        machine.waitForJobs()
        machine.stop()
        machine.advance()
        #expect(machine.effects() == [.call(.unregister)])
        machine.wake("a")
        machine.piggybackedClaim(["a"], chunk: 3, drained: 1)
        machine.reply(.integer(1), to: .unregister)
        machine.advance(to: start + .seconds(3))
        machine.effects()
        machine.register(settled: "0", counter: 2, isExpected: true, chunks: ["3": "0:1"])
        machine.reply([.string(bytes("a"))], to: .fetch(.init(chunk: 3, places: [0])))
        machine.effects()
        machine.advance(to: start + .seconds(3))
        guard case .call(.settle(let batch))? = machine.effects().last else {
            Issue.record("it was not given back")
            return
        }
        machine.reply([.integer(1), .integer(0), .integer(-2), .integer(0)], to: .settle(batch))
        machine.advance(to: start + .seconds(3))
        #expect(machine.effects() == [.call(.unregister)])
    }
}
