import Clocks

/// What is due when: a binary heap, the earliest on top; equal times come out in the order they went in.
struct Deadlines<Element> {
    private struct Entry {
        var due: Instant
        var number: UInt64
        var element: Element

        func isBefore(_ other: Entry) -> Bool { due == other.due ? number < other.number : due < other.due }
    }

    private var heap: [Entry] = []
    private var nextNumber: UInt64 = 0

    var first: Instant? { heap.first?.due }

    mutating func add(_ element: Element, at due: Instant) {
        heap.append(Entry(due: due, number: nextNumber, element: element))
        nextNumber += 1
        var child = heap.count - 1
        while child > 0, heap[child].isBefore(heap[(child - 1) / 2]) {
            heap.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    /// The earliest, if it is due.
    mutating func popDue(_ now: Instant) -> Element? {
        guard let top = heap.first, top.due <= now else { return nil }
        let last = heap.removeLast()
        if heap.isEmpty { return top.element }
        heap[0] = last
        sink()
        return top.element
    }

    private mutating func sink() {
        var parent = 0
        while 2 * parent + 1 < heap.count {
            var child = 2 * parent + 1
            if child + 1 < heap.count && heap[child + 1].isBefore(heap[child]) { child += 1 }
            guard heap[child].isBefore(heap[parent]) else { return }
            heap.swapAt(child, parent)
            parent = child
        }
    }
}
