/// A first-in, first-out queue that moves its elements in and out: no reference count is touched on the way.
///
/// A class so that it can live inside a lock as it is.
final class Ring<Element: Sendable>: @unchecked Sendable {  // Lives inside a `Locked`, or on one thread and never leaves it.
    private var storage: UnsafeMutablePointer<Element>
    private var capacity: Int  // a power of two
    private var head = 0
    private(set) var count = 0

    init(capacity: Int = 256) {
        self.capacity = 1 << (Int.bitWidth - max(1, capacity - 1).leadingZeroBitCount)
        storage = .allocate(capacity: self.capacity)
    }

    deinit {
        for place in 0..<count { (storage + index(place)).deinitialize(count: 1) }
        storage.deallocate()
    }

    var isEmpty: Bool { count == 0 }

    func append(_ element: consuming Element) {
        if count == capacity { grow() }
        (storage + index(count)).initialize(to: element)
        count += 1
    }

    /// Takes over all of `batch` in order and leaves it empty, with its memory.
    func append(contentsOf batch: inout [Element]) {
        while count + batch.count > capacity { grow() }
        var place = count + batch.count
        count = place
        // From the back: an array gives away its last element without copying it.
        while let element = batch.popLast() {
            place -= 1
            (storage + index(place)).initialize(to: element)
        }
    }

    /// Puts an element before all others.
    func prepend(_ element: consuming Element) {
        if count == capacity { grow() }
        head = (head &+ capacity &- 1) & (capacity &- 1)
        (storage + head).initialize(to: element)
        count += 1
    }

    func popFirst() -> Element? {
        if count == 0 { return nil }
        let first = (storage + head).move()
        head = (head &+ 1) & (capacity &- 1)
        count -= 1
        return first
    }

    private func index(_ place: Int) -> Int { (head &+ place) & (capacity &- 1) }

    private func grow() {
        let larger = UnsafeMutablePointer<Element>.allocate(capacity: capacity * 2)
        let untilEnd = min(count, capacity - head)
        larger.moveInitialize(from: storage + head, count: untilEnd)
        (larger + untilEnd).moveInitialize(from: storage, count: count - untilEnd)
        storage.deallocate()
        storage = larger
        capacity *= 2
        head = 0
    }
}
