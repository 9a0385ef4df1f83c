import Testing

@testable import PushPool

@Suite("Items by the ids of their notifications")
struct SlotTableTests {
    private var table = SlotTable<String>()

    @Test mutating func `a late id of a slot that is used again finds nothing`() {
        let first = table.insert("a")
        #expect(table[first] == "a")
        let removed = (0..<2).map { _ in table.remove(first) }
        #expect(removed == ["a", nil])
        let second = table.insert("b")
        #expect(second.slot == first.slot && second != first)
        #expect(table[first] == nil)
        #expect(!table.holds(first) && table.holds(second))
        let late = table.remove(first)
        #expect(late == nil && table.count == 1)
    }

    @Test mutating func `a reserved id has no item until it is filled, and counts`() {
        let id = table.reserve()
        #expect(table.holds(id) && table[id] == nil && table.count == 1)
        #expect(table.ids() == [])
        table.fill(id, with: "a")
        #expect(table.ids() == [id])
        let other = table.reserve()
        let nothing = table.remove(other)
        #expect(nothing == nil && !table.holds(other))
    }

    @Test mutating func `an item is changed in place, and an unknown one is not made`() {
        let ids = ["a", "b", "c"].map { table.insert($0) }
        table[ids[1]]?.append("!")
        table.remove(ids[2])
        table[ids[2]]?.append("!")
        table[SlotID(99)]?.append("!")
        #expect(ids.map { table[$0] } == ["a", "b!", nil])
        #expect(table.ids { $0.hasSuffix("!") } == [ids[1]])
    }
}
