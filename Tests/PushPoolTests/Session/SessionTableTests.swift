import Platform
import Testing

@testable import PushPool

@Suite("The attempts of a session")
struct AttemptTableTests {
    /// Complaint 13 of docs/complaints.md: a client that never took its entries out.
    @Test func `after thousands of errors a session's table is empty`() {
        let now = Instant.now
        var table = AttemptTable()
        var highest = 0
        var stream: StreamID = 1
        for round in 0..<50 {
            var open: [(stream: StreamID, slot: Int)] = []
            for id in 0..<100 {
                let slot = table.add(UInt64(round * 100 + id), deadline: now)
                table.setStream(stream, at: slot)
                open.append((stream, slot))
                highest = max(highest, slot)
                stream += 2
            }
            #expect(table.count == 100)
            // In another order than they came.
            for (stream, slot) in open.sorted(by: { $0.slot * 37 % 101 < $1.slot * 37 % 101 }) {
                #expect(table.holds(stream, at: slot))
                table.release(slot: slot)
                #expect(!table.holds(stream, at: slot))
            }
        }
        #expect(table.count == 0)
        #expect(table.oldestSlot == nil)
        #expect(table.unreportedSlots.isEmpty)
        #expect(highest < 100, "slots are used again")
    }
}

@Suite("The table of a session's transitions")
struct SessionTableTests {
    private typealias Machine = SessionMachine
    private static let late = Duration.seconds(3600)

    private static func session(_ phase: String, inFlight ids: [UInt64]) -> SessionFixture {
        var session = SessionFixture(inFlight: ids)
        if phase == "draining" { _ = session.tell { $0.retire(because: .closedByUs, &$1) } }
        if phase == "closed" { _ = session.close(SessionFixture.lost, written: [0, 1]) }
        return session
    }

    private static func reject(_ session: inout SessionFixture, _ slot: Int, _ status: Int, _ reason: String) -> [Machine.Effect]
    {
        let rejection = Rejection(status: status, reason: reason)
        return session.tell { $0.answered(.rejected(rejection), stream: StreamID(2 * slot + 1), at: slot, &$1) }
    }

    /// Returns the effects of a fact on a session that was prepared for it.
    private static func effects(of fact: String, on session: inout SessionFixture) -> [Machine.Effect]? {
        switch fact {
        case "`answered`": return session.answer(0)
        case "`answered`, the last one":
            _ = session.answer(1)
            return session.answer(0)
        case "`answered`, 503 Shutdown": return reject(&session, 0, 503, "Shutdown")
        case "`answered`, a third 500":
            for slot in [2, 3] { _ = reject(&session, slot, 500, "") }
            return reject(&session, 0, 500, "")
        case "`streamReset`": return session.reset(0, code: 8)
        case "`notOpened`": return session.tell { $0.notOpened(at: 0, &$1) }
        case "`cancelled`": return session.tell { $0.cancelled([1], &$1) }
        case "`limitChanged`": return session.tell { $0.limitChanged(to: 5, &$1) }
        case "`receivedGoAway` with one stream above the last id": return session.goAway(last: 1)
        case "`retire`", "`retire`, none in flight": return session.tell { $0.retire(because: .closedByUs, &$1) }
        case "`tick`, a request past its limit", "`tick`, silence past its limit, none in flight":
            return session.tick(after: late)
        case "`tick`, no window past the limit of a request, none in flight":
            session.observe(hasWindow: false)
            return session.tick(after: .seconds(15))
        case "`tick`, PING without response":
            _ = session.tick(after: late)
            return session.tick(after: late * 2)
        case "`pingAnswered`, requests past their limit":
            _ = session.tick(after: late)
            return session.pong(1, after: late)
        case "`connectionLost`": return session.tell { $0.connectionLost(SessionFixture.lost, &$1) }
        case "`endedByOwner`": return session.tell { $0.endedByOwner(&$1) }
        case "`closed`": return session.close(SessionFixture.lost, written: [0, 1])
        default: return nil
        }
    }

    @Test func `is that of the code`() {
        TransitionTable("Sources/PushPool/Session/SessionMachine.swift").compare { fact, phase in
            let count: UInt64 = fact.hasSuffix("none in flight") ? 0 : fact.hasSuffix("a third 500") ? 4 : 2
            var session = Self.session(phase, inFlight: Array(0..<count))
            let effects = Self.effects(of: fact, on: &session)
            return effects.map {
                TransitionTable.cell($0.map(TransitionTable.kind), from: phase, to: "\(session.machine.phase)")
            }
        }
    }
}
