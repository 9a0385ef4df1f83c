/// First in, first out, without moving what waits at each turn.
struct FIFO<Element> {
    private var items: [Element] = []
    private var head = 0

    var count: Int { items.count - head }
    var isEmpty: Bool { head == items.count }
    /// What one wants to know of the oldest, without a copy of it.
    @inline(__always)
    func first<Value>(_ read: (borrowing Element) -> Value) -> Value? { isEmpty ? nil : read(items[head]) }

    mutating func append(_ element: Element) {
        items.append(element)
    }

    mutating func popFirst() -> Element? {
        if isEmpty { return nil }
        let element = items[head]
        head += 1
        if head == items.count {
            items.removeAll(keepingCapacity: true)
            head = 0
        } else if head >= 256 {
            // Rarely: whoever pops has mostly answered everything.
            items.removeFirst(head)
            head = 0
        }
        return element
    }
}
