import SystemTime
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
        machine.piggybackedClaim([], first: 1, drained: 1)
        machine.advance()
        #expect(machine.effects() == [.wait(.piggybackedClaim(first: 1, count: 32, fromSecond: 32, after: 0))])
    }

    @Test mutating func `a wait begins without a claim while a job is being split`() {
        machine.serve()
        machine.offer(100)
        machine.advance()
        machine.effects()
        machine.claim(["many"], asked: 100, drained: 1)
        machine.settle(1, .split(into: JobParts(prefix: [], ranges: [0..<1, 1..<2], suffix: [])))
        machine.advance()
        #expect(machine.effects().contains(.wait(nil)))
    }

    @Test mutating func `claimed jobs that do not arrive cause a reconnect, fields of others do not`() {
        machine.waitForJobs(fields: ["not a field of this worker"])
        var now = start
        /// Replies to all inspections up to the next count.
        func count(_ machine: inout MachineFixture, held: Int64) {
            while machine.phase == .serving {
                now += .milliseconds(100)
                machine.advance(to: now)
                for case .call(let call) in machine.effects() {
                    if case .beat = call {
                        machine.reply([.integer(0), .integer(-1)], to: call, at: now)
                    } else {
                        machine.reply(.integer(call == .countHeld ? held : 0), to: call, at: now)
                    }
                    if call == .countHeld { return }
                }
            }
        }
        for held: Int64 in [1, 2, 1] { count(&machine, held: held) }
        #expect(machine.phase == .serving)
        count(&machine, held: 2)
        #expect(machine.phase == .serving)
        count(&machine, held: 2)
        #expect(machine.phase == .disconnected)
    }

    @Test mutating func `a piggybacked claim of an unregistered worker has no effect`() {
        machine.waitForJobs()
        machine.stop()
        machine.advance()
        #expect(machine.effects() == [.call(.unregister)])
        machine.wake("a")
        machine.reply(.string(bytes("FENCED")), to: .piggybackedClaim(first: 1, count: 32, fromSecond: 32, after: 0))
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
        machine.piggybackedClaim(["a"], first: 1, drained: 1)
        machine.reply(.integer(1), to: .unregister)
        #expect(machine.effects() == [.call(.fields)])
        machine.reply([.string(bytes("1"))], to: .fields)
        machine.reply([.string(bytes("a"))], to: .fetch(["1"]))
        machine.effects()
        machine.advance()
        guard case .call(.settle(let batch))? = machine.effects().last else {
            Issue.record("it was not given back")
            return
        }
        machine.reply([.integer(1), .integer(0), .integer(-2), .integer(0)], to: .settle(batch))
        machine.advance()
        #expect(machine.effects() == [.call(.unregister)])
    }
}
