import Testing

@testable import APNSClient

@Suite("The sends that wait")
struct WaitingSendsTests {
    private var waiting = WaitingSends()

    @Test mutating func `are taken in their order, and resends before all others`() {
        for number in 1...3 { waiting.append(SendID(UInt64(number))) }
        waiting.prepend(SendID(9))
        var order: [UInt64] = []
        while let id = waiting.popFirst() { order.append(id.rawValue) }
        #expect(order == [9, 1, 2, 3])
        #expect(waiting.count == 0)
    }

    @Test mutating func `are dropped after their result, once those are the majority`() {
        for number in 0..<1000 { waiting.append(SendID(UInt64(number))) }
        waiting.trim(live: 500) { $0.rawValue < 500 }
        #expect(waiting.count == 1000)
        waiting.trim(live: 100) { $0.rawValue < 100 }
        #expect(waiting.count == 100)
        #expect(waiting.popFirst() == SendID(0))
    }
}
