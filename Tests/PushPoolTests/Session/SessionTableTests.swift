import Platform
import Testing

@testable import PushPool

@Suite("The attempts of a session")
struct SessionTableTests {
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
