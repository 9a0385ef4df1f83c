import HeapModule
import Platform

/// Elements with due times. Elements with equal times come out in the order of insertion.
struct Deadlines<Element> {
    private struct Entry: Comparable {
        var due: Instant
        var number: UInt64
        var element: Element

        static func < (left: Entry, right: Entry) -> Bool { (left.due, left.number) < (right.due, right.number) }
        static func == (left: Entry, right: Entry) -> Bool { left.number == right.number }
    }

    private var heap = Heap<Entry>()
    private var nextNumber: UInt64 = 0

    var first: Instant? { heap.min?.due }

    mutating func add(_ element: Element, at due: Instant) {
        heap.insert(Entry(due: due, number: nextNumber, element: element))
        nextNumber += 1
    }

    /// Removes and returns the earliest element if it is due.
    mutating func popDue(_ now: Instant) -> Element? {
        guard let first, first <= now else { return nil }
        return heap.popMin()?.element
    }
}
