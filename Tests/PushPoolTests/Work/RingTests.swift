import Testing

@testable import PushPool

@Suite("A ring")
struct RingTests {
    @Test func `it keeps order while it grows and wraps, and lets its elements go`() {
        final class Probe: Sendable {}
        weak var probe: Probe?
        do {
            let ring = Ring<(Int, Probe)>(capacity: 4)
            let element = Probe()
            probe = element
            var next = 0
            var expected = 0
            for round in 1...100 {
                for _ in 0..<round % 7 {
                    ring.append((next, element))
                    next += 1
                }
                for _ in 0..<round % 5 {
                    guard let first = ring.popFirst() else { break }
                    #expect(first.0 == expected)
                    expected += 1
                }
            }
            for round in 1...20 {
                var batch = (0..<round).map { (next + $0, element) }
                ring.append(contentsOf: &batch)
                next += round
                #expect(batch.isEmpty)
                for _ in 0..<round - 1 {
                    #expect(ring.popFirst()?.0 == expected)
                    expected += 1
                }
            }
            ring.prepend((-1, element))
            #expect(ring.popFirst()?.0 == -1)
            #expect(ring.count == next - expected)
            #expect(!ring.isEmpty)
        }
        #expect(probe == nil)
    }
}
