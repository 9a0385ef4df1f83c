import Harness
import Platform
import Testing

@testable import PushPool

@Suite("Whatever a peer does, in any order")
struct SessionMachineRandomTests {
    @Test(arguments: 0..<50) func `every attempt ends exactly once`(round: Int) {
        var generator = SeededGenerator(seed: UInt64(round) &+ 0x9E37_79B9_7F4A_7C15)
        var session = SessionFixture(limit: 20)
        var open: [UInt64] = []
        var ended: [UInt64] = []
        var clock = Duration.zero
        var slots: [Int: StreamID] = [:]
        var stream: StreamID = 1
        func take(_ effects: [SessionMachine.Effect]) {
            for case .report(let id, _, _) in effects { ended.append(id) }
        }
        for step in 0..<400 {
            clock += .milliseconds(Int.random(in: 0...400, using: &generator))
            switch Int.random(in: 0..<12, using: &generator) {
            case 0..<5:
                guard session.machine.free > 0 else { break }
                let slot = session.machine.accepted(UInt64(step), now: session.start + clock)
                session.machine.opened(stream, at: slot)
                slots[slot] = stream
                stream += 2
                open.append(UInt64(step))
            case 5..<8:
                guard let (slot, stream) = slots.randomElement(using: &generator) else { break }
                take(session.tell { $0.answered(SessionFixture.delivered, stream: stream, at: slot, &$1) })
                slots[slot] = nil
            case 8:
                guard let (slot, stream) = slots.randomElement(using: &generator) else { break }
                let time = session.start + clock
                take(session.tell { $0.streamReset(code: 7, wasSent: true, stream: stream, at: slot, now: time, &$1) })
                slots[slot] = nil
            case 9: take(session.tell { $0.limitChanged(to: Int.random(in: 0...20, using: &generator), &$1) })
            case 10:
                take(session.tick(after: clock))
                take(session.pong(UInt64.random(in: 0...5, using: &generator), after: clock))
            default:
                if Int.random(in: 0..<20, using: &generator) == 0 { take(session.goAway(last: StreamID(stream.number / 2))) }
            }
        }
        take(session.close(SessionFixture.lost))
        #expect(ended.sorted() == open, "seed \(round)")
    }
}
